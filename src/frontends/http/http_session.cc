#include "frontends/http/http_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "frontends/http/metrics_page.h"
#include "frontends/http/unknown_path.h"
#include "frontends/openapi_document.h"

namespace weir::frontends {

enum class HttpSession::Needs : uint8_t {
  kBody,       // a body and a key
  kNothing,    // neither
  kMetricsKey  // a key, unless /metrics is public
};

struct HttpSession::Route {
  std::string_view path;
  std::string_view allow;  // methods; the first is the one that is served
  Needs needs;
  void (HttpSession::*serve)(std::string_view body);
};

const std::array<HttpSession::Route, 7> HttpSession::kRoutes{
    Route{"/v2/ratelimit.limit", "POST, OPTIONS", Needs::kBody, &HttpSession::limit},
    Route{"/v2/ratelimit.multiLimit", "POST, OPTIONS", Needs::kBody, &HttpSession::multi_limit},
    Route{"/v2/ratelimit.peek", "POST, OPTIONS", Needs::kBody, &HttpSession::peek},
    Route{"/healthz", "GET, HEAD, OPTIONS", Needs::kNothing, &HttpSession::healthz},
    Route{"/readyz", "GET, HEAD, OPTIONS", Needs::kNothing, &HttpSession::readyz},
    Route{"/metrics", "GET, HEAD, OPTIONS", Needs::kMetricsKey, &HttpSession::metrics},
    Route{"/openapi.json", "GET, HEAD, OPTIONS", Needs::kNothing, &HttpSession::openapi},
};
const HttpSession::Route HttpSession::kCatalogRoute{"", "POST, OPTIONS", Needs::kBody,
                                                    &HttpSession::catalog_call};

Next HttpSession::process(Instant now, Bytes& in, Bytes& out) {
  if (waiting_ && !pending_->ready) return Next::kWait;
  // The last response was delayed because of a wrong key.
  if (std::exchange(delayed_, false) && close_) return Next::kClose;
  waiting_ = false;
  now_ = now;
  uint64_t answered = 0;
  Next next = Next::kRead;
  while (next == Next::kRead) {
    if (to_skip_ > 0) [[unlikely]] {
      const size_t skipped = std::min(to_skip_, in.size());
      in.consume(skipped);
      to_skip_ -= skipped;
    }
    in.consume(leading_empty_lines(in.unread()));
    if (in.empty() || !process_one(in, out)) break;
    ++answered;
    if (delayed_) {
      next = Next::kDelay;
    } else if (close_) {
      next = Next::kClose;
    } else if (out.size() > max_unsent_) {
      next = Next::kAgain;
    }
  }
  if (waiting_) next = Next::kWait;
  if (answered > 0) service_.http.add_latency(service_.clock.now().mono - now.mono, answered);
  return next;
}

bool HttpSession::process_one(Bytes& in, Bytes& out) {
  HttpHead head;
  HttpFault fault;
  HttpParseStatus status = parse_http_head(in.unread(), head, fault);
  if (status == HttpParseStatus::kIncomplete) return false;
  if (status == HttpParseStatus::kInvalid) {
    reject(fault, in, out);
    return true;
  }
  prefers_429_ = head.prefers_429;
  accepts_problem_ = head.accepts_problem;
  idempotency_key_ = head.idempotency_key;
  const Route* const route = serve_head(head);
  if (waiting_) return false;
  if (route == nullptr) {
    send_without_body(head, in, out);
    return true;
  }
  const size_t arrived = in.size() - head.bytes;
  size_t raw = 0;
  size_t decoded = 0;
  if (head.chunked) {
    status = chunks_.decode(in.unread_data() + head.bytes, arrived, fault);
    raw = chunks_.raw();
    decoded = chunks_.decoded();
  } else {
    raw = decoded = head.body_bytes();
    if (arrived < raw) status = HttpParseStatus::kIncomplete;
  }
  if (status == HttpParseStatus::kIncomplete) {
    if (head.expects_continue && !continue_sent_) out.append("HTTP/1.1 100 Continue\r\n\r\n");
    continue_sent_ = head.expects_continue;
    return false;
  }
  if (status == HttpParseStatus::kInvalid) {
    reject(fault, in, out);
    return true;
  }
  close_ = !head.keep_alive || is_last(arrived - raw);
  // Once for each request: its body may have arrived in parts.
  if (pending_ != nullptr || is_within_rate()) {
    (this->*route->serve)(in.unread().substr(head.bytes, decoded));
  }
  if (waiting_) return false;
  send(&head, out);
  in.consume(head.bytes + raw);
  continue_sent_ = false;
  charged_before_.reset();
  chunks_ = ChunkedBody();
  return true;
}

void HttpSession::reject(const HttpFault& fault, Bytes& in, Bytes& out) {
  accepts_problem_ = false;
  fail(fault.error, fault.detail);
  if (fault.error == HttpError::kContentEncoding)
    scratch_.fields.append("Accept-Encoding: identity\r\n");
  close_ = true;
  send(nullptr, out);
  in.consume(in.size());
}

// Closes where the start of the next request is unknown: chunks end where the decoder finds their
// end, and a client that waits for 100 Continue may or may not send the body.
void HttpSession::send_without_body(const HttpHead& head, Bytes& in, Bytes& out) {
  const size_t body = head.body_bytes();
  const bool lost =
      head.chunked || body > kMaxUnauthenticatedBytes || (head.expects_continue && body > 0);
  const size_t whole = head.bytes + body;
  close_ = !head.keep_alive || lost || is_last(in.size() - std::min(in.size(), whole));
  send(&head, out);
  if (lost) return in.consume(in.size());
  in.consume(head.bytes);
  to_skip_ = body;
}

// In a drain, pipelined requests are answered too, for a limited time.
bool HttpSession::is_last(size_t behind) {
  constexpr Nanos kMaxDrainTime = std::chrono::seconds(1);
  if (!draining_) return false;
  if (!drain_began_) drain_began_ = now_.mono;
  return behind == 0 || now_.mono - *drain_began_ > kMaxDrainTime;
}

const HttpSession::Route* HttpSession::serve_head(const HttpHead& head) {
  begin_response();
  if (is_check_path(head.path)) {
    check(head);
    return nullptr;
  }
  const auto* const listed = std::find_if(
      kRoutes.begin(), kRoutes.end(), [&](const Route& each) { return each.path == head.path; });
  // Not the end of the list, where another route may begin.
  const Route* route = listed == kRoutes.end() ? nullptr : listed;
  if (route == nullptr) {
    const auto operations = catalog_operations();
    const auto found = std::ranges::find(operations, head.path, &CatalogOperation::path);
    operation_ = found == operations.end() ? nullptr : &*found;
    if (operation_ != nullptr) route = &kCatalogRoute;
  }
  const bool options = head.method == "OPTIONS";
  if (route == nullptr && !(options && head.path == "*")) {
    refuse_path(head);
    return nullptr;
  }
  const std::string_view allow = route == nullptr ? "GET, HEAD, POST, OPTIONS" : route->allow;
  const std::string_view served = allow.substr(0, allow.find(','));
  if (options) {
    status_ = 204;
    reason_ = "No Content";
    scratch_.fields.append_all(std::string_view("Allow: "), allow, std::string_view("\r\n"));
    return nullptr;
  }
  if (head.method != served && !(head.method == "HEAD" && served == "GET")) {
    fail(HttpError::kMethodNotAllowed, "this path does not support this method");
    scratch_.fields.append_all(std::string_view("Allow: "), allow, std::string_view("\r\n"));
    return nullptr;
  }
  // A request that waits for a store was authenticated before.
  if (requires_key(*route) && pending_ == nullptr && !authenticate(head)) return nullptr;
  if (route == &kCatalogRoute && pending_ == nullptr) {
    if (const auto refusal = refusal_of(*operation_, access_)) {
      finish(*refusal);
      return nullptr;
    }
  }
  if (route->needs == Needs::kBody) return route;
  (this->*route->serve)({});
  return nullptr;
}

void HttpSession::refuse_path(const HttpHead& head) {
  service_.http.add_from(telemetry::FrontendStat::kUnsupported, peer_);
  fail(HttpError::kUnknownPath, unknown_path(head.path));
  if (!is_upstash(head.method, head.path)) return;
  scratch_.body.clear();
  scratch_.body.append_all(std::string_view(R"({"error":")"), kNoUpstash,
                           std::string_view(R"("})"));
}

bool HttpSession::requires_key(const Route& route) const {
  return route.needs == Needs::kBody ||
         (route.needs == Needs::kMetricsKey && service_.metrics_key_policy == KeyPolicy::kRequired);
}

void HttpSession::healthz(std::string_view) {
  content_type_ = "text/plain; charset=utf-8";
  scratch_.body.append("ok\n");
}

// A new process is ready after it has read the counts of other regions, and the catalog to its
// end. It does not wait longer for a ledger that does not answer.
void HttpSession::readyz(std::string_view) {
  constexpr Millis kMaxWait{10'000};
  content_type_ = "text/plain; charset=utf-8";
  std::string_view not_ready;
  if (service_.draining.load(std::memory_order_relaxed)) {
    not_ready = "draining\n";
  } else if (now_.mono - service_.started < kMaxWait && service_.ledger != nullptr &&
             !service_.limiter.sync_stats().ready) {
    not_ready = "reading the ledger\n";
  } else if (service_.catalog.is_catching_up(now_.mono)) {
    not_ready = "reading the catalog\n";
  }
  if (!not_ready.empty()) set_status(HttpError::kUnavailable);
  scratch_.body.append(not_ready.empty() ? std::string_view("ready\n") : not_ready);
}

void HttpSession::metrics(std::string_view) {
  if (service_.metrics_key_policy == KeyPolicy::kRequired && !access_.is_root()) {
    return fail(HttpError::kForbidden, "only the root key may read the metrics");
  }
  content_type_ = "text/plain; version=0.0.4; charset=utf-8";
  write_metrics(service_, scratch_.body);
}

void HttpSession::openapi(std::string_view) {
  scratch_.body.append(kOpenApiDocument);
}

}  // namespace weir::frontends

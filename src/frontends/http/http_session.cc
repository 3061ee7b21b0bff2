#include "frontends/http/http_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/split_mix.h"
#include "frontends/http/json_text.h"
#include "frontends/http/metrics_page.h"
#include "frontends/seconds.h"

namespace weir::frontends {
namespace {

using telemetry::DoorStat;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kProblemNames = "urn:weir:error:";

// All statuses this door answers with: the one table from faults to the wire.
struct StatusText {
  int status;
  std::string_view reason;  // on the wire, and the title of an error
  std::string_view type;
};
constexpr StatusText kStatuses[] = {
    {200, "OK", ""},
    {204, "No Content", ""},
    {400, "Bad Request", "bad_request"},
    {401, "Unauthorized", "unauthorized"},
    {404, "Not Found", "not_found"},
    {405, "Method Not Allowed", "method_not_allowed"},
    {413, "Content Too Large", "content_too_large"},
    {415, "Unsupported Media Type", "unsupported_media_type"},
    {417, "Expectation Failed", "expectation_failed"},
    {431, "Request Header Fields Too Large", "header_too_large"},
    {500, "Internal Server Error", "internal"},
    {501, "Not Implemented", "not_implemented"},
    {503, "Service Unavailable", "unavailable"},
    {505, "HTTP Version Not Supported", "version_not_supported"},
};

const StatusText& text_of(int status) {
  for (const StatusText& text : kStatuses) {
    if (text.status == status) return text;
  }
  return text_of(500);
}

// Sun, 06 Nov 1994 08:49:37 GMT
std::string http_date(int64_t second) {
  using namespace std::chrono;
  const sys_seconds time{seconds(second)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  char text[40];
  std::snprintf(text, sizeof text, "%.3s, %02u %.3s %04d %02d:%02d:%02d GMT",
                kDays.data() + 3 * weekday(day).c_encoding(), unsigned{date.day()},
                kMonths.data() + 3 * (unsigned{date.month()} - 1), int{date.year()},
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

void append_request_id(Bytes& out, uint64_t& state) {
  constexpr std::string_view kLetters = "0123456789abcdefghjkmnpqrstvwxyz";
  char text[24];
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = base::split_mix(state);
    for (int i = 0; i < 12; ++i, bits >>= 5) text[12 * half + i] = kLetters[bits & 31];
  }
  out.append_all(std::string_view("req_"), std::string_view(text, sizeof text));
}

// Schemes are written in any case; `word` is in small letters.
bool begins_with_word(std::string_view text, std::string_view word) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(word.begin(), word.end(), text.begin(),
                    [&](char a, char b) { return a == small(b); });
}

std::string_view as_json(bool value) {
  return value ? "true" : "false";
}

}  // namespace

std::string_view http_refusal(Refusal why) {
  static const auto text = [](std::string_view detail) {
    const std::string body =
        std::string(R"({"meta":{"requestId":""},"error":{"title":"Service Unavailable","detail":")")
            .append(detail)
            .append(R"(","status":503,"type":"urn:weir:error:unavailable","errors":[]}})");
    return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: "
           "application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + body;
  };
  static const std::string kConnections =
      text("max number of clients reached: close connections, or raise max-connections");
  static const std::string kAddress = text(
      "max number of clients reached for this address: close connections, or raise "
      "max-connections-per-address");
  static const std::string kMemory =
      text("no memory for this request: send it again later, or raise connection-memory");
  switch (why) {
    case Refusal::kConnections: return kConnections;
    case Refusal::kAddress: return kAddress;
    case Refusal::kMemory: break;
  }
  return kMemory;
}

enum class HttpSession::Needs : uint8_t {
  kBody,       // and a key
  kNothing,    // neither
  kMetricsKey  // a key, where others can reach it
};

struct HttpSession::Route {
  std::string_view path;
  std::string_view allow;  // methods, the one that is served first
  Needs needs;
  void (HttpSession::*serve)(std::string_view body);
};

const std::array<HttpSession::Route, 5> HttpSession::kRoutes{
    Route{"/v2/ratelimit.limit", "POST, OPTIONS", Needs::kBody, &HttpSession::limit},
    Route{"/v2/ratelimit.multiLimit", "POST, OPTIONS", Needs::kBody, &HttpSession::multi_limit},
    Route{"/healthz", "GET, HEAD, OPTIONS", Needs::kNothing, &HttpSession::healthz},
    Route{"/readyz", "GET, HEAD, OPTIONS", Needs::kNothing, &HttpSession::readyz},
    Route{"/metrics", "GET, HEAD, OPTIONS", Needs::kMetricsKey, &HttpSession::metrics},
};

Next HttpSession::take(Instant now, Bytes& in, Bytes& out) {
  if (waiting_ && !held_->ready) return Next::kWait;
  // Its last answer was kept back because of a wrong key.
  if (std::exchange(wrong_key_, false) && close_) return Next::kClose;
  waiting_ = false;
  now_ = now;
  uint64_t answered = 0;
  Next next = Next::kRead;
  while (next == Next::kRead) {
    if (skipped_ > 0) [[unlikely]] {
      const size_t skipped = std::min(skipped_, in.size());
      in.consume(skipped);
      skipped_ -= skipped;
    }
    in.consume(leading_empty_lines(in.unread()));
    if (in.empty() || !take_one(in, out)) break;
    ++answered;
    if (wrong_key_) {
      next = Next::kDelay;
    } else if (close_) {
      next = Next::kClose;
    } else if (out.size() > most_unsent_) {
      next = Next::kAgain;
    }
  }
  if (waiting_) next = Next::kWait;
  if (answered > 0) service_.http.add_latency(service_.clock.now().mono - now.mono, answered);
  return next;
}

bool HttpSession::take_one(Bytes& in, Bytes& out) {
  HttpHead head;
  HttpFault fault;
  HttpStatus status = parse_http_head(in.unread(), head, fault);
  if (status == HttpStatus::kIncomplete) return false;
  if (status == HttpStatus::kFaulty) {
    give_up(fault, in, out);
    return true;
  }
  const Route* const route = serve_head(head);
  if (route == nullptr) {
    send_without_body(head, in, out);
    return true;
  }
  const size_t arrived = in.size() - head.bytes;
  size_t raw = 0;
  size_t decoded = 0;
  if (head.chunked) {
    status = chunks_.take(in.unread_data() + head.bytes, arrived, fault);
    raw = chunks_.raw();
    decoded = chunks_.decoded();
  } else {
    raw = decoded = head.body_bytes();
    if (arrived < raw) status = HttpStatus::kIncomplete;
  }
  if (status == HttpStatus::kIncomplete) {
    if (head.expects_continue && !acked_to_continue_) out.append("HTTP/1.1 100 Continue\r\n\r\n");
    acked_to_continue_ = head.expects_continue;
    return false;
  }
  if (status == HttpStatus::kFaulty) {
    give_up(fault, in, out);
    return true;
  }
  close_ = !head.keep_alive || is_last(arrived - raw);
  (this->*route->serve)(in.unread().substr(head.bytes, decoded));
  if (waiting_) return false;
  send(&head, out);
  in.consume(head.bytes + raw);
  acked_to_continue_ = false;
  chunks_ = ChunkedBody();
  return true;
}

void HttpSession::give_up(const HttpFault& fault, Bytes& in, Bytes& out) {
  fail(fault.status, fault.detail);
  if (fault.status == 415) desk_.fields.append("Accept-Encoding: identity\r\n");
  close_ = true;
  send(nullptr, out);
  in.consume(in.size());
}

// Closes where the next request is not easily found: the end of chunks is found by reading them,
// and whoever waits to be told to continue sends the body or does not.
void HttpSession::send_without_body(const HttpHead& head, Bytes& in, Bytes& out) {
  const size_t body = head.body_bytes();
  const bool lost = head.chunked || body > kMaxStrangerBytes || (head.expects_continue && body > 0);
  const size_t whole = head.bytes + body;
  close_ = !head.keep_alive || lost || is_last(in.size() - std::min(in.size(), whole));
  send(&head, out);
  if (lost) return in.consume(in.size());
  in.consume(head.bytes);
  skipped_ = body;
}

// What was sent behind it in a drain is answered, too, but not for ever.
bool HttpSession::is_last(size_t behind) {
  constexpr Nanos kPatience = std::chrono::seconds(1);
  if (!draining_) return false;
  if (!drain_began_) drain_began_ = now_.mono;
  return behind == 0 || now_.mono - *drain_began_ > kPatience;
}

const HttpSession::Route* HttpSession::serve_head(const HttpHead& head) {
  begin_answer();
  const auto route = std::find_if(kRoutes.begin(), kRoutes.end(),
                                  [&](const Route& known) { return known.path == head.path; });
  const bool options = head.method == "OPTIONS";
  if (route == kRoutes.end() && !(options && head.path == "*")) {
    fail(404, "there is nothing at this path");
    return nullptr;
  }
  const std::string_view allow = route == kRoutes.end() ? "GET, HEAD, POST, OPTIONS" : route->allow;
  const std::string_view served = allow.substr(0, allow.find(','));
  if (options) {
    status_ = 204;
    desk_.fields.append_all(std::string_view("Allow: "), allow, std::string_view("\r\n"));
    return nullptr;
  }
  if (head.method != served && !(head.method == "HEAD" && served == "GET")) {
    fail(405, "this path does not take that method");
    desk_.fields.append_all(std::string_view("Allow: "), allow, std::string_view("\r\n"));
    return nullptr;
  }
  if (wants_key(*route) && !admitted_by_key(head)) return nullptr;
  if (route->needs == Needs::kBody) return &*route;
  (this->*route->serve)({});
  return nullptr;
}

bool HttpSession::wants_key(const Route& route) const {
  return route.needs == Needs::kBody ||
         (route.needs == Needs::kMetricsKey && service_.metrics_keys == Keys::kWanted);
}

// The key of a connection that showed the right one before is compared, not hashed.
bool HttpSession::admitted_by_key(const HttpHead& head) {
  constexpr std::string_view kScheme = "bearer ";
  if (!head.authorization) {
    refuse_key(DoorStat::kMissingKey, 400,
               "the Authorization header is missing: send Authorization: Bearer <root key>");
    return false;
  }
  const std::string_view given = *head.authorization;
  if (!accepted_.empty() && rules::same_secret(given, accepted_)) return true;
  const bool bearer = given.size() > kScheme.size() && given.size() <= rules::kMaxKeyBytes &&
                      begins_with_word(given, kScheme);
  if (!bearer) {
    refuse_key(DoorStat::kMalformedKey, 400,
               "the Authorization header is malformed: send Authorization: Bearer <root key>");
    return false;
  }
  if (!service_.keys.knows(given.substr(kScheme.size()))) {
    refuse_key(DoorStat::kWrongKey, 401, "this root key is not known here");
    desk_.fields.append("WWW-Authenticate: Bearer\r\n");
    wrong_key_ = true;
    return false;
  }
  accepted_ = given;
  standing_ = Standing::kKeyed;
  allow(true);
  return true;
}

void HttpSession::refuse_key(DoorStat why, int status, std::string_view detail) {
  fail(status, detail);
  service_.http.add_from(why, peer_);
}

bool HttpSession::decide_one() {
  if (held_ != nullptr) {
    desk_.verdict[0] = std::move(std::exchange(held_, nullptr)->verdicts[0]);
    return true;
  }
  if (!waits()) {
    service_.decider.check_each(now_, desk_.one, desk_.verdict);
    return true;
  }
  auto held = std::make_shared<Held>();
  held->verdicts.resize(1);
  const bool decided = service_.decider.check_each_async(now_, desk_.one, held->verdicts, *home_,
                                                         [held, wake = wake_] {
                                                           held->ready = true;
                                                           if (held->left) (*wake)();
                                                         });
  if (decided) {
    desk_.verdict[0] = std::move(held->verdicts[0]);
  } else {
    held->left = true;
    held_ = std::move(held);
    waiting_ = true;
  }
  return decided;
}

bool HttpSession::decide_many() {
  if (held_ == nullptr) {
    if (!waits()) {
      desk_.batch = service_.decider.check_all(now_, desk_.many);
      return true;
    }
    held_ = std::make_shared<Held>();
    service_.decider.check_all_async(now_, desk_.many, *home_,
                                     [held = held_, wake = wake_](Result<BatchVerdict> verdict) {
                                       held->batch = std::move(verdict);
                                       held->ready = true;
                                       if (held->left) (*wake)();
                                     });
  }
  if (!held_->ready) {
    held_->left = true;
    waiting_ = true;
    return false;
  }
  desk_.batch = std::move(std::exchange(held_, nullptr)->batch);
  return true;
}

void HttpSession::limit(std::string_view body) {
  Request& request = desk_.one[0];
  desk_.reader.read_one(body, request, desk_.problems);
  if (!desk_.problems.empty()) return refuse_body();
  if (!decide_one()) return;
  if (!desk_.verdict[0]) {
    desk_.problems.assign(1, problem_of(desk_.verdict[0].error()));
    return refuse_body();
  }
  const Verdict& verdict = *desk_.verdict[0];
  service_.http.add_decision(verdict.outcome, verdict.basis);
  Bytes& out = desk_.body;
  out.append_all(std::string_view(R"({"meta":{"requestId":")"));
  append_request_id(out, desk_.names);
  out.append_all(std::string_view(R"("},"data":{"limit":)"), verdict.limit,
                 std::string_view(R"(,"remaining":)"), verdict.remaining,
                 std::string_view(R"(,"reset":)"), verdict.reset.time_since_epoch().count(),
                 std::string_view(R"(,"success":)"), as_json(verdict.admitted()));
  if (verdict.retry_after) {
    out.append_all(std::string_view(R"(,"retryAfter":)"), verdict.retry_after->count());
  }
  out.append_all(std::string_view(R"(,"basis":")"), to_string(verdict.basis),
                 std::string_view("\"}}"));
  rate_limit_fields(request, verdict);
}

void HttpSession::multi_limit(std::string_view body) {
  desk_.reader.read_many(body, desk_.many, desk_.problems);
  if (!desk_.problems.empty()) return refuse_body();
  if (!decide_many()) return;
  const Result<BatchVerdict>& batch = *desk_.batch;
  if (!batch) {
    desk_.problems.assign(1, problem_of(batch.error()));
    return refuse_body();
  }
  service_.http.add_batch(batch->outcome, batch->items);
  Bytes& out = desk_.body;
  out.append_all(std::string_view(R"({"meta":{"requestId":")"));
  append_request_id(out, desk_.names);
  out.append_all(std::string_view(R"("},"data":{"passed":)"), as_json(batch->admitted()),
                 std::string_view(R"(,"limits":[)"));
  size_t tightest = 0;
  for (size_t i = 0; i < batch->items.size(); ++i) {
    const Verdict& item = batch->items[i];
    if (i > 0) out.append(',');
    out.append(R"({"namespace":)");
    append_json(out, desk_.many[i].ns);
    out.append(R"(,"identifier":)");
    append_json(out, desk_.many[i].identifier);
    out.append_all(std::string_view(R"(,"limit":)"), item.limit,
                   std::string_view(R"(,"remaining":)"), item.remaining,
                   std::string_view(R"(,"reset":)"), item.reset.time_since_epoch().count(),
                   std::string_view(R"(,"passed":)"), as_json(item.admitted()));
    if (item.retry_after) {
      out.append_all(std::string_view(R"(,"retryAfter":)"), item.retry_after->count());
    }
    out.append_all(std::string_view(R"(,"basis":")"), to_string(item.basis),
                   std::string_view("\"}"));
    const auto rank = [](const Verdict& verdict) {
      return std::pair(verdict.admitted(), verdict.remaining);
    };
    if (rank(item) < rank(batch->items[tightest])) tightest = i;
  }
  out.append("]}}");
  rate_limit_fields(desk_.many[tightest], batch->items[tightest]);
}

void HttpSession::healthz(std::string_view) {
  content_type_ = "text/plain; charset=utf-8";
  desk_.body.append("ok\n");
}

// A process that was just started first hears what other regions counted, but does not wait for
// a ledger that is away.
void HttpSession::readyz(std::string_view) {
  constexpr Millis kLongestWait{10'000};
  content_type_ = "text/plain; charset=utf-8";
  std::string_view why_not;
  if (service_.draining.load(std::memory_order_relaxed)) {
    why_not = "draining\n";
  } else if (service_.ledger != nullptr && now_.mono - service_.started < kLongestWait &&
             !service_.limiter.sync_stats().ready) {
    why_not = "reading the ledger\n";
  }
  status_ = why_not.empty() ? 200 : 503;
  desk_.body.append(why_not.empty() ? std::string_view("ready\n") : why_not);
}

void HttpSession::metrics(std::string_view) {
  content_type_ = "text/plain; version=0.0.4; charset=utf-8";
  write_metrics(service_, desk_.body);
}

void HttpSession::begin_answer() {
  status_ = 200;
  content_type_ = kJson;
  desk_.body.clear();
  desk_.fields.clear();
}

void HttpSession::refuse_body() {
  fail(400, desk_.problems.size() == 1 ? desk_.problems[0].message
                                       : "the body has several mistakes; see errors");
}

// Problems of the body, if there are any, are told one by one.
void HttpSession::fail(int status, std::string_view detail) {
  begin_answer();
  service_.http.stats.add(DoorStat::kBad);
  status_ = status;
  const StatusText& text = text_of(status);
  Bytes& out = desk_.body;
  out.append(R"({"meta":{"requestId":")");
  append_request_id(out, desk_.names);
  out.append_all(std::string_view(R"("},"error":{"title":")"), text.reason,
                 std::string_view(R"(","detail":)"));
  append_json(out, detail);
  out.append_all(std::string_view(R"(,"status":)"), status, std::string_view(R"(,"type":")"),
                 kProblemNames, text.type, std::string_view(R"(","errors":[)"));
  for (size_t i = 0; i < desk_.problems.size(); ++i) {
    const BodyProblem& problem = desk_.problems[i];
    out.append(i == 0 ? std::string_view(R"({"location":)") : R"(,{"location":)");
    append_json(out, problem.location);
    out.append(R"(,"message":)");
    append_json(out, problem.message);
    out.append(R"(,"fix":)");
    append_json(out, problem.fix);
    out.append('}');
  }
  out.append("]}}");
  desk_.problems.clear();
}

// draft-ietf-httpapi-ratelimit-headers-11, with one policy.
void HttpSession::rate_limit_fields(const Request& request, const Verdict& verdict) {
  desk_.fields.append_all(std::string_view("RateLimit-Policy: \"default\";q="), verdict.limit,
                          std::string_view(";w="), seconds_up(request.duration),
                          std::string_view("\r\nRateLimit: \"default\";r="), verdict.remaining,
                          std::string_view(";t="), seconds_up(verdict.reset - now_.wall),
                          std::string_view("\r\n"));
  if (verdict.retry_after) {
    desk_.fields.append_all(std::string_view("Retry-After: "), seconds_up(*verdict.retry_after),
                            std::string_view("\r\n"));
  }
}

void HttpSession::send(const HttpHead* head, Bytes& out) {
  const int64_t second =
      std::chrono::floor<std::chrono::seconds>(now_.wall.time_since_epoch()).count();
  if (desk_.date_of != second) {
    desk_.date_of = second;
    desk_.date = http_date(second);
  }
  out.append_all(std::string_view("HTTP/1.1 "), status_, ' ', text_of(status_).reason,
                 std::string_view("\r\nDate: "), std::string_view(desk_.date),
                 std::string_view("\r\n"));
  if (status_ != 204) {
    out.append_all(std::string_view("Content-Type: "), content_type_,
                   std::string_view("\r\nContent-Length: "), desk_.body.size(),
                   std::string_view("\r\n"));
  }
  out.append(desk_.fields.unread());
  if (close_) {
    out.append("Connection: close\r\n");
  } else if (head != nullptr && head->minor_version == 0) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append("\r\n");
  const bool bodyless = status_ == 204 || (head != nullptr && head->method == "HEAD");
  if (!bodyless) out.append(desk_.body.unread());
}

}  // namespace weir::frontends

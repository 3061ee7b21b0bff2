#include "frontends/http/http_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "frontends/http/http_date.h"
#include "frontends/http/json_text.h"
#include "frontends/http/metrics_page.h"
#include "frontends/http/request_id.h"
#include "frontends/http/verdict_json.h"
#include "frontends/openapi_document.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;

constexpr std::string_view kJson = "application/json";

// Compares without case; `word` is in lower case.
bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [&](char a, char b) { return a == lower(b); });
}

}  // namespace

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
  if (std::exchange(wrong_key_, false) && close_) return Next::kClose;
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
    if (wrong_key_) {
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
    fail(HttpError::kUnknownPath, "there is nothing at this path");
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
  if (route->needs == Needs::kBody) return route;
  (this->*route->serve)({});
  return nullptr;
}

bool HttpSession::requires_key(const Route& route) const {
  return route.needs == Needs::kBody ||
         (route.needs == Needs::kMetricsKey && service_.metrics_key_policy == KeyPolicy::kRequired);
}

// A connection that has sent a valid key compares the next one instead of hashing it.
bool HttpSession::authenticate(const HttpHead& head) {
  constexpr std::string_view kScheme = "bearer ";
  if (!head.authorization) {
    refuse_key(FrontendStat::kMissingKey, HttpError::kMissingKey,
               "the Authorization header is missing: send Authorization: Bearer <root key>");
    return false;
  }
  const std::string_view given = *head.authorization;
  const bool known = !accepted_.empty() && rules::same_secret(given, accepted_);
  const bool bearer =
      known || (given.size() > kScheme.size() && given.size() <= rules::kMaxKeyBytes &&
                starts_with_ignoring_case(given, kScheme));
  if (!bearer) {
    refuse_key(FrontendStat::kMalformedKey, HttpError::kMalformedKey,
               "the Authorization header is malformed: send Authorization: Bearer <root key>");
    return false;
  }
  if (!known) {
    accepted_.clear();
    access_.become(rules::hash_of(given.substr(kScheme.size())), service_.keys);
  }
  switch (access_.refresh(service_.catalog, scratch_.catalog, now_.wall)) {
    case KeyState::kValid: break;
    case KeyState::kUnknown: refuse_wrong_key(); return false;
    case KeyState::kNoAnswer:
      fail(HttpError::kUnavailable,
           "the catalog does not answer, so this key cannot be checked: send the request again");
      scratch_.fields.append("Retry-After: 1\r\n");
      return false;
  }
  if (!known) {
    accepted_ = given;
    trust_ = Trust::kAuthenticated;
    set_buffers(Buffers::kFull);
  }
  return true;
}

void HttpSession::refuse_wrong_key() {
  accepted_.clear();
  refuse_key(FrontendStat::kWrongKey, HttpError::kWrongKey, "this key is not valid");
  scratch_.fields.append("WWW-Authenticate: Bearer\r\n");
  wrong_key_ = true;
}

// Counted by this process alone: the limit protects the process.
bool HttpSession::is_within_rate() {
  const std::optional<Count> per_second = access_.per_second();
  if (!per_second) [[likely]]
    return true;
  const std::array<Request, 1> request{requests_of_key(access_)};
  service_.backend.check_each(now_, request, scratch_.verdict);
  if (!scratch_.verdict[0] || scratch_.verdict[0]->admitted()) return true;
  fail(HttpError::kTooManyRequests,
       "this key may send " + std::to_string(*per_second) + " requests per second to this server");
  scratch_.fields.append("Retry-After: 1\r\n");
  return false;
}

void HttpSession::refuse_key(FrontendStat stat, HttpError error, std::string_view detail) {
  fail(error, detail);
  service_.http.add_from(stat, peer_);
}

bool HttpSession::decide_one() {
  if (pending_ != nullptr) {
    recall(*pending_, scratch_.one);
    scratch_.verdict[0] = std::move(std::exchange(pending_, nullptr)->verdicts[0]);
    return true;
  }
  service_.namespaces.apply(scratch_.one);
  if (!may_wait()) {
    service_.backend.check_each(now_, scratch_.one, scratch_.verdict);
    return true;
  }
  auto pending = std::make_shared<Pending>();
  pending->verdicts.resize(1);
  const bool decided = service_.backend.check_each_async(now_, scratch_.one, pending->verdicts,
                                                         *executor_, [pending, wake = wake_] {
                                                           pending->ready = true;
                                                           if (pending->detached) (*wake)();
                                                         });
  if (decided) {
    scratch_.verdict[0] = std::move(pending->verdicts[0]);
  } else {
    pending->detached = true;
    remember(*pending, scratch_.one);
    pending_ = std::move(pending);
    waiting_ = true;
  }
  return decided;
}

// What a decision depends on may have changed when it is ready.
void HttpSession::remember(Pending& pending, std::span<const Request> requests) {
  pending.resolved = scratch_.resolved;
  pending.snapshot = scratch_.catalog.pin();
  pending.durations.clear();
  for (const Request& request : requests) pending.durations.push_back(request.duration);
}

void HttpSession::recall(Pending& pending, std::span<Request> requests) {
  scratch_.resolved = std::move(pending.resolved);
  scratch_.pinned = std::move(pending.snapshot);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].duration = pending.durations[i];
}

bool HttpSession::decide_many() {
  if (pending_ == nullptr) {
    service_.namespaces.apply(scratch_.many);
    if (!may_wait()) {
      scratch_.batch = service_.backend.check_all(now_, scratch_.many);
      return true;
    }
    pending_ = std::make_shared<Pending>();
    remember(*pending_, scratch_.many);
    service_.backend.check_all_async(
        now_, scratch_.many, *executor_,
        [pending = pending_, wake = wake_](Result<BatchVerdict> verdict) {
          pending->batch = std::move(verdict);
          pending->ready = true;
          if (pending->detached) (*wake)();
        });
  }
  if (!pending_->ready) {
    pending_->detached = true;
    waiting_ = true;
    return false;
  }
  recall(*pending_, scratch_.many);
  scratch_.batch = std::move(std::exchange(pending_, nullptr)->batch);
  return true;
}

bool HttpSession::resolve_all(catalog::Verb verb, std::span<Request> requests) {
  // The request may have waited since it was authenticated.
  if (access_.refresh(service_.catalog, scratch_.catalog, now_.wall) != KeyState::kValid) {
    refuse_wrong_key();
    return false;
  }
  scratch_.resolved.clear();
  scratch_.after_reset.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    const Resolved& resolved = scratch_.resolved.emplace_back(
        resolve(access_, verb, service_.catalog, request, scratch_.after_reset));
    if (resolved.resolution == Resolution::kReady) continue;
    const std::string location = requests.size() == 1 ? "body" : "body[" + std::to_string(i) + "]";
    refuse_unresolved(resolved, verb, request, location);
    return false;
  }
  return true;
}

void HttpSession::refuse_unresolved(const Resolved& resolved, catalog::Verb verb,
                                    const Request& request, std::string_view location) {
  const std::string name(request.ns.substr(0, 64));
  switch (resolved.resolution) {
    case Resolution::kForbidden:
      return fail(HttpError::kForbidden, "the key lacks the permission " +
                                             catalog::permission_for(verb, resolved.ns->record.id));
    case Resolution::kGone:
      return fail(HttpError::kGone, "the namespace \"" + name + "\" was deleted: create it again");
    case Resolution::kNoLimit:
      for (const auto& [field, missing] : {std::pair("limit", request.limit == 0),
                                           std::pair("duration", request.duration == Millis(0))}) {
        if (!missing) continue;
        scratch_.problems.push_back(
            {.location = std::string(location) + "." + field,
             .message = std::string(field) + " is missing",
             .fix = "give it a value, or give the namespace one with ratelimit.updateNamespace"});
      }
      return refuse_body();
    case Resolution::kUnknown:
    case Resolution::kReady: break;
  }
  fail(HttpError::kNotFound,
       "namespace is \"" + name +
           "\", which does not exist in this workspace, and the key lacks the permission " +
           catalog::permission_for(catalog::Verb::kCreateNamespace));
}

void HttpSession::limit_or_peek(std::string_view body, catalog::Verb verb) {
  Request& request = scratch_.one[0];
  scratch_.reader.read_one(body, request, scratch_.problems);
  if (!scratch_.problems.empty()) return refuse_body();
  if (verb == catalog::Verb::kPeek) request.cost = 0;
  const bool once = idempotency_key_ && verb == catalog::Verb::kLimit;
  if (once) {
    const Request sent = request;
    if (!read_marker(body)) return;
    request = sent;
    if (*charged_before_) request.cost = 0;
  }
  if (pending_ == nullptr && !resolve_all(verb, scratch_.one)) return;
  if (!decide_one()) return;
  if (once && scratch_.verdict[0]) {
    Verdict& verdict = *scratch_.verdict[0];
    Outcome outcome = verdict.outcome;
    settle_marker(outcome, {&verdict, 1});
  }
  if (!scratch_.verdict[0]) {
    scratch_.problems.assign(1, problem_of(scratch_.verdict[0].error()));
    return refuse_body();
  }
  Verdict& verdict = *scratch_.verdict[0];
  if (scratch_.resolved[0].denies_all) set_limit_of_zero(verdict);
  service_.http.add_decision(verdict.outcome, verdict.basis);
  if (!apply_preference(verdict.outcome)) {
    append_limit_response(scratch_.body, scratch_.id_state, verdict, scratch_.resolved[0]);
  }
  append_rate_limit_fields(scratch_.fields, now_, request, verdict);
}

void HttpSession::multi_limit(std::string_view body) {
  scratch_.reader.read_many(body, scratch_.many, scratch_.problems);
  if (!scratch_.problems.empty()) return refuse_body();
  scratch_.identifiers.clear();
  for (const Request& request : scratch_.many) scratch_.identifiers.push_back(request.identifier);
  if (idempotency_key_) {
    if (!read_marker(body)) return;
    if (*charged_before_) {
      for (Request& request : scratch_.many) request.cost = 0;
    }
  }
  if (pending_ == nullptr && !resolve_all(catalog::Verb::kLimit, scratch_.many)) return;
  if (!decide_many()) return;
  Result<BatchVerdict>& batch = *scratch_.batch;
  if (!batch) {
    scratch_.problems.assign(1, problem_of(batch.error()));
    return refuse_body();
  }
  if (idempotency_key_) settle_marker(batch->outcome, batch->items);
  for (size_t i = 0; i < batch->items.size(); ++i) {
    if (scratch_.resolved[i].denies_all) set_limit_of_zero(batch->items[i]);
  }
  service_.http.add_batch(batch->outcome, batch->items);
  if (!apply_preference(batch->outcome)) {
    append_multi_limit_response(scratch_.body, scratch_.id_state, scratch_.many,
                                scratch_.identifiers, scratch_.resolved, *batch);
  }
  const size_t tightest = tightest_of(batch->items);
  append_rate_limit_fields(scratch_.fields, now_, scratch_.many[tightest], batch->items[tightest]);
}

void HttpSession::catalog_call(std::string_view body) {
  if (pending_ != nullptr) {
    if (!pending_->ready) {
      waiting_ = true;
      return;
    }
    return finish(*std::exchange(pending_, nullptr)->reply);
  }
  if (service_.catalog.state() == catalog::CatalogState::kLoading) {
    return finish({.error = HttpError::kUnavailable,
                   .detail = "the catalog was not read yet: send the request again"});
  }
  // `access_` points into this snapshot, so no newer one may replace it now.
  CatalogReply reply = operation_->run({.access = access_,
                                        .snapshot = *scratch_.catalog.pin(),
                                        .body = body,
                                        .now = now_.wall,
                                        .random = service_.random});
  if (reply.writes.empty() && !reply.audit) return finish(reply);
  if (executor_ == nullptr) {
    return fail(HttpError::kUnavailable, "this connection cannot wait for the catalog");
  }
  pending_ = std::make_shared<Pending>();
  pending_->detached = waiting_ = true;
  // Only the operator may learn where the database is.
  const bool shows_error = access_.is_root();
  const auto done = [pending = pending_, wake = wake_, shows_error](const Error* error) {
    if (error != nullptr && catalog::is_conflict(*error)) {
      *pending->reply = {.error = HttpError::kConflict,
                         .detail = error->detail + ": " + error->fix};
    } else if (error != nullptr) {
      *pending->reply = {.error = HttpError::kUnavailable,
                         .detail = shows_error ? error->detail + ": " + error->fix
                                               : "the catalog does not answer: send it again"};
    }
    pending->ready = true;
    (*wake)();
  };
  std::vector<catalog::CatalogWrite> writes = std::move(reply.writes);
  pending_->reply = std::move(reply);
  if (!writes.empty()) {
    service_.catalog.write(std::move(writes), *executor_, [done](Result<uint64_t> written) {
      done(written ? nullptr : &written.error());
    });
    return;
  }
  const CatalogReply::AuditPage& page = *pending_->reply->audit;
  service_.catalog.read_audit(
      page.workspace, page.before, page.most, *executor_,
      [done, pending = pending_](Result<std::vector<catalog::AuditEntry>> entries) {
        if (entries) complete(*entries, *pending->reply);
        done(entries ? nullptr : &entries.error());
      });
}

void HttpSession::finish(const CatalogReply& reply) {
  if (reply.error != HttpError::kNone) {
    scratch_.problems = reply.problems;
    fail(reply.error, reply.detail);
    if (reply.error == HttpError::kUnavailable) scratch_.fields.append("Retry-After: 1\r\n");
    return;
  }
  Bytes& out = scratch_.body;
  out.append(R"({"meta":{"requestId":")");
  append_request_id(out, scratch_.id_state);
  out.append_all(std::string_view(R"("},"data":)"), std::string_view(reply.data));
  if (!reply.pagination.empty()) {
    out.append_all(std::string_view(R"(,"pagination":)"), std::string_view(reply.pagination));
  }
  out.append('}');
}

bool HttpSession::apply_preference(Outcome outcome) {
  if (!prefers_429_ || outcome == Outcome::kAdmitted) return false;
  set_status(HttpError::kTooManyRequests);
  scratch_.fields.append("Preference-Applied: status=429\r\n");
  if (!accepts_problem_) return false;
  append_problem("https://iana.org/assignments/http-problem-types#", "quota-exceeded",
                 "the limit is used up: wait for the time in Retry-After");
  scratch_.body.append(R"(,"violated-policies":["default"]})");
  return true;
}

// The tuple that is used up once a request with this idempotency key was admitted: for a minute, in
// all processes of the region. Its workspace is one that no client has.
Request HttpSession::marker(Count cost) const {
  return {.workspace = "weir",
          .ns = "idempotency keys",
          .identifier = marker_,
          .limit = 1,
          .duration = Millis(60'000),
          .cost = cost,
          .algorithm = Algorithm::kSlidingLog,
          .consistency = Consistency::kExact};
}

// Sets charged_before_. False: pending. Uses scratch_.one.
bool HttpSession::read_marker(std::string_view body) {
  if (charged_before_) return true;
  if (pending_ == nullptr) {
    std::string named(access_.workspace().record.id);
    for (const std::string_view part : {access_.actor(), *idempotency_key_, body}) {
      named += '\0';
      named += part;
    }
    marker_ = rules::to_hex(rules::hash_of(named));
    scratch_.one[0] = marker(0);
    scratch_.resolved.assign(1, {});
  }
  if (!decide_one()) return false;
  const Result<Verdict>& read = scratch_.verdict[0];
  // A degraded answer may know of no charge, or deny all.
  charged_before_ = read && read->basis != Basis::kDegraded && read->remaining == 0;
  return true;
}

// After a decision: a repetition is answered as admitted, and the first admission is noted.
void HttpSession::settle_marker(Outcome& outcome, std::span<Verdict> items) {
  if (*charged_before_) {
    outcome = Outcome::kAdmitted;
    for (Verdict& item : items) {
      item.outcome = Outcome::kAdmitted;
      item.retry_after.reset();
    }
    scratch_.fields.append("Idempotency-Replayed: true\r\n");
    return;
  }
  if (outcome != Outcome::kAdmitted) return;
  // Nobody waits for it: it owns what it points to.
  struct Note {
    std::string identifier;
    std::array<Request, 1> request;
    std::array<Result<Verdict>, 1> verdict;
  };
  const auto note = std::make_shared<Note>();
  note->identifier = marker_;
  note->request[0] = marker(1);
  note->request[0].identifier = note->identifier;
  if (may_wait()) {
    (void)service_.backend.check_each_async(now_, note->request, note->verdict, *executor_,
                                            [note] {});
  } else {
    service_.backend.check_each(now_, note->request, note->verdict);
  }
}

// A check that waits continues with the rules that it began with.
void HttpSession::check(const HttpHead& head) {
  CheckRequest& check = scratch_.check;
  check.read(head);
  // A request that waits for a store was authenticated before.
  if (pending_ == nullptr && (!authenticate(check.with_key(head)) || !is_within_rate())) return;
  if (pending_ == nullptr) check_rules_ = &service_.check_rules.current();
  const auto denied_status = check.denied_status(*check_rules_);
  if (!denied_status) {
    return fail(HttpError::kMalformedRequest,
                "the parameter denied is neither 403 nor 429: send ?denied=403 or ?denied=429");
  }
  content_type_ = "text/plain; charset=utf-8";
  check.match(*check_rules_, peer_address_, scratch_.many);
  if (scratch_.many.empty()) return;
  if (pending_ == nullptr && !resolve_all(catalog::Verb::kLimit, scratch_.many)) return;
  const bool one = scratch_.many.size() == 1;
  if (one) scratch_.one[0] = scratch_.many[0];
  if (!(one ? decide_one() : decide_many())) return;
  if (one) scratch_.many[0] = scratch_.one[0];
  const bool decided = one ? scratch_.verdict[0].ok() : scratch_.batch->ok();
  if (!decided) {
    const Error& error = one ? scratch_.verdict[0].error() : scratch_.batch->error();
    return fail(HttpError::kUnavailable, error.detail);
  }
  const std::span<Verdict> items =
      one ? std::span<Verdict>(&*scratch_.verdict[0], 1) : (*scratch_.batch)->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (scratch_.resolved[i].denies_all) set_limit_of_zero(items[i]);
  }
  const Outcome outcome = one ? items[0].outcome : (*scratch_.batch)->outcome;
  service_.http.add_batch(outcome, items);
  const size_t tightest = tightest_of(items);
  append_rate_limit_fields(scratch_.fields, now_, scratch_.many[tightest], items[tightest],
                           check.rule(tightest).name);
  if (outcome == Outcome::kAdmitted) return;
  set_status(*denied_status == 403 ? HttpError::kForbidden : HttpError::kTooManyRequests);
  scratch_.body.append("rate limit exceeded\n");
}

void HttpSession::healthz(std::string_view) {
  content_type_ = "text/plain; charset=utf-8";
  scratch_.body.append("ok\n");
}

// A new process is ready after it has read the counts of other regions. It does not wait longer
// for a ledger that does not answer.
void HttpSession::readyz(std::string_view) {
  constexpr Millis kMaxWait{10'000};
  content_type_ = "text/plain; charset=utf-8";
  std::string_view not_ready;
  if (service_.draining.load(std::memory_order_relaxed)) {
    not_ready = "draining\n";
  } else if (now_.mono - service_.started < kMaxWait) {
    if (service_.ledger != nullptr && !service_.limiter.sync_stats().ready) {
      not_ready = "reading the ledger\n";
    } else if (service_.catalog.state() == catalog::CatalogState::kLoading) {
      not_ready = "reading the catalog\n";
    }
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

void HttpSession::begin_response() {
  set_status(HttpError::kNone);
  content_type_ = kJson;
  scratch_.body.clear();
  scratch_.fields.clear();
}

void HttpSession::set_status(HttpError error) {
  status_ = info_of(error).status;
  reason_ = info_of(error).title;
}

void HttpSession::refuse_body() {
  fail(HttpError::kInvalidBody, scratch_.problems.size() == 1
                                    ? scratch_.problems[0].message
                                    : "the body has several problems; see errors");
}

// The response lists each problem of the body, if there are any.
void HttpSession::fail(HttpError error, std::string_view detail) {
  begin_response();
  service_.http.stats.add(FrontendStat::kBad);
  set_status(error);
  Bytes& out = scratch_.body;
  if (accepts_problem_) {
    append_problem(kErrorUrn, info_of(error).type, detail);
    out.append(R"(,"errors":[)");
  } else {
    out.append(R"({"meta":{"requestId":")");
    append_request_id(out, scratch_.id_state);
    out.append_all(std::string_view(R"("},"error":{"title":")"), reason_,
                   std::string_view(R"(","detail":)"));
    append_json(out, detail);
    out.append_all(std::string_view(R"(,"status":)"), status_, std::string_view(R"(,"type":")"),
                   kErrorUrn, info_of(error).type, std::string_view(R"(","errors":[)"));
  }
  for (size_t i = 0; i < scratch_.problems.size(); ++i) {
    const BodyProblem& problem = scratch_.problems[i];
    out.append(i == 0 ? std::string_view(R"({"location":)") : R"(,{"location":)");
    append_json(out, problem.location);
    out.append(R"(,"message":)");
    append_json(out, problem.message);
    out.append(R"(,"fix":)");
    append_json(out, problem.fix);
    out.append('}');
  }
  out.append(accepts_problem_ ? std::string_view("]}") : "]}}");
  scratch_.problems.clear();
}

// The members that every problem has, by RFC 9457.
void HttpSession::append_problem(std::string_view space, std::string_view type,
                                 std::string_view detail) {
  content_type_ = "application/problem+json";
  Bytes& out = scratch_.body;
  out.append_all(std::string_view(R"({"type":")"), space, type, std::string_view(R"(","title":")"),
                 reason_, std::string_view(R"(","status":)"), status_,
                 std::string_view(R"(,"detail":)"));
  append_json(out, detail);
  out.append(R"(,"requestId":")");
  append_request_id(out, scratch_.id_state);
  out.append('"');
}

void HttpSession::send(const HttpHead* head, Bytes& out) {
  const int64_t second =
      std::chrono::floor<std::chrono::seconds>(now_.wall.time_since_epoch()).count();
  if (scratch_.date_second != second) {
    scratch_.date_second = second;
    scratch_.date = http_date(second);
  }
  out.append_all(std::string_view("HTTP/1.1 "), status_, ' ', reason_,
                 std::string_view("\r\nDate: "), std::string_view(scratch_.date),
                 std::string_view("\r\n"));
  if (status_ != 204) {
    out.append_all(std::string_view("Content-Type: "), content_type_,
                   std::string_view("\r\nContent-Length: "), scratch_.body.size(),
                   std::string_view("\r\n"));
  }
  out.append(scratch_.fields.unread());
  if (close_) {
    out.append("Connection: close\r\n");
  } else if (head != nullptr && head->minor_version == 0) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append("\r\n");
  const bool bodyless = status_ == 204 || (head != nullptr && head->method == "HEAD");
  if (!bodyless) out.append(scratch_.body.unread());
}

}  // namespace weir::frontends

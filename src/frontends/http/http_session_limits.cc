#include "frontends/http/http_session.h"

#include <string>
#include <utility>

#include "frontends/http/verdict_json.h"

namespace weir::frontends {

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

// A check that waits continues with the rules that it began with. 403 and 503 are left for denials
// and for a server that cannot decide now, which a gateway may let pass: a key or a rule that is
// wrong has another status.
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
  if (pending_ == nullptr &&
      !resolve_all(catalog::Verb::kLimit, scratch_.many, HttpError::kMalformedRequest)) {
    return;
  }
  const bool one = scratch_.many.size() == 1;
  if (one) scratch_.one[0] = scratch_.many[0];
  if (!(one ? decide_one() : decide_many())) return;
  if (one) scratch_.many[0] = scratch_.one[0];
  const bool decided = one ? scratch_.verdict[0].ok() : scratch_.batch->ok();
  if (!decided) {
    const Error& error = one ? scratch_.verdict[0].error() : scratch_.batch->error();
    const bool wrong = error.code == ErrorCode::kInvalidArgument;
    return fail(wrong ? HttpError::kMalformedRequest : HttpError::kUnavailable, error.detail);
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

bool HttpSession::resolve_all(catalog::Verb verb, std::span<Request> requests,
                              HttpError forbidden) {
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
    refuse_unresolved(resolved, verb, request, location, forbidden);
    return false;
  }
  return true;
}

void HttpSession::refuse_unresolved(const Resolved& resolved, catalog::Verb verb,
                                    const Request& request, std::string_view location,
                                    HttpError forbidden) {
  const std::string name(request.ns.substr(0, 64));
  switch (resolved.resolution) {
    case Resolution::kForbidden:
      return fail(forbidden, "the key lacks the permission " +
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
    case Resolution::kUnknownId:
    case Resolution::kNoRight:
    case Resolution::kReady: break;
  }
  fail(HttpError::kNotFound, "namespace is \"" + name +
                                 "\", which does not exist in this workspace, " +
                                 why_unknown(resolved.resolution, verb));
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

}  // namespace weir::frontends

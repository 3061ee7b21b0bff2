#include "frontends/resp/resp_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/inline.h"
#include "frontends/resp/arguments.h"
#include "frontends/resp/cluster_commands.h"
#include "frontends/resp/known_commands.h"
#include "frontends/resp/reset_commands.h"
#include "weir/version.h"

namespace weir::frontends {

using telemetry::FrontendStat;

namespace {

// A web page can make a browser send HTTP with commands in the body to this port. No line of the
// HTTP head is a command.
bool is_http(Arguments arguments) {
  const auto is = [&](std::string_view name) { return is_word(arguments[0], name); };
  if (is("POST") || is("HOST:")) return true;
  return arguments.size() > 1 && arguments.back().starts_with("HTTP/") &&
         (is("GET") || is("HEAD") || is("PUT") || is("PATCH") || is("DELETE") || is("OPTIONS") ||
          is("CONNECT") || is("TRACE"));
}

// Why a key that was valid is not any more.
std::string_view ended_key(KeyState state) {
  return state == KeyState::kNoAnswer ? kKeyUnchecked : kKeyEnded;
}

// Whether a command tells or changes what all tenants share.
bool concerns_all(Arguments arguments) {
  return is_word(arguments[0], "INFO") || (is_word(arguments[0], "SCRIPT") &&
                                           arguments.size() > 1 && is_word(arguments[1], "FLUSH"));
}

// Sets the limit of the items that an override with limit 0 denies.
void deny_items(const std::vector<bool>& denied, Result<BatchVerdict>& verdict) {
  for (size_t i = 0; verdict && i < denied.size(); ++i) {
    if (denied[i]) set_limit_of_zero(verdict->items[i]);
  }
}

}  // namespace

std::string_view resp_refusal(Refusal reason) {
  switch (reason) {
    case Refusal::kConnections: return "-ERR max number of clients reached\r\n";
    case Refusal::kAddress: return "-ERR max number of clients reached for this address\r\n";
    case Refusal::kMemory: break;
  }
  return "-ERR no memory for this request: send it again later, or raise connection-memory\r\n";
}

Next RespSession::process(Instant now, Bytes& in, Bytes& out) {
  if (pending_ != nullptr && !reply_pending(out)) return Next::kWait;
  now_ = now;
  refresh_access(now);
  scratch_.after_reset.clear();
  for (;;) {
    if (transaction_.running()) {
      const Next next = process_all(now, transaction_.commands(), out);
      if (next != Next::kRead) return next;
      transaction_.end();
    }
    const Next next = process_all(now, in, out);
    if (!transaction_.running()) return next;
  }
}

Next RespSession::process_all(Instant now, Bytes& in, Bytes& out) {
  const bool was_running = transaction_.running();
  const std::string_view all = in.unread();
  size_t at = 0;
  bool any = false;  // request
  Next next = Next::kRead;
  while (next == Next::kRead && at < all.size() && transaction_.running() == was_running) {
    const auto status = scratch_.parser.parse(all.substr(at, max_unread_));
    if (status == RespParser::Status::kIncomplete) {
      if (all.size() - at < max_unread_) break;
      reply_error(protocol_error("more than " + std::to_string(max_unread_) +
                                 " bytes before authentication"),
                  out);
      next = Next::kClose;
      break;
    }
    const bool broken = status == RespParser::Status::kBroken;
    if (!broken && scratch_.parser.arguments().empty()) {
      at += scratch_.parser.bytes();
      continue;
    }
    any = true;
    const Gathered gathered = broken ? Gathered::kNo : gather(scratch_.parser.arguments());
    if (gathered == Gathered::kYes) {
      at += scratch_.parser.bytes();
      if (scratch_.gathered < RespScratch::kGroup) continue;
    }
    // Replies keep the order of the requests. A request that is not gathered is parsed again if
    // pending decisions precede it.
    if (!decide(now, out)) {
      next = Next::kWait;
    } else if (broken) {
      reply_error(protocol_error(scratch_.parser.error()), out);
      next = Next::kClose;
    } else if (gathered != Gathered::kYes) {
      const std::string_view bytes = all.substr(at, scratch_.parser.bytes());
      at += bytes.size();
      if (gathered == Gathered::kInvalid) {
        reply_error(error_, out);
      } else if (transaction_.open() && is_queued(scratch_.parser.arguments()[0])) {
        queue(scratch_.parser.arguments(), bytes, out);
      } else {
        next = serve(scratch_.parser.arguments(), now, out);
      }
    }
    if (next == Next::kRead && out.size() > max_unsent_) next = Next::kAgain;
  }
  if (next == Next::kRead && !decide(now, out)) next = Next::kWait;
  in.consume(at);
  if (any && trust() == Trust::kUnauthenticated &&
      service_.resp_key_policy == KeyPolicy::kNotRequired) {
    client_.trust = Trust::kServed;
  }
  return next;
}

Next RespSession::serve(Arguments arguments, Instant now, Bytes& out) {
  const std::string_view command = arguments[0];
  const auto is = [&](std::string_view name) { return is_word(command, name); };
  RespWriter reply = writer(out);
  if (is("QUIT")) {
    reply.simple("OK");
    return Next::kClose;
  }
  if (is_http(arguments)) {
    service_.resp.add_from(FrontendStat::kCrossProtocol, peer_);
    return Next::kClose;
  }
  // What was queued with a key that has ended does not run with the rights of another one.
  if (transaction_.open() && key_state_ != KeyState::kValid) transaction_.refuse();
  if (is("AUTH")) return auth(arguments, now, out);
  if (is("HELLO")) return hello(arguments, now, out);
  if (service_.resp_key_policy == KeyPolicy::kRequired && !authenticated_) {
    service_.resp.add_from(FrontendStat::kMissingKey, peer_);
    reply_error(kAuthRequired, out);
  } else if (key_state_ != KeyState::kValid && !is("RESET") && !is("DISCARD")) {
    if (is("EXEC")) transaction_.end();
    reply_error(ended_key(key_state_), out);
  } else if (is("PING")) {
    if (arguments.size() > 2) {
      reply_error(wrong_number_of_arguments("ping"), out);
    } else if (arguments.size() == 2) {
      reply.bulk(arguments[1]);
    } else {
      reply.simple("PONG");
    }
  } else if (is("ECHO")) {
    if (arguments.size() == 2) {
      reply.bulk(arguments[1]);
    } else {
      reply_error(wrong_number_of_arguments("echo"), out);
    }
  } else if (is("WEIR.MULTI")) {
    return multi(arguments, now, out);
  } else if (is("MULTI") || is("EXEC") || is("DISCARD")) {
    transact(arguments, out);
  } else if (is("WEIR.RESET") || is("DEL") || is("UNLINK")) {
    return reset(arguments, now, out);
  } else if (!access_.is_root() && concerns_all(arguments)) {
    reply_error(kRootOnly, out);
  } else if (is("SCRIPT")) {
    reply_if_error(
        answer_script(arguments, script_owner(), service_.scripts, scratch_.scripts, reply), out);
  } else if (is("CLUSTER")) {
    reply_if_error(answer_cluster(arguments, local(), service_.node, reply), out);
  } else if (is("READONLY") || is("READWRITE")) {
    reply.simple("OK");
  } else if (is("SELECT")) {
    select(arguments, out);
  } else if (is("CLIENT")) {
    client(arguments, out);
  } else if (is("COMMAND")) {
    reply_if_error(answer_command(arguments, reply), out);
  } else if (is("CONFIG")) {
    config(arguments, out);
  } else if (is("INFO")) {
    info(now, out);
  } else if (is("RESET")) {
    protocol_ = 2;
    set_authenticated(false);
    access_.become_root();
    refresh_access(now);
    name_.clear();
    transaction_.end();
    reply.simple("RESET");
  } else {
    reply_error(unknown_command(command), out);
  }
  return Next::kRead;
}

// A key that has ended in a transaction can be replaced at once.
bool RespSession::is_queued(std::string_view command) const {
  if (key_state_ != KeyState::kValid && (is_word(command, "AUTH") || is_word(command, "HELLO"))) {
    return false;
  }
  return Transaction::is_queued(command);
}

void RespSession::refresh_access(Instant now) {
  key_state_ = access_.refresh(service_.catalog, scratch_.catalog, now.wall);
}

RespError RespSession::resolve_request(catalog::Verb verb, Request& request, Resolved& resolved) {
  if (key_state_ != KeyState::kValid) return RespError(ended_key(key_state_));
  if (!is_within_rate()) return RespError(kKeyTooFast);
  resolved = resolve(access_, verb, service_.catalog, request, scratch_.after_reset);
  return to_resp_error(resolved, verb);
}

// Counted by this process alone: the limit protects the process.
bool RespSession::is_within_rate() {
  const std::optional<Count> per_second = access_.per_second();
  if (!per_second) [[likely]]
    return true;
  const std::array<Request, 1> request{requests_of_key(access_)};
  std::array<Result<Verdict>, 1> verdict;
  service_.backend.check_each(now_, request, verdict);
  return !verdict[0] || verdict[0]->admitted();
}

KeyState RespSession::accept_key(std::string_view key, Instant now) {
  Access access;
  access.become(rules::hash_of(key), service_.keys);
  const KeyState state = access.refresh(service_.catalog, scratch_.catalog, now.wall);
  if (state != KeyState::kValid) return state;
  access_ = access;
  client_ = access.client();
  return key_state_ = state;
}

WEIR_HOT_INLINE RespSession::Gathered RespSession::keep(catalog::Verb verb, Kind kind,
                                                        RespError& error) {
  const size_t at = scratch_.gathered;
  Request& request = scratch_.requests[at];
  Resolved resolved;
  if (error.empty()) [[likely]] {
    if (key_state_ == KeyState::kValid && !access_.per_second()) [[likely]] {
      resolved = resolve(access_, verb, service_.catalog, request, scratch_.after_reset);
      if (resolved.resolution != Resolution::kReady) [[unlikely]]
        error = to_resp_error(resolved, verb);
    } else {
      error = resolve_request(verb, request, resolved);
    }
  }
  if (!error.empty()) [[unlikely]] {
    error_ = std::move(error);
    return Gathered::kInvalid;
  }
  scratch_.denied[at] = resolved.denies_all;
  scratch_.any_denied |= resolved.denies_all;
  scratch_.kinds[at] = kind;
  scratch_.gathered = at + 1;
  return Gathered::kYes;
}

// Whether the request is a decision, to which decide() replies.
RespSession::Gathered RespSession::gather(Arguments arguments) {
  if (transaction_.open()) return Gathered::kNo;
  const std::string_view command = arguments[0];
  // Compared here first, by a size that the compiler knows.
  constexpr std::string_view kThrottle = "CL.THROTTLE";
  const bool throttle = command.size() == kThrottle.size() &&
                        (std::memcmp(command.data(), kThrottle.data(), kThrottle.size()) == 0 ||
                         is_word(command, kThrottle));
  const bool peek = !throttle && is_word(command, "WEIR.PEEK");
  if (!throttle && !peek && !is_word(command, "WEIR.LIMIT")) return gather_rare(arguments);
  if (service_.resp_key_policy == KeyPolicy::kRequired && !authenticated_) return Gathered::kNo;
  Request& request = scratch_.requests[scratch_.gathered];
  RespError error = throttle ? read_throttle(arguments, request, scratch_.hashed[scratch_.gathered])
                    : peek   ? read_peek(arguments, request)
                             : read_limit(arguments, request);
  return keep(peek ? catalog::Verb::kPeek : catalog::Verb::kLimit,
              throttle ? Kind::kThrottle : Kind::kLimit, error);
}

ScriptOwner RespSession::script_owner() const {
  return {.workspace = access_.tuple_workspace(),
          .may_add = access_.permissions().may_somewhere(catalog::Verb::kLimit)};
}

// GCRA, and scripts that call CL.THROTTLE.
RespSession::Gathered RespSession::gather_rare(Arguments arguments) {
  const bool gcra = is_word(arguments[0], "GCRA");
  if (!gcra && !is_word(arguments[0], "EVAL") && !is_word(arguments[0], "EVALSHA")) {
    return Gathered::kNo;
  }
  if (service_.resp_key_policy == KeyPolicy::kRequired && !authenticated_) return Gathered::kNo;
  Request& request = scratch_.requests[scratch_.gathered];
  HashedKey& hashed = scratch_.hashed[scratch_.gathered];
  ThrottleCall call;
  RespError error =
      gcra ? read_gcra(arguments, request, hashed)
           : read_eval(arguments, script_owner(), service_.scripts, scratch_.scripts, call);
  if (!gcra && error.empty()) error = read_throttle(call.arguments(), request, hashed);
  return keep(catalog::Verb::kLimit, Kind::kThrottle, error);
}

bool RespSession::decide(Instant now, Bytes& out) {
  const size_t count = std::exchange(scratch_.gathered, 0);
  if (count == 0) return true;
  const bool any_denied = std::exchange(scratch_.any_denied, false);
  const auto requests = std::span(scratch_.requests).first(count);
  const auto kinds = std::span<const Kind>(scratch_.kinds).first(count);
  service_.namespaces.apply(requests);
  const auto deny = [](const auto& denied, std::span<Result<Verdict>> verdicts) {
    for (size_t i = 0; i < verdicts.size(); ++i) {
      if (denied[i] && verdicts[i]) set_limit_of_zero(*verdicts[i]);
    }
  };
  if (!may_wait()) {
    const auto verdicts = std::span(scratch_.verdicts).first(count);
    service_.backend.check_each(now, requests, verdicts);
    if (any_denied) [[unlikely]]
      deny(scratch_.denied, verdicts);
    reply(now, kinds, verdicts, out);
    return true;
  }
  auto pending = std::make_shared<Pending>();
  pending->received = now;
  pending->kinds.assign(kinds.begin(), kinds.end());
  pending->verdicts.resize(count);
  pending->denied.assign(scratch_.denied.begin(), scratch_.denied.begin() + count);
  const bool decided = service_.backend.check_each_async(now, requests, pending->verdicts,
                                                         *executor_, [pending, wake = wake_] {
                                                           pending->ready = true;
                                                           if (pending->detached) (*wake)();
                                                         });
  if (decided) {
    if (any_denied) deny(pending->denied, pending->verdicts);
    reply(now, pending->kinds, pending->verdicts, out);
  } else {
    pending->detached = true;
    pending_ = std::move(pending);
  }
  return decided;
}

bool RespSession::reply_pending(Bytes& out) {
  if (!pending_->ready) return false;
  const auto pending = std::exchange(pending_, nullptr);
  if (pending->reset) {
    if (!pending->reset->empty()) {
      reply_error(*pending->reset, out);
    } else {
      writer(out).integer(pending->reset_count);
    }
  } else if (pending->batch) {
    deny_items(pending->denied, *pending->batch);
    reply(pending->received, *pending->batch, out);
  } else {
    for (size_t i = 0; i < pending->verdicts.size(); ++i) {
      if (pending->denied[i] && pending->verdicts[i]) set_limit_of_zero(*pending->verdicts[i]);
    }
    reply(pending->received, pending->kinds, pending->verdicts, out);
  }
  return true;
}

void RespSession::reply(Instant received, std::span<const Kind> kinds,
                        std::span<const Result<Verdict>> verdicts, Bytes& out) {
  RespWriter reply = writer(out);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (!verdicts[i]) {
      reply_error(to_resp_error(verdicts[i].error()), out);
      continue;
    }
    const Verdict& verdict = *verdicts[i];
    service_.resp.add_decision(verdict.outcome, verdict.basis);
    if (kinds[i] == Kind::kThrottle) {
      answer_throttle(received, verdict, reply);
    } else {
      answer_limit(verdict, reply);
    }
  }
  service_.resp.add_latency(service_.clock.now().mono - received.mono, kinds.size());
}

void RespSession::reply_if_error(const RespError& error, Bytes& out) {
  if (!error.empty()) reply_error(error, out);
}

void RespSession::reply_error(std::string_view error, Bytes& out) {
  service_.resp.stats.add(FrontendStat::kBad);
  // The log tells the operator: some clients hide the error.
  if (error == kOtherScript || error.starts_with(kUnknownCommand)) {
    service_.resp.add_from(FrontendStat::kUnsupported, peer_);
  }
  writer(out).error(error);
}

Next RespSession::multi(Arguments arguments, Instant now, Bytes& out) {
  const RespError error = read_multi(arguments, scratch_.batch);
  if (!error.empty()) {
    reply_error(error, out);
    return Next::kRead;
  }
  std::vector<bool> denied_items;
  for (Request& request : scratch_.batch) {
    Resolved resolved;
    const RespError refused = resolve_request(catalog::Verb::kLimit, request, resolved);
    denied_items.push_back(resolved.denies_all);
    if (!refused.empty()) {
      reply_error(refused, out);
      return Next::kRead;
    }
  }
  service_.namespaces.apply(scratch_.batch);
  if (!may_wait()) {
    auto verdict = service_.backend.check_all(now, scratch_.batch);
    deny_items(denied_items, verdict);
    reply(now, verdict, out);
    return Next::kRead;
  }
  const auto pending = std::make_shared<Pending>();
  pending->received = now;
  pending->denied = std::move(denied_items);
  service_.backend.check_all_async(now, scratch_.batch, *executor_,
                                   [pending, wake = wake_](Result<BatchVerdict> verdict) {
                                     pending->batch = std::move(verdict);
                                     pending->ready = true;
                                     if (pending->detached) (*wake)();
                                   });
  pending_ = pending;
  if (reply_pending(out)) return Next::kRead;
  pending->detached = true;
  return Next::kWait;
}

Next RespSession::reset(Arguments arguments, Instant now, Bytes& out) {
  std::vector<ResetTarget> targets;
  std::vector<HashedKey> hashed;
  RespError error = is_word(arguments[0], "WEIR.RESET") ? read_reset(arguments, targets)
                                                        : read_del(arguments, targets, hashed);
  // All are resolved before the first is reset.
  for (size_t i = 0; error.empty() && i < targets.size(); ++i) {
    Request& request = targets[i].request;
    targets[i].identifier = request.identifier;
    Resolved resolved;
    error = resolve_request(catalog::Verb::kReset, request, resolved);
    targets[i].ns = resolved.ns;
    service_.namespaces.apply({&request, 1});
  }
  ResetOutcome outcome;
  if (error.empty()) {
    outcome = reset_counts(now, targets, access_, service_);
    error = std::move(outcome.error);
  }
  if (error.empty() && !outcome.writes.empty() && executor_ == nullptr) {
    error = "ERR this connection cannot wait for the catalog";
  }
  if (!error.empty()) {
    reply_error(error, out);
    return Next::kRead;
  }
  if (outcome.writes.empty()) {
    writer(out).integer(outcome.count);
    return Next::kRead;
  }
  pending_ = std::make_shared<Pending>();
  pending_->reset.emplace();
  pending_->reset_count = outcome.count;
  pending_->detached = true;
  const Detail detail = access_.is_root() ? Detail::kShown : Detail::kHidden;
  service_.catalog.write(std::move(outcome.writes), *executor_,
                         [pending = pending_, wake = wake_, detail](Result<uint64_t> written) {
                           if (!written) *pending->reset = catalog_failed(written.error(), detail);
                           pending->ready = true;
                           (*wake)();
                         });
  return Next::kWait;
}

void RespSession::reply(Instant received, const Result<BatchVerdict>& verdict, Bytes& out) {
  if (!verdict) return reply_error(to_resp_error(verdict.error()), out);
  service_.resp.add_batch(verdict->outcome, verdict->items);
  RespWriter reply = writer(out);
  answer_multi(*verdict, reply);
  service_.resp.add_latency(service_.clock.now().mono - received.mono, 1);
}

}  // namespace weir::frontends

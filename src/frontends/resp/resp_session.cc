#include "frontends/resp/resp_session.h"

#include <algorithm>
#include <utility>

#include "frontends/resp/arguments.h"
#include "frontends/resp/cluster_commands.h"
#include "frontends/resp/known_commands.h"
#include "frontends/resp/reset_commands.h"
#include "weir/version.h"

namespace weir::frontends {

using telemetry::DoorStat;

namespace {

// A web page can have a browser send HTTP to this port, with commands in the body. None of the
// lines before them is one.
bool is_http(Arguments arguments) {
  const auto is = [&](std::string_view name) { return is_word(arguments[0], name); };
  if (is("POST") || is("HOST:")) return true;
  return arguments.size() > 1 && arguments.back().starts_with("HTTP/") &&
         (is("GET") || is("HEAD") || is("PUT") || is("PATCH") || is("DELETE") || is("OPTIONS") ||
          is("CONNECT") || is("TRACE"));
}

}  // namespace

std::string_view resp_refusal(Refusal why) {
  switch (why) {
    case Refusal::kConnections: return "-ERR max number of clients reached\r\n";
    case Refusal::kAddress: return "-ERR max number of clients reached for this address\r\n";
    case Refusal::kMemory: break;
  }
  return "-ERR no memory for this request: send it again later, or raise connection-memory\r\n";
}

Next RespSession::take(Instant now, Bytes& in, Bytes& out) {
  if (held_ != nullptr && !answer_held(out)) return Next::kWait;
  for (;;) {
    if (transaction_.running()) {
      const Next next = answer_all(now, transaction_.commands(), out);
      if (next != Next::kRead) return next;
      transaction_.end();
    }
    const Next next = answer_all(now, in, out);
    if (!transaction_.running()) return next;
  }
}

Next RespSession::answer_all(Instant now, Bytes& in, Bytes& out) {
  const bool was_running = transaction_.running();
  const std::string_view all = in.unread();
  size_t at = 0;
  bool asked = false;  // for anything
  Next next = Next::kRead;
  while (next == Next::kRead && at < all.size() && transaction_.running() == was_running) {
    const auto status = desk_.parser.parse(all.substr(at, most_unread_));
    if (status == RespParser::Status::kIncomplete) {
      if (all.size() - at < most_unread_) break;
      complain("ERR Protocol error: more than " + std::to_string(most_unread_) +
                   " bytes before authentication",
               out);
      next = Next::kClose;
      break;
    }
    const bool broken = status == RespParser::Status::kBroken;
    if (!broken && desk_.parser.arguments().empty()) {
      at += desk_.parser.bytes();
      continue;
    }
    asked = true;
    const Gathered gathered = broken ? Gathered::kNo : gather(desk_.parser.arguments());
    if (gathered == Gathered::kYes) {
      at += desk_.parser.bytes();
      if (desk_.gathered < RespDesk::kGroup) continue;
    }
    // Answers come in the order of the requests; one that is not gathered is looked at again
    // if those before it have to wait.
    if (!decide(now, out)) {
      next = Next::kWait;
    } else if (broken) {
      complain("ERR Protocol error: " + std::string(desk_.parser.error()), out);
      next = Next::kClose;
    } else if (gathered != Gathered::kYes) {
      const std::string_view bytes = all.substr(at, desk_.parser.bytes());
      at += bytes.size();
      if (gathered == Gathered::kWrong) {
        complain(complaint_, out);
      } else if (transaction_.open() && Transaction::waits(desk_.parser.arguments()[0])) {
        queue(desk_.parser.arguments(), bytes, out);
      } else {
        next = serve(desk_.parser.arguments(), now, out);
      }
    }
    if (next == Next::kRead && out.size() > most_unsent_) next = Next::kAgain;
  }
  if (next == Next::kRead && !decide(now, out)) next = Next::kWait;
  in.consume(at);
  if (asked && standing_ == Standing::kStranger && service_.resp_keys == Keys::kNotWanted) {
    standing_ = Standing::kServed;
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
    service_.resp.add_from(DoorStat::kCrossProtocol, peer_);
    return Next::kClose;
  }
  if (is("AUTH")) return auth(arguments, out);
  if (is("HELLO")) return hello(arguments, out);
  if (service_.resp_keys == Keys::kWanted && !known_) {
    service_.resp.add_from(DoorStat::kMissingKey, peer_);
    complain("NOAUTH Authentication required.", out);
  } else if (is("PING")) {
    if (arguments.size() > 2) {
      complain(wrong_number_of_arguments("ping"), out);
    } else if (arguments.size() == 2) {
      reply.bulk(arguments[1]);
    } else {
      reply.simple("PONG");
    }
  } else if (is("ECHO")) {
    if (arguments.size() == 2) {
      reply.bulk(arguments[1]);
    } else {
      complain(wrong_number_of_arguments("echo"), out);
    }
  } else if (is("WEIR.MULTI")) {
    return multi(arguments, now, out);
  } else if (is("MULTI") || is("EXEC") || is("DISCARD")) {
    transact(arguments, out);
  } else if (is("WEIR.RESET")) {
    answered(answer_reset(arguments, now, service_.decider, reply), out);
  } else if (is("DEL") || is("UNLINK")) {
    answered(answer_del(arguments, now, service_.decider, reply), out);
  } else if (is("SCRIPT")) {
    answered(answer_script(arguments, service_.scripts, desk_.scripts, reply), out);
  } else if (is("CLUSTER")) {
    answered(answer_cluster(arguments, local(), service_.node, reply), out);
  } else if (is("READONLY") || is("READWRITE")) {
    reply.simple("OK");
  } else if (is("SELECT")) {
    select(arguments, out);
  } else if (is("CLIENT")) {
    client(arguments, out);
  } else if (is("COMMAND")) {
    answered(answer_command(arguments, reply), out);
  } else if (is("CONFIG")) {
    config(arguments, out);
  } else if (is("INFO")) {
    info(now, out);
  } else if (is("RESET")) {
    protocol_ = 2;
    know(false);
    name_.clear();
    transaction_.end();
    reply.simple("RESET");
  } else {
    complain(unknown_command(command), out);
  }
  return Next::kRead;
}

// Whether the request asks for a decision; then it will be answered by decide().
RespSession::Gathered RespSession::gather(Arguments arguments) {
  if (transaction_.open()) return Gathered::kNo;
  const std::string_view command = arguments[0];
  const bool throttle = is_word(command, "CL.THROTTLE");
  const bool peek = !throttle && is_word(command, "WEIR.PEEK");
  if (!throttle && !peek && !is_word(command, "WEIR.LIMIT")) {
    const bool script = is_word(command, "EVAL") || is_word(command, "EVALSHA");
    return script ? gather_script(arguments) : Gathered::kNo;
  }
  if (service_.resp_keys == Keys::kWanted && !known_) return Gathered::kNo;
  Request& request = desk_.requests[desk_.gathered];
  complaint_ = throttle ? read_throttle(arguments, request, desk_.hashed[desk_.gathered])
               : peek   ? read_peek(arguments, request)
                        : read_limit(arguments, request);
  if (!complaint_.empty()) return Gathered::kWrong;
  desk_.kinds[desk_.gathered++] = throttle ? Kind::kThrottle : Kind::kLimit;
  return Gathered::kYes;
}

RespSession::Gathered RespSession::gather_script(Arguments arguments) {
  if (service_.resp_keys == Keys::kWanted && !known_) return Gathered::kNo;
  ThrottleCall call;
  complaint_ = read_eval(arguments, service_.scripts, desk_.scripts, call);
  if (complaint_.empty()) {
    complaint_ = read_throttle(call.arguments(), desk_.requests[desk_.gathered],
                               desk_.hashed[desk_.gathered]);
  }
  if (!complaint_.empty()) return Gathered::kWrong;
  desk_.kinds[desk_.gathered++] = Kind::kThrottle;
  return Gathered::kYes;
}

bool RespSession::decide(Instant now, Bytes& out) {
  const size_t count = std::exchange(desk_.gathered, 0);
  if (count == 0) return true;
  const auto requests = std::span(desk_.requests).first(count);
  const auto kinds = std::span<const Kind>(desk_.kinds).first(count);
  if (!waits()) {
    service_.decider.check_each(now, requests, std::span(desk_.verdicts).first(count));
    answer(now, kinds, std::span<const Result<Verdict>>(desk_.verdicts).first(count), out);
    return true;
  }
  auto held = std::make_shared<Held>();
  held->asked = now;
  held->kinds.assign(kinds.begin(), kinds.end());
  held->verdicts.resize(count);
  const bool decided = service_.decider.check_each_async(now, requests, held->verdicts, *home_,
                                                         [held, wake = wake_] {
                                                           held->ready = true;
                                                           if (held->left) (*wake)();
                                                         });
  if (decided) {
    answer(now, held->kinds, held->verdicts, out);
  } else {
    held->left = true;
    held_ = std::move(held);
  }
  return decided;
}

bool RespSession::answer_held(Bytes& out) {
  if (!held_->ready) return false;
  const auto held = std::exchange(held_, nullptr);
  if (held->batch) {
    answer(held->asked, *held->batch, out);
  } else {
    answer(held->asked, held->kinds, held->verdicts, out);
  }
  return true;
}

void RespSession::answer(Instant asked, std::span<const Kind> kinds,
                         std::span<const Result<Verdict>> verdicts, Bytes& out) {
  RespWriter reply = writer(out);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (!verdicts[i]) {
      complain(complaint_of(verdicts[i].error()), out);
      continue;
    }
    const Verdict& verdict = *verdicts[i];
    service_.resp.add_decision(verdict.outcome, verdict.basis);
    if (kinds[i] == Kind::kThrottle) {
      answer_throttle(asked, verdict, reply);
    } else {
      answer_limit(verdict, reply);
    }
  }
  service_.resp.add_latency(service_.clock.now().mono - asked.mono, kinds.size());
}

void RespSession::answered(const Complaint& complaint, Bytes& out) {
  if (!complaint.empty()) complain(complaint, out);
}

void RespSession::complain(const Complaint& complaint, Bytes& out) {
  service_.resp.stats.add(DoorStat::kBad);
  writer(out).error(complaint);
}

Next RespSession::multi(Arguments arguments, Instant now, Bytes& out) {
  const Complaint complaint = read_multi(arguments, desk_.batch);
  if (!complaint.empty()) {
    complain(complaint, out);
    return Next::kRead;
  }
  if (!waits()) {
    answer(now, service_.decider.check_all(now, desk_.batch), out);
    return Next::kRead;
  }
  const auto held = std::make_shared<Held>();
  held->asked = now;
  service_.decider.check_all_async(now, desk_.batch, *home_,
                                   [held, wake = wake_](Result<BatchVerdict> verdict) {
                                     held->batch = std::move(verdict);
                                     held->ready = true;
                                     if (held->left) (*wake)();
                                   });
  held_ = held;
  if (answer_held(out)) return Next::kRead;
  held->left = true;
  return Next::kWait;
}

void RespSession::answer(Instant asked, const Result<BatchVerdict>& verdict, Bytes& out) {
  if (!verdict) return complain(complaint_of(verdict.error()), out);
  service_.resp.add_batch(verdict->outcome, verdict->items);
  RespWriter reply = writer(out);
  answer_multi(*verdict, reply);
  service_.resp.add_latency(service_.clock.now().mono - asked.mono, 1);
}

void RespSession::know(bool known) {
  known_ = known;
  if (known) standing_ = Standing::kKeyed;
  allow(known || service_.resp_keys == Keys::kNotWanted);
}

Next RespSession::refuse_key(Bytes& out) {
  service_.resp.add_from(DoorStat::kWrongKey, peer_);
  complain("WRONGPASS invalid root key", out);
  return Next::kDelay;
}

// AUTH key, or AUTH name key: the name does not matter.
Next RespSession::auth(Arguments arguments, Bytes& out) {
  if (arguments.size() != 2 && arguments.size() != 3) {
    complain(wrong_number_of_arguments("auth"), out);
    return Next::kRead;
  }
  if (!service_.keys.knows(arguments.back())) return refuse_key(out);
  know(true);
  writer(out).simple("OK");
  return Next::kRead;
}

Next RespSession::hello(Arguments arguments, Bytes& out) {
  const auto wrong = [&](const Complaint& complaint) {
    complain(complaint, out);
    return Next::kRead;
  };
  int protocol = protocol_;
  size_t at = 1;
  if (arguments.size() > 1) {
    if (arguments[1] != "2" && arguments[1] != "3") {
      return wrong("NOPROTO unsupported protocol version");
    }
    protocol = arguments[1][0] - '0';
    at = 2;
  }
  bool known = known_;
  std::string_view name;
  while (at < arguments.size()) {
    if (is_word(arguments[at], "AUTH") && at + 2 < arguments.size()) {
      known = service_.keys.knows(arguments[at + 2]);
      if (!known) return refuse_key(out);
      at += 3;
    } else if (is_word(arguments[at], "SETNAME") && at + 1 < arguments.size()) {
      name = arguments[at + 1];
      at += 2;
    } else {
      return wrong("ERR syntax error in HELLO");
    }
  }
  if (service_.resp_keys == Keys::kWanted && !known) {
    service_.resp.add_from(DoorStat::kMissingKey, peer_);
    return wrong("NOAUTH HELLO must be called with AUTH: HELLO 3 AUTH default <root key>");
  }
  if (known != known_) know(known);
  protocol_ = protocol;
  if (!name.empty()) name_ = name.substr(0, kMaxNameBytes);
  RespWriter reply = writer(out);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("weir");
  reply.bulk("version");
  reply.bulk(WEIR_VERSION);
  reply.bulk("proto");
  reply.integer(protocol_);
  reply.bulk("id");
  reply.integer(id_);
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
  return Next::kRead;
}

void RespSession::client(Arguments arguments, Bytes& out) {
  RespWriter reply = writer(out);
  const auto is = [&](std::string_view name, size_t count) {
    return arguments.size() == count && is_word(arguments[1], name);
  };
  if (is("SETNAME", 3)) {
    name_ = arguments[2].substr(0, kMaxNameBytes);
    reply.simple("OK");
  } else if (is("SETINFO", 4) || is("NO-EVICT", 3) || is("NO-TOUCH", 3)) {
    reply.simple("OK");
  } else if (is("ID", 2)) {
    reply.integer(id_);
  } else if (is("GETNAME", 2)) {
    name_.empty() ? reply.null() : reply.bulk(name_);
  } else {
    complain("ERR unknown subcommand of CLIENT: Weir knows SETNAME, GETNAME, SETINFO and ID", out);
  }
}

void RespSession::queue(Arguments arguments, std::string_view bytes, Bytes& out) {
  const Complaint complaint = transaction_.queue(arguments, bytes);
  if (!complaint.empty()) return complain(complaint, out);
  writer(out).simple("QUEUED");
}

void RespSession::transact(Arguments arguments, Bytes& out) {
  const auto is = [&](std::string_view name) { return is_word(arguments[0], name); };
  size_t count = 0;
  if (arguments.size() != 1) {
    return complain(wrong_number_of_arguments(find_command(arguments[0])->name), out);
  }
  const Complaint complaint = is("MULTI")  ? transaction_.begin()
                              : is("EXEC") ? transaction_.run(count)
                                           : transaction_.discard();
  if (!complaint.empty()) return complain(complaint, out);
  // The answers follow when the commands are run.
  is("EXEC") ? writer(out).array(count) : writer(out).simple("OK");
}

void RespSession::select(Arguments arguments, Bytes& out) {
  if (arguments.size() != 2) return complain(wrong_number_of_arguments("select"), out);
  if (arguments[1] == "0") return writer(out).simple("OK");
  complain("ERR DB index is out of range: DB is " + shown(arguments[1]) +
               ", and Weir has only 0; give keys a prefix instead",
           out);
}

// redis-benchmark asks for these two and warns if nobody answers.
void RespSession::config(Arguments arguments, Bytes& out) {
  RespWriter reply = writer(out);
  if (arguments.size() != 3 || !is_word(arguments[1], "GET")) {
    return complain("ERR Weir is configured by flags and a file: see weir serve --help", out);
  }
  const bool save = arguments[2] == "save";
  if (!save && arguments[2] != "appendonly") return reply.map(0);
  reply.map(1);
  reply.bulk(arguments[2]);
  reply.bulk(save ? "" : "no");
}

void RespSession::info(Instant now, Bytes& out) {
  const LimiterStats stats = service_.limiter.stats();
  const auto up = std::chrono::duration_cast<std::chrono::seconds>(now.mono - service_.started);
  std::string text = "# Server\r\nweir_version:" WEIR_VERSION "\r\nredis_mode:standalone\r\n";
  const auto line = [&text](std::string_view name, const auto& value) {
    text += name;
    text += ':';
    if constexpr (std::is_convertible_v<decltype(value), std::string_view>) {
      text += value;
    } else {
      text += std::to_string(value);
    }
    text += "\r\n";
  };
  line("region", service_.region);
  line("node", service_.node);
  line("uptime_in_seconds", up.count());
  text += "\r\n# Replication\r\nrole:master\r\n\r\n# Cluster\r\n";
  line("cluster_enabled", local().port == 0 ? 0 : 1);
  text += "\r\n# Decisions\r\n";
  line("admitted", stats.admitted);
  line("denied", stats.denied);
  line("degraded", stats.degraded);
  line("cells", stats.tuples);
  writer(out).bulk(text);
}

}  // namespace weir::frontends

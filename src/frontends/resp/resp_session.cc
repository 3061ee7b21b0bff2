#include "frontends/resp/resp_session.h"

#include <algorithm>
#include <utility>

#include "weir/version.h"

namespace weir::frontends {
namespace {

using telemetry::DoorStat;

// What a client may ask for, as COMMAND tells it.
struct Known {
  std::string_view name;
  int arity;  // negative: at least
};
constexpr Known kCommands[] = {
    {"cl.throttle", -5}, {"weir.limit", -5}, {"weir.peek", -5}, {"weir.multi", -6}, {"ping", -1},
    {"echo", 2},         {"hello", -1},      {"auth", -2},      {"select", 2},      {"client", -2},
    {"command", -1},     {"info", -1},       {"config", -2},    {"reset", 1},       {"quit", 1}};

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
  const std::string_view all = in.unread();
  size_t at = 0;
  bool asked = false;  // for anything
  Next next = Next::kRead;
  while (next == Next::kRead && at < all.size()) {
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
      at += desk_.parser.bytes();
      if (gathered == Gathered::kWrong) {
        complain(complaint_, out);
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
  } else if (is("SELECT")) {
    if (arguments.size() == 2 && arguments[1] == "0") {
      reply.simple("OK");
    } else {
      complain("ERR DB index is out of range: there is only 0", out);
    }
  } else if (is("CLIENT")) {
    client(arguments, out);
  } else if (is("COMMAND")) {
    this->command(arguments, out);
  } else if (is("CONFIG")) {
    config(arguments, out);
  } else if (is("INFO")) {
    info(now, out);
  } else if (is("RESET")) {
    protocol_ = 2;
    know(false);
    name_.clear();
    reply.simple("RESET");
  } else {
    complain("ERR unknown command '" + std::string(command.substr(0, 64)) +
                 "': Weir knows CL.THROTTLE, WEIR.LIMIT, WEIR.PEEK and WEIR.MULTI",
             out);
  }
  return Next::kRead;
}

// Whether the request asks for a decision; then it will be answered by decide().
RespSession::Gathered RespSession::gather(Arguments arguments) {
  const std::string_view command = arguments[0];
  const bool throttle = is_word(command, "CL.THROTTLE");
  const bool peek = !throttle && is_word(command, "WEIR.PEEK");
  if (!throttle && !peek && !is_word(command, "WEIR.LIMIT")) return Gathered::kNo;
  if (service_.resp_keys == Keys::kWanted && !known_) return Gathered::kNo;
  Request& request = desk_.requests[desk_.gathered];
  complaint_ = throttle ? read_throttle(arguments, request)
               : peek   ? read_peek(arguments, request)
                        : read_limit(arguments, request);
  if (!complaint_.empty()) return Gathered::kWrong;
  desk_.kinds[desk_.gathered++] = throttle ? Kind::kThrottle : Kind::kLimit;
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
                                                           (*wake)();
                                                         });
  if (decided) {
    answer(now, held->kinds, held->verdicts, out);
  } else {
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

void RespSession::command(Arguments arguments, Bytes& out) {
  RespWriter reply = writer(out);
  if (arguments.size() == 1) {
    reply.array(std::size(kCommands));
    for (const Known& known : kCommands) {
      reply.array(6);
      reply.bulk(known.name);
      reply.integer(known.arity);
      reply.array(1);
      reply.simple("fast");
      reply.integer(known.name == "cl.throttle" ? 1 : 0);
      reply.integer(known.name == "cl.throttle" ? 1 : 0);
      reply.integer(known.name == "cl.throttle" ? 1 : 0);
    }
  } else if (is_word(arguments[1], "COUNT")) {
    reply.integer(std::size(kCommands));
  } else if (is_word(arguments[1], "DOCS")) {
    reply.map(0);
  } else {
    reply.array(0);
  }
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
  text += "\r\n# Replication\r\nrole:master\r\n\r\n# Decisions\r\n";
  line("admitted", stats.admitted);
  line("denied", stats.denied);
  line("degraded", stats.degraded);
  line("cells", stats.tuples);
  writer(out).bulk(text);
}

}  // namespace weir::frontends

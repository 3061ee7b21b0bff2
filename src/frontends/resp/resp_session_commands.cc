// The commands of a session that decide nothing: AUTH, HELLO, CLIENT, MULTI and EXEC, SELECT,
// CONFIG and INFO.

#include <string>

#include "frontends/resp/arguments.h"
#include "frontends/resp/known_commands.h"
#include "frontends/resp/resp_session.h"
#include "weir/version.h"

namespace weir::frontends {

using telemetry::FrontendStat;

void RespSession::set_authenticated(bool authenticated) {
  authenticated_ = authenticated;
  const bool full = authenticated || service_.resp_key_policy == KeyPolicy::kNotRequired;
  set_buffers(full ? Buffers::kFull : Buffers::kUnauthenticated);
}

Next RespSession::refuse_key(std::string_view key, KeyState state, Instant now, Bytes& out) {
  if (state == KeyState::kNoAnswer) {
    reply_error(kKeyUnchecked, out);
    return Next::kRead;
  }
  service_.resp.add_from(FrontendStat::kWrongKey, peer_);
  reply_error(kInvalidKey, out);
  const bool delayed = scratch_.wrong_keys.delays(peer_, rules::hash_of(key), now.mono);
  return delayed ? Next::kDelay : Next::kRead;
}

// AUTH key, or AUTH name key; the name is ignored.
Next RespSession::auth(Arguments arguments, Instant now, Bytes& out) {
  if (arguments.size() != 2 && arguments.size() != 3) {
    reply_error(wrong_number_of_arguments("auth"), out);
    return Next::kRead;
  }
  const KeyState state = accept_key(arguments.back(), now);
  if (state != KeyState::kValid) return refuse_key(arguments.back(), state, now, out);
  set_authenticated(true);
  writer(out).simple("OK");
  return Next::kRead;
}

Next RespSession::hello(Arguments arguments, Instant now, Bytes& out) {
  const auto invalid = [&](std::string_view error) {
    reply_error(error, out);
    return Next::kRead;
  };
  int protocol = protocol_;
  size_t at = 1;
  if (arguments.size() > 1) {
    if (arguments[1] != "2" && arguments[1] != "3") {
      return invalid(kUnknownProtocol);
    }
    protocol = arguments[1][0] - '0';
    at = 2;
  }
  bool authenticated = authenticated_;
  std::string_view name;
  while (at < arguments.size()) {
    if (is_word(arguments[at], "AUTH") && at + 2 < arguments.size()) {
      const KeyState state = accept_key(arguments[at + 2], now);
      authenticated = state == KeyState::kValid;
      if (!authenticated) return refuse_key(arguments[at + 2], state, now, out);
      at += 3;
    } else if (is_word(arguments[at], "SETNAME") && at + 1 < arguments.size()) {
      name = arguments[at + 1];
      at += 2;
    } else {
      return invalid("ERR syntax error in HELLO");
    }
  }
  if (service_.resp_key_policy == KeyPolicy::kRequired && !authenticated) {
    service_.resp.add_from(FrontendStat::kMissingKey, peer_);
    return invalid(kHelloAuthRequired);
  }
  if (authenticated != authenticated_) set_authenticated(authenticated);
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
    reply_error("ERR unknown subcommand of CLIENT: Weir supports SETNAME, GETNAME, SETINFO and ID",
                out);
  }
}

void RespSession::queue(Arguments arguments, std::string_view bytes, Bytes& out) {
  const RespError error = transaction_.queue(arguments, bytes);
  if (!error.empty()) return reply_error(error, out);
  writer(out).simple("QUEUED");
}

void RespSession::transact(Arguments arguments, Bytes& out) {
  const auto is = [&](std::string_view name) { return is_word(arguments[0], name); };
  size_t count = 0;
  if (arguments.size() != 1) {
    return reply_error(wrong_number_of_arguments(find_command(arguments[0])->name), out);
  }
  const RespError error = is("MULTI")  ? transaction_.begin()
                          : is("EXEC") ? transaction_.run(count)
                                       : transaction_.discard();
  if (!error.empty()) return reply_error(error, out);
  // The replies follow when the commands run.
  is("EXEC") ? writer(out).array(count) : writer(out).simple("OK");
}

void RespSession::select(Arguments arguments, Bytes& out) {
  if (arguments.size() != 2) return reply_error(wrong_number_of_arguments("select"), out);
  if (arguments[1] == "0") return writer(out).simple("OK");
  reply_error("ERR DB index is out of range: it is " + quoted(arguments[1]) +
                  ", and Weir has only database 0: use a key prefix instead",
              out);
}

// redis-benchmark reads these two parameters and warns if it gets an error.
void RespSession::config(Arguments arguments, Bytes& out) {
  RespWriter reply = writer(out);
  if (arguments.size() != 3 || !is_word(arguments[1], "GET")) {
    return reply_error("ERR Weir is configured by flags and a file: run weir serve --help", out);
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
  std::string text =
      "# Server\r\nweir_version:" WEIR_VERSION
      "\r\nredis_version:0.0.0 (this is Weir, a rate limiter that stores no data: use "
      "Redis for it)\r\nredis_mode:standalone\r\n";
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

#include "server/origin_check.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string_view>

#include "origins/redis/redis_cells.h"
#include "platform/entropy.h"
#include "server/region.h"

namespace weir::server {
namespace {

using origins::OriginError;
using origins::RedisReply;

constexpr auto kTimeout = std::chrono::seconds(3);

std::string_view remedy(OriginError error) {
  switch (error) {
    case OriginError::kUnreachable:
      return "check that it runs, that the host and the port are right, and that no firewall "
             "blocks it";
    case OriginError::kTimeout:
      return "it accepts connections but does not reply: check whether it is overloaded or stopped";
    case OriginError::kRefused:
      return "set the user and the password in the URL, in a file, or in WEIR_ORIGIN_PASSWORD; "
             "docs/origin.md lists the permissions that the user needs";
    case OriginError::kReadOnly: return "it is a replica: use the address of the master";
    case OriginError::kLoading: return "it is still loading its data: try again later";
    case OriginError::kOutOfMemory:
      return "its memory is full: raise maxmemory, or choose a maxmemory-policy that evicts";
    case OriginError::kWritesRefused:
      return "it refuses writes: check its replicas (min-replicas-to-write) and its disk "
             "(stop-writes-on-bgsave-error)";
    case OriginError::kMoved: return "it is part of a Redis cluster, which is not supported yet";
    default: return "check that it is a Redis server, version 4 or later";
  }
}

// The value of redis_version in the reply to INFO.
std::string_view version_in(std::string_view info) {
  constexpr std::string_view kName = "redis_version:";
  const size_t at = info.find(kName);
  if (at == std::string_view::npos) return "unknown";
  info.remove_prefix(at + kName.size());
  return info.substr(0, info.find_first_of("\r\n"));
}

class Check {
 public:
  explicit Check(const origins::RedisAddress& address)
      : name_(to_string(address)),
        link_(io_, system_clock(), address, platform::entropy(),
              [this](OriginError why) { fail(why, link_.last_error()); }),
        poll_(io_),
        deadline_(io_) {}

  OriginCheck run() {
    deadline_.expires_after(kTimeout);
    deadline_.async_wait([this](const auto& cancelled) {
      if (!cancelled) fail(OriginError::kTimeout, "no reply in time");
    });
    link_.start();
    await_ready();
    io_.run();
    return std::move(result_);
  }

 private:
  void await_ready() {
    if (link_.ready()) return try_cells();
    poll_.expires_after(Millis(5));
    poll_.async_wait([this](const auto& cancelled) {
      if (!cancelled) await_ready();
    });
  }

  // Uses keys of its own, which expire after a second.
  void try_cells() {
    const std::string key = origins::redis_key({"check-" + origins::hex(platform::entropy()), 0});
    const std::string script_sha = origins::sha_of_script(origins::kRetireScript);
    const std::string keep_sha = origins::sha_of_script(origins::kRestoreScript);
    const std::string nodes = "weir:check-" + origins::hex(platform::entropy());
    std::string text;
    const std::initializer_list<std::initializer_list<std::string_view>> commands = {
        {"HSET", key, "check", "1"},
        {"PEXPIRE", key, "1000"},
        {"HGETALL", key},
        {"SCRIPT", "LOAD", origins::kRetireScript},
        {"EVALSHA", script_sha, "1", key, "check"},
        {"SCRIPT", "LOAD", origins::kRestoreScript},
        {"EVALSHA", keep_sha, "1", key, "2", "1000"},
        {"DEL", key},
        {"TIME"},
        {"ZADD", nodes, "1", "check"},
        {"PEXPIRE", nodes, "1000"},
        {"ZREMRANGEBYSCORE", nodes, "-inf", "0"},
        {"ZCOUNT", nodes, "0", "+inf"},
        {"ZRANGEBYSCORE", nodes, "0", "+inf"},
        {"ZREM", nodes, "check"},
        {"ZCARD", "weir:nodes"},
        {"INFO", "server"}};
    for (const auto& words : commands) origins::append_command(text, words);
    const MonoTime began = system_clock().now().mono;
    link_.send(
        std::move(text), commands.size(),
        [this, began](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
          if (failure) return fail(*failure, link_.last_error());
          for (const RedisReply& reply : replies) {
            if (reply.type != RedisReply::Type::kError) continue;
            return fail(origins::error_of_reply(reply.text), std::string(reply.text));
          }
          const Nanos took = system_clock().now().mono - began;
          result_.usable = true;
          result_.text = fmt::format(
              "origin {}: connected, reads and writes\n"
              "  Redis {}, {} nodes, replies after {:.1f} ms\n",
              name_, version_in(replies.back().text), replies[replies.size() - 2].integer,
              static_cast<double>(took.count()) / 1e6);
          end();
        });
  }

  void fail(OriginError why, const std::string& detail) {
    if (!result_.text.empty()) return;
    result_.text = fmt::format("origin {}: {}\n  {}\n", name_, detail, remedy(why));
    end();
  }

  void end() {
    deadline_.cancel();
    poll_.cancel();
    link_.stop();
    io_.stop();
  }

  boost::asio::io_context io_{1};
  const std::string name_;
  origins::RedisLink link_;
  boost::asio::steady_timer poll_, deadline_;
  OriginCheck result_;
};

}  // namespace

OriginCheck check_origin(const origins::RedisAddress& address) {
  return Check(address).run();
}

}  // namespace weir::server

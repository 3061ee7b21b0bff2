#include "server/origin_check.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_scripts.h"
#include "platform/entropy.h"
#include "server/region.h"

namespace weir::server {
namespace {

using origins::OriginError;
using origins::RedisReply;
using origins::Script;

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
    case OriginError::kVersion: return "docs/origin.md describes how to change the version";
    case OriginError::kRegion: return "docs/ledger.md describes how to rename a region";
    case OriginError::kMoved: return "it is part of a Redis cluster, which is not supported yet";
    default:
      return "check that it is a Redis server, version 4 or later, with a ledger 6.2 or later";
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

// Commands of a check, on keys that it deletes at the end.
class Commands {
 public:
  size_t add(std::initializer_list<std::string_view> words) {
    origins::append_command(text, words);
    return count++;
  }
  void add(Script script, std::vector<std::string_view> keys,
           std::initializer_list<std::string_view> values) {
    add({"SCRIPT", "LOAD", text_of(script)});
    const std::string key_count = std::to_string(keys.size());
    std::vector<std::string_view> words = {"EVALSHA", sha_of(script), key_count};
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), values.begin(), values.end());
    origins::append_command(text, words);
    ++count;
  }

  std::string text;
  size_t count = 0;
};

class Check {
 public:
  Check(const origins::RedisAddress& address, const std::string& region)
      : name_(to_string(address)),
        has_ledger_(!region.empty()),
        link_(io_, system_clock(), address, platform::entropy(),
              [this](OriginError why) { fail(why, link_.last_error()); }, {.region = region}),
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

  // Uses keys of its own, which expire after a second. Before each script come its commands: the
  // reply to a script does not name the command for which a permission is missing.
  void try_cells() {
    const std::string prefix = "weir:{check-" + origins::hex(platform::entropy()) + "}:";
    const std::string key = prefix + "0";
    const std::string nodes = prefix + "nodes";
    Commands commands;
    commands.add({"HSET", key, "check", "1"});
    commands.add({"PEXPIRE", key, "1000"});
    commands.add({"PTTL", key});
    commands.add({"HGETALL", key});
    commands.add({"HGET", key, "check"});
    commands.add({"HINCRBY", key, "other", "1"});
    commands.add({"HDEL", key, "other"});
    commands.add(Script::kRetire, {key}, {"check"});
    commands.add(Script::kRestore, {key}, {"2", "1000"});
    commands.add({"DEL", key});
    commands.add({"TIME"});
    commands.add({"ZADD", nodes, "1", "check"});
    commands.add({"PEXPIRE", nodes, "1000"});
    commands.add({"ZREMRANGEBYSCORE", nodes, "-inf", "0"});
    commands.add({"ZCOUNT", nodes, "0", "+inf"});
    commands.add({"ZRANGEBYSCORE", nodes, "0", "+inf"});
    commands.add({"ZREM", nodes, "check"});
    const size_t live = commands.add({"ZCARD", "weir:nodes"});
    const size_t info = commands.add({"INFO", "server"});
    if (has_ledger_) add_bridge(commands, prefix);
    const MonoTime began = system_clock().now().mono;
    link_.send(std::move(commands.text), commands.count,
               [this, began, live, info](std::optional<OriginError> failure,
                                         std::span<const RedisReply> replies) {
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
                     name_, version_in(replies[info].text), replies[live].integer,
                     static_cast<double>(took.count()) / 1e6);
                 end();
               });
  }

  static void add_bridge(Commands& commands, const std::string& prefix) {
    const std::string cell = prefix + "1";
    const std::string tuple = prefix + "t";
    const std::string lease = prefix + "lease";
    const std::string state = prefix + "state";
    const std::string due = prefix + "due";
    const std::string messages = prefix + "messages";
    const std::string channel = prefix + "channel";
    commands.add(Script::kRaiseDeparted, {cell}, {"1", "1000", "1"});
    commands.add(Script::kUpdateTuple, {tuple}, {"1000", "check", "1", "1", "1", "1"});
    commands.add({"GET", state});
    commands.add({"SET", state, "check", "PX", "1000"});
    commands.add({"DEL", lease});
    commands.add(Script::kAcquire, {lease, state}, {"check", "1000"});
    commands.add(Script::kSave, {lease, state}, {"check", "state"});
    commands.add(Script::kRelease, {lease}, {"check"});
    commands.add({"ZADD", due, "LT", "1", "check"});
    commands.add({"ZSCORE", due, "check"});
    commands.add({"ZREM", due, "check"});
    commands.add(Script::kAddDue, {due}, {"1", "check"});
    commands.add({"ZRANGE", due, "0", "-1"});
    commands.add(Script::kRemoveDue, {due}, {"check", "1"});
    commands.add({"INCR", messages});
    commands.add({"PUBLISH", channel, "check"});
    commands.add(Script::kNotify, {messages}, {channel, "check"});
    commands.add({"DEL", cell, tuple, state, messages});
    commands.add({"SUBSCRIBE", channel});  // the last: no other command may follow
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
  const bool has_ledger_;  // it needs more commands
  origins::RedisLink link_;
  boost::asio::steady_timer poll_, deadline_;
  OriginCheck result_;
};

}  // namespace

OriginCheck check_origin(const origins::RedisAddress& address, const std::string& region) {
  return Check(address, region).run();
}

// The link connects once; then it is ready, or it was lost for a reason.
std::string find_data_conflict(const origins::RedisAddress& address, const std::string& region) {
  boost::asio::io_context io(1);
  std::string conflict;
  std::optional<origins::RedisLink> link;
  link.emplace(
      io, system_clock(), address, platform::entropy(),
      [&](OriginError why) {
        const bool of_others = why == OriginError::kVersion || why == OriginError::kRegion;
        if (of_others) conflict = link->last_error();
        io.stop();
      },
      origins::RedisLink::Options{.region = region});
  link->start();
  while (!io.stopped() && !link->ready()) io.run_one();
  link->stop();
  return conflict;
}

}  // namespace weir::server

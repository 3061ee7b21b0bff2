// The store of the bridge in Redis: its lease, its state, its messages, and the tuples that are
// due.
//
// The keys of the bridge have a hash tag of their own, so that each script uses one slot.

#include <algorithm>
#include <charconv>
#include <utility>

#include "origins/redis/redis_tuples.h"
#include "origins/redis/redis_worker.h"

namespace weir::origins {

using telemetry::OriginCommand;

namespace {

constexpr std::string_view kLeaseKey = "weir:{bridge}:lease";
constexpr std::string_view kStateKey = "weir:{bridge}:state";
constexpr std::string_view kMessagesKey = "weir:{bridge}:messages";
constexpr std::string_view kRecordsKey = "weir:{bridge}:records";
constexpr std::string_view kDueKey = "weir:due";
constexpr size_t kEntriesPerCommand = 1000;
constexpr size_t kMaxEntriesRead = 10'000;  // bounds the reply
constexpr WallTime kLatest{Millis(int64_t{1} << 52)};

// The value of evicted_keys in the reply to INFO; 0: the user may not read it.
uint64_t evicted_keys(const RedisReply& info) {
  constexpr std::string_view kName = "evicted_keys:";
  uint64_t count = 0;
  const size_t at = info.text.find(kName);
  if (info.type != RedisReply::Type::kText || at == std::string_view::npos) return count;
  const std::string_view rest = info.text.substr(at + kName.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), count);
  return count;
}

// For calls without a reply: errors are in the metrics.
void ignore(const Result<std::span<const RedisReply>>&) {}

}  // namespace

void RedisOrigin::Worker::acquire(const std::string& holder, Millis lease, GrantReply reply) {
  Pipeline commands;
  add_script(commands, OriginCommand::kBridge, Script::kAcquire, {kLeaseKey, kStateKey},
             {holder, std::to_string(std::max<int64_t>(1, lease.count()))});
  add(commands, OriginCommand::kBridge, {"INFO", "stats"});
  call_scripts({.commands = std::move(commands),
                .scripts = {Script::kAcquire},
                .optional = 1,
                .done = [reply = std::move(reply)](Result<Replies> replies) {
                  if (!replies) return reply(replies.error());
                  const RedisReply& grant = replies->front();
                  if (grant.items.size() != 3) return reply(to_error(OriginError::kOther));
                  reply(BridgeGrant{.ours = grant.items[0].integer == 1,
                                    .state = std::string(grant.items[1].text),
                                    .evicted = evicted_keys(replies->back()),
                                    .now = parse_time(grant.items[2]).value_or(WallTime{})});
                }});
}

void RedisOrigin::Worker::release(const std::string& holder) {
  Pipeline commands;
  add_script(commands, OriginCommand::kBridge, Script::kRelease, {kLeaseKey}, {holder});
  call_scripts({.commands = std::move(commands), .scripts = {Script::kRelease}, .done = ignore});
}

void RedisOrigin::Worker::save(const std::string& holder, const std::string& before,
                               const std::string& state, SavedReply reply) {
  Pipeline commands;
  add_script(commands, OriginCommand::kBridge, Script::kSave, {kLeaseKey, kStateKey},
             {holder, before, state});
  call_scripts({.commands = std::move(commands),
                .scripts = {Script::kSave},
                .done = [reply = std::move(reply)](Result<Replies> replies) {
                  if (!replies) return reply(replies.error());
                  reply(replies->front().integer == 1);
                }});
}

void RedisOrigin::Worker::notify(const std::string& body) {
  Pipeline commands;
  add_script(commands, OriginCommand::kBridge, Script::kNotify, {kMessagesKey}, {channel, body});
  call_scripts({.commands = std::move(commands), .scripts = {Script::kNotify}, .done = ignore});
}

WallTime RedisOrigin::Worker::server_time() const {
  const Instant now = clock.now();
  if (!server_time_ahead) return now.wall;
  return WallTime(std::chrono::floor<Millis>(now.mono.time_since_epoch()) + *server_time_ahead);
}

void RedisOrigin::Worker::read_due(WallTime from, WallTime by, size_t most, DueReply reply) {
  Pipeline commands;
  if (most > 0) {
    // The entries have the time of the server. Our clock may be behind it. All revisions of the
    // last millisecond are due.
    const WallTime last = std::min(std::max(by, server_time()), kLatest);
    add(commands, OriginCommand::kDue,
        {"ZRANGEBYSCORE", kDueKey, millis_text(from), "(" + millis_text(last + Millis(1)),
         "WITHSCORES", "LIMIT", "0", std::to_string(std::min(most, kMaxEntriesRead))});
  }
  call_scripts({.commands = std::move(commands),
                .done = [this, reply = std::move(reply)](Result<Replies> replies) {
                  if (!replies) return reply(replies.error());
                  std::vector<DueTuple> entries;
                  if (replies->empty()) return reply(std::move(entries));
                  uint64_t invalid = 0;
                  if (!read_due_members(replies->front(), entries, invalid)) {
                    return reply(to_error(OriginError::kOther));
                  }
                  metrics.invalid.fetch_add(invalid, std::memory_order_relaxed);
                  reply(std::move(entries));
                }});
}

// LT keeps the earlier time, and adds what is missing.
void RedisOrigin::Worker::add_due_commands(Pipeline& pipeline, std::span<const DueTuple> entries) {
  for (const bool at_end : {false, true}) {
    std::vector<std::string> parts;
    for (const DueTuple& entry : entries) {
      if ((entry.kind == Due::kWindowEnd) != at_end) continue;
      parts.push_back(millis_text(entry.at));
      parts.push_back(due_member(entry));
    }
    if (parts.empty()) continue;
    std::vector<std::string_view> words(parts.begin(), parts.end());
    if (at_end) {
      words.insert(words.begin(), {"ZADD", kDueKey, "LT"});
      add(pipeline, OriginCommand::kDue, words);
    } else {
      add_script(pipeline, OriginCommand::kDue, Script::kAddDue, std::span(&kDueKey, 1), words);
    }
  }
}

void RedisOrigin::Worker::add_due(const std::vector<DueTuple>& entries) {
  Pipeline commands;
  for (size_t at = 0; at < entries.size(); at += kEntriesPerCommand) {
    add_due_commands(commands, std::span(entries).subspan(
                                   at, std::min(kEntriesPerCommand, entries.size() - at)));
  }
  call_scripts({.commands = std::move(commands), .scripts = {Script::kAddDue}, .done = ignore});
}

void RedisOrigin::Worker::remove_due(const std::vector<DueTuple>& entries) {
  Pipeline commands;
  for (size_t at = 0; at < entries.size(); at += kEntriesPerCommand) {
    std::vector<std::string> parts;
    const size_t end = std::min(at + kEntriesPerCommand, entries.size());
    for (size_t i = at; i < end; ++i) {
      parts.push_back(due_member(entries[i]));
      parts.push_back(due_score(entries[i]));
    }
    const std::vector<std::string_view> values(parts.begin(), parts.end());
    add_script(commands, OriginCommand::kDue, Script::kRemoveDue, std::span(&kDueKey, 1), values);
  }
  // Never sent again: it would run after a later read of the caller, and could remove an entry
  // whose counts that read did not return.
  call_scripts(
      std::make_shared<const ScriptCall>(ScriptCall{
          .commands = std::move(commands), .scripts = {Script::kRemoveDue}, .done = ignore}),
      OnMissingScript::kFail);
}

void RedisOrigin::Worker::keep_record(const std::string& record, KeptReply reply) {
  const WallTime at = server_time();
  Pipeline commands;
  add(commands, OriginCommand::kBridge, {"ZADD", kRecordsKey, millis_text(at), record});
  add(commands, OriginCommand::kBridge,
      {"ZREMRANGEBYSCORE", kRecordsKey, "-inf", "(" + millis_text(at - kRecordsKept)});
  add(commands, OriginCommand::kBridge,
      {"PEXPIRE", kRecordsKey, std::to_string(2 * kRecordsKept.count())});
  call_scripts({.commands = std::move(commands),
                .done = [reply = std::move(reply)](Result<Replies> replies) {
                  if (!replies) return reply(replies.error());
                  reply(true);
                }});
}

void RedisOrigin::Worker::read_records(RecordsReply reply) {
  Pipeline commands;
  add(commands, OriginCommand::kBridge, {"ZRANGE", kRecordsKey, "0", "-1"});
  call_scripts({.commands = std::move(commands),
                .done = [reply = std::move(reply)](Result<Replies> replies) {
                  if (!replies) return reply(replies.error());
                  std::vector<std::string> records;
                  for (const RedisReply& each : replies->front().items) {
                    records.emplace_back(each.text);
                  }
                  reply(std::move(records));
                }});
}

}  // namespace weir::origins

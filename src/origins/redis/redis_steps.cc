// Steps of the Redis origin: the script kStep for each, in one pipeline.

#include <algorithm>
#include <functional>
#include <utility>

#include "base/wide.h"
#include "origins/due_set.h"
#include "origins/redis/redis_tuples.h"
#include "origins/redis/redis_worker.h"
#include "origins/step_rule.h"

namespace weir::origins {

using telemetry::OriginCommand;

namespace {

// Longer than a replay that was collected before the reply waits for this thread.
constexpr Nanos kStepRemembered = std::chrono::seconds(2);

uint64_t stepped_key(const std::string& key, const std::string& field) {
  return std::hash<std::string>()(key + " " + field);
}

}  // namespace

void RedisOrigin::Worker::add_step(Pipeline& commands, const CellStep& step) {
  const std::string prefix = key_prefix(step.cell.tuple);
  std::vector<std::string> keys = {prefix + std::to_string(step.cell.sequence),
                                   prefix + std::to_string(step.cell.sequence - 1)};
  if (step.with_regions) keys.push_back(tuple_key(prefix));
  std::vector<std::string> values = {redis_field(step.writer)};
  const auto add_count = [&](Count count) { values.push_back(count_text(count)); };
  add_count(step.own);
  values.push_back(ttl_text(step.expires_at));
  for (const Count count : {step.limit_seen, step.siblings, step.siblings_last, step.foreign,
                            step.foreign_last, step.own_last}) {
    add_count(count);
  }
  values.push_back(std::to_string(step.duration.count()));
  for (const StepAsk& ask : step.asks) {
    add_count(ask.cost);
    add_count(ask.limit);
    values.push_back(std::to_string(ask.rest.count()));
  }
  const std::vector<std::string_view> key_views(keys.begin(), keys.end());
  const std::vector<std::string_view> value_views(values.begin(), values.end());
  add_script(commands, OriginCommand::kStep, Script::kStep, key_views, value_views);
}

void RedisOrigin::Worker::step(std::vector<CellStep> steps, StepReply reply) {
  Pipeline commands;
  std::vector<DueTuple> due;
  for (const CellStep& step : steps) {
    add_step(commands, step);
    if (step.due != Due::kNever) {
      due.push_back(due_entry(step.cell, step.expires_at, step.due, server_time()));
    }
    // What it will grant at most, until the reply says.
    Count most = step.own;
    for (const StepAsk& ask : step.asks) most = base::saturating_add(most, ask.cost);
    note_stepped(step, most);
  }
  // After the counts: whoever sees the entry also sees them.
  std::vector<Script> scripts = {Script::kStep};
  if (!due.empty()) {
    add_due_commands(commands, due);
    scripts.push_back(Script::kAddDue);
  }
  // The server refuses a step whose key is of another type; the others are answered.
  const size_t count = commands.count;
  call_scripts(
      {.commands = std::move(commands),
       .scripts = std::move(scripts),
       .optional = count,
       .done = [this, steps = std::move(steps), reply = std::move(reply)](Result<Replies> replies) {
         if (!replies) return reply(replies.error());
         std::vector<StepTotals> totals;
         for (size_t i = 0; i < replies->size(); ++i) {
           const RedisReply& each = (*replies)[i];
           const bool failed = each.type == RedisReply::Type::kError;
           const OriginError error = failed ? error_of_reply(each.text) : OriginError::kOther;
           if (failed && (error != OriginError::kWrongType || i >= steps.size())) {
             metrics.errors.add(error);
             note_refused_write(error, each.text);
             if (error == OriginError::kNoScript) scripts_sent = {};
             return reply(to_error(error, each.text, std::array{Script::kStep}));
           }
           if (i < steps.size()) totals.push_back(step_totals(steps[i], each));
         }
         note_accepted_write();
         reply(std::move(totals));
       }});
}

StepTotals RedisOrigin::Worker::step_totals(const CellStep& step, const RedisReply& reply) {
  Count total = 0;
  const bool valid = reply.type == RedisReply::Type::kList && reply.items.size() >= kStepReplies &&
                     reply.items[0].text.size() == step.asks.size() &&
                     parse_count(reply.items[1].text, total);
  if (!valid) {
    // The key holds another type. Decided on what this process knows, like a cell that cannot be
    // written.
    metrics.errors.add(OriginError::kWrongType);
    StepGrant local = grant(step, {}, {});
    return {.current = {.mine = local.total, .refused = local.refused},
            .last = {},
            .granted = std::move(local.granted),
            .counted = false};
  }
  const std::string field = redis_field(step.writer);
  const auto read = [&](const RedisReply& hash, int64_t sequence, WallTime expires_at) {
    CellHash cell = read_hash(hash, field);
    metrics.invalid.fetch_add(cell.invalid, std::memory_order_relaxed);
    observe_departed(redis_key({step.cell.tuple, sequence}), cell.departed, expires_at);
    return std::move(cell.totals);
  };
  const int64_t current = step.cell.sequence;
  StepTotals totals{
      .current = read(reply.items[kStepCell], current, step.expires_at),
      .last = read(reply.items[kStepCell + 1], current - 1, step.expires_at - step.duration),
      .granted = {}};
  totals.current.mine = std::max(totals.current.mine, total);
  for (const char digit : reply.items[0].text) {
    totals.granted.push_back(digit == '1');
    totals.current.refused = totals.current.refused || digit != '1';
  }
  if (step.with_regions && reply.items.size() > kStepReplies) {
    totals.current.regions =
        std::make_shared<const std::vector<RegionCount>>(regions_of(reply.items[kStepReplies]));
  }
  note_stepped(step, total);
  // The script has set the expiry of the cell: a write need not.
  if (total > 0) known_cells.add(redis_key(step.cell));
  return totals;
}

void RedisOrigin::Worker::note_stepped(const CellStep& step, Count total) {
  const MonoTime now = clock.now().mono;
  while (!step_ends.empty() && step_ends.front().first <= now) {
    const auto found = stepped.find(step_ends.front().second);
    if (found != stepped.end() && found->second.until <= now) stepped.erase(found);
    step_ends.pop_front();
  }
  const uint64_t key = stepped_key(redis_key(step.cell), redis_field(step.writer));
  stepped[key] = {.total = total, .until = now + kStepRemembered};
  step_ends.emplace_back(now + kStepRemembered, key);
}

bool RedisOrigin::Worker::is_below_step(const std::string& key, const std::string& field,
                                        Count total) {
  if (stepped.empty()) return false;
  const auto found = stepped.find(stepped_key(key, field));
  return found != stepped.end() && total < found->second.total;
}

}  // namespace weir::origins

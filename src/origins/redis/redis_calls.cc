// Cell calls of the Redis origin: reads, writes and repairs.

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "origins/due_set.h"
#include "origins/redis/redis_tuples.h"
#include "origins/redis/redis_worker.h"

namespace weir::origins {

using telemetry::OriginCommand;

namespace {

// A cell stays for this long after its last use, so that clocks may differ a little.
constexpr Millis kExpiryMargin{5000};
constexpr size_t kRepairsPerPipeline = 1000;

bool is_error(const RedisReply& reply) {
  return reply.type == RedisReply::Type::kError;
}

}  // namespace

bool RedisOrigin::Worker::Call::writes() const {
  return std::any_of(cells.begin(), cells.end(), [](const CellCall& cell) { return cell.written; });
}

const RedisReply* RedisOrigin::Worker::Call::error_in(std::span<const RedisReply> replies) const {
  for (const RedisReply& each : replies) {
    if (is_error(each) && error_of_reply(each.text) != OriginError::kWrongType) return &each;
  }
  // A cell of the wrong type does not block the others.
  for (size_t i = due_reply.value_or(replies.size()); i < replies.size(); ++i) {
    if (is_error(replies[i])) return &replies[i];
  }
  for (const CellCall& cell : cells) {
    if (cell.regions_reply && is_error(replies[*cell.regions_reply])) {
      return &replies[*cell.regions_reply];
    }
  }
  return nullptr;
}

void RedisOrigin::Worker::add(Pipeline& pipeline, OriginCommand kind,
                              std::span<const std::string_view> words) {
  append_command(pipeline.text, words);
  ++pipeline.count;
  metrics.commands.add(kind);
}

std::string RedisOrigin::Worker::ttl_text(WallTime expires_at) const {
  return ttl_text(expires_at, clock.now().wall);
}

std::string RedisOrigin::Worker::ttl_text(WallTime expires_at, WallTime now) {
  const Millis ttl = expires_at + kExpiryMargin - now;
  return std::to_string(std::max<int64_t>(1, ttl.count()));
}

void RedisOrigin::Worker::add_restore(Pipeline& pipeline, const RedisRepairs::Repair& repair) {
  const auto kind = repair.departed > 0 ? OriginCommand::kRetire : OriginCommand::kExpire;
  add_script(pipeline, kind, Script::kRestore, {repair.key},
             {std::to_string(repair.departed), ttl_text(repair.expires_at)});
}

void RedisOrigin::Worker::reset_after_reconnect() {
  const uint64_t connection = link.connection_id();
  if (connection == sent_on_connection) return;
  sent_on_connection = connection;
  scripts_sent = {};
  known_cells.clear();
}

void RedisOrigin::Worker::read(const std::vector<CellRead>& cells, OriginReply reply) {
  Call call;
  std::unordered_map<std::string_view, size_t> regions;  // the reply by tuple
  for (const CellRead& cell : cells) {
    const std::string prefix = key_prefix(cell.cell.tuple);
    CellCall part{.field = redis_field(cell.reader),
                  .first_reply = call.pipeline.count,
                  .hash_reply = call.pipeline.count,
                  .key = prefix + std::to_string(cell.cell.sequence),
                  .expires_at = cell.expires_at};
    add(call.pipeline, OriginCommand::kRead, {"HGETALL", part.key});
    if (cell.with_regions) {
      const auto [found, added] = regions.try_emplace(cell.cell.tuple, call.pipeline.count);
      if (added) add(call.pipeline, OriginCommand::kRegions, {"HGETALL", tuple_key(prefix)});
      part.regions_reply = found->second;
    }
    call.cells.push_back(std::move(part));
  }
  send(std::move(call), std::move(reply));
}

void RedisOrigin::Worker::replay(const std::vector<CellReplay>& cells, OriginReply reply) {
  const WallTime now = clock.now().wall;
  reset_after_reconnect();
  Call call;
  std::vector<DueTuple> due;
  for (const CellReplay& cell : cells) {
    CellCall part{.field = redis_field(cell.writer),
                  .first_reply = call.pipeline.count,
                  .total = cell.total,
                  .limit_seen = cell.limit_seen,
                  .expired = cell.expires_at <= now};
    if (!part.expired) {
      part.key = redis_key(cell.cell);
      part.expires_at = cell.expires_at;
      const bool writes = cell.total > 0 || cell.limit_seen > 0;
      part.by_step = writes && is_below_step(part.key, part.field, cell.total);
      if (part.by_step) {
        // HSET would take back what the step has granted.
        load_script(call.pipeline, Script::kStep);
        add_step(call.pipeline, {.cell = cell.cell,
                                 .writer = cell.writer,
                                 .own = cell.total,
                                 .expires_at = cell.expires_at,
                                 .limit_seen = cell.limit_seen,
                                 .asks = {}});
      } else {
        if (writes) write_cell(call.pipeline, part);
        add(call.pipeline, OriginCommand::kRead, {"HGETALL", part.key});
      }
      part.hash_reply = call.pipeline.count - 1;
      if (cell.due != Due::kNever) {
        due.push_back(due_entry(cell.cell, cell.expires_at, cell.due, server_time()));
      }
    }
    call.cells.push_back(std::move(part));
  }
  // After the counts: whoever sees the entry also sees them.
  if (!due.empty()) {
    call.due_reply = call.pipeline.count;
    load_script(call.pipeline, Script::kAddDue);
    add_due_commands(call.pipeline, due);
  }
  send(std::move(call), std::move(reply));
}

// The first write on a connection sets the expiry, too. Later the reply to the write shows whether
// the cell still has it.
void RedisOrigin::Worker::write_cell(Pipeline& pipeline, CellCall& cell) {
  const std::string total = std::to_string(cell.total);
  cell.written = true;
  cell.expiry_sent = known_cells.add(cell.key);
  if (cell.expiry_sent) load_script(pipeline, Script::kRestore);
  cell.first_reply = pipeline.count;
  if (cell.limit_seen > 0) {
    add(pipeline, OriginCommand::kReplay,
        {"HSET", cell.key, cell.field, total, limit_field(cell.field),
         std::to_string(cell.limit_seen)});
  } else {
    add(pipeline, OriginCommand::kReplay, {"HSET", cell.key, cell.field, total});
  }
  if (cell.expiry_sent) add_restore(pipeline, {.key = cell.key, .expires_at = cell.expires_at});
}

void RedisOrigin::Worker::send(Call call, OriginReply reply) {
  if (call.pipeline.count == 0) return reply(totals(call, {}));
  std::string text = std::move(call.pipeline.text);
  const size_t count = call.pipeline.count;
  link.send(std::move(text), count,
            [this, began = clock.now().mono, call = std::move(call), reply = std::move(reply)](
                std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              // Also if one of many writes was refused: the server accepted the others.
              check_expiries(call, replies);
              if (failure) {
                note_call(began, failure);
                return reply(to_error(*failure));
              }
              if (const RedisReply* const error = call.error_in(replies)) {
                const OriginError meaning = error_of_reply(error->text);
                note_refused_write(meaning, error->text);
                note_call(began, meaning);
                if (meaning == OriginError::kNoScript) scripts_sent = {};
                return reply(
                    to_error(meaning, error->text, std::array{Script::kRestore, Script::kAddDue}));
              }
              auto result = totals(call, replies);
              if (call.writes()) note_accepted_write();
              if (!repairs.empty()) send_repairs();
              note_call(began, result ? std::nullopt : std::optional(OriginError::kOther));
              reply(std::move(result));
            });
}

// A write may have created a cell without an expiry in three cases. The field was new in a cell
// that this node had written before: the server flushed or evicted the cell. Or the script failed.
// Or the call got no reply.
void RedisOrigin::Worker::check_expiries(const Call& call, std::span<const RedisReply> replies) {
  for (const CellCall& cell : call.cells) {
    if (!cell.written) continue;
    if (!replies.empty()) {
      const RedisReply& write = replies[cell.first_reply];
      if (write.type != RedisReply::Type::kInteger) continue;
      if (cell.expiry_sent) {
        const RedisReply& expiry = replies[cell.first_reply + 1];
        if (expiry.type == RedisReply::Type::kInteger && expiry.integer == 1) continue;
        if (error_of_reply(expiry.text) == OriginError::kNoScript) scripts_sent = {};
      } else if (write.integer == 0) {
        continue;
      }
    }
    repairs.add_expiry(cell.key, cell.expires_at);
  }
  if (!replies.empty() && !repairs.empty()) send_repairs();
}

void RedisOrigin::Worker::observe_departed(const std::string& key, Count departed,
                                           WallTime expires_at) {
  if (expires_at <= clock.now().wall) return;
  repairs.observe_departed(key, departed, expires_at);
}

// A repair that fails is added again; the next accepted heartbeat sends it.
void RedisOrigin::Worker::send_repairs() {
  if (!link.ready()) return;
  reset_after_reconnect();
  auto batch = repairs.take(kRepairsPerPipeline);
  if (batch.empty()) return;
  Pipeline pipeline;
  load_script(pipeline, Script::kRestore);
  const size_t first = pipeline.count;
  for (const RedisRepairs::Repair& repair : batch) add_restore(pipeline, repair);
  link.send(std::move(pipeline.text), pipeline.count,
            [this, first, batch = std::move(batch)](std::optional<OriginError> failure,
                                                    std::span<const RedisReply> replies) {
              for (size_t i = 0; i < batch.size(); ++i) {
                if (!failure && replies[first + i].type != RedisReply::Type::kError) continue;
                if (!failure) {
                  const OriginError why = error_of_reply(replies[first + i].text);
                  metrics.errors.add(why);
                  if (why == OriginError::kNoScript) scripts_sent = {};
                  if (why == OriginError::kWrongType) continue;  // the key is not a cell
                }
                repairs.add(batch[i]);
              }
            });
}

Result<std::vector<CellTotals>> RedisOrigin::Worker::totals(const Call& call,
                                                            std::span<const RedisReply> replies) {
  std::vector<CellTotals> all;
  std::map<size_t, std::shared_ptr<const std::vector<RegionCount>>> regions;  // by their reply
  for (const CellCall& cell : call.cells) {
    if (cell.expired) {
      all.push_back({.mine = cell.total});
      continue;
    }
    const bool by_step = cell.by_step && replies[cell.hash_reply].items.size() >= kStepReplies;
    const RedisReply& reply =
        by_step ? replies[cell.hash_reply].items[kStepCell] : replies[cell.hash_reply];
    if (reply.type == RedisReply::Type::kList) {
      CellHash hash = read_hash(reply, cell.field);
      // As it was before the step.
      if (by_step) hash.totals.mine = std::max(hash.totals.mine, cell.total);
      metrics.invalid.fetch_add(hash.invalid, std::memory_order_relaxed);
      observe_departed(cell.key, hash.departed, cell.expires_at);
      all.push_back(hash.totals);
    } else if (is_error(reply)) {
      // The key holds another type. The cell counts as acknowledged, so that it does not block the
      // others.
      metrics.errors.add(OriginError::kWrongType);
      all.push_back({.mine = cell.total});
    } else {
      return to_error(OriginError::kOther);
    }
    if (!cell.regions_reply) continue;
    auto& found = regions[*cell.regions_reply];
    if (!found) {
      found = std::make_shared<const std::vector<RegionCount>>(
          regions_of(replies[*cell.regions_reply]));
    }
    all.back().regions = found;
  }
  return all;
}

}  // namespace weir::origins

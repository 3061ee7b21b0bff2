// Cell calls of the Redis origin: reads, writes, retirement and repairs.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "origins/redis/redis_worker.h"

namespace weir::origins {

namespace asio = boost::asio;
using telemetry::OriginCommand;

namespace {

// A cell stays for this long after its last use, so that clocks may differ a little.
constexpr Millis kExpiryMargin{5000};
constexpr size_t kMaxExpiriesRemembered = 1 << 20;
constexpr size_t kRepairsPerPipeline = 1000;

// The first error that concerns more than one cell.
const RedisReply* first_error(std::span<const RedisReply> replies) {
  for (const RedisReply& each : replies) {
    if (each.type == RedisReply::Type::kError &&
        error_of_reply(each.text) != OriginError::kWrongType) {
      return &each;
    }
  }
  return nullptr;
}

}  // namespace

bool RedisOrigin::Worker::Call::writes() const {
  return std::any_of(cells.begin(), cells.end(), [](const CellCall& cell) { return cell.written; });
}

void RedisOrigin::Worker::add(Pipeline& pipeline, OriginCommand kind,
                              std::initializer_list<std::string_view> words) {
  append_command(pipeline.text, words);
  ++pipeline.count;
  metrics.commands.add(kind);
}

std::string RedisOrigin::Worker::ttl_text(WallTime expires_at) const {
  const Millis ttl = expires_at + kExpiryMargin - clock.now().wall;
  return std::to_string(std::max<int64_t>(1, ttl.count()));
}

void RedisOrigin::Worker::add_expiry(Pipeline& pipeline, std::string_view key,
                                     WallTime expires_at) {
  add(pipeline, OriginCommand::kExpire, {"PEXPIRE", key, ttl_text(expires_at)});
}

void RedisOrigin::Worker::reset_after_reconnect() {
  const uint64_t connection = link.connection_id();
  if (connection == sent_on_connection && expiries_sent.size() < kMaxExpiriesRemembered) return;
  if (connection != sent_on_connection) retire_script_sent = restore_script_sent = false;
  sent_on_connection = connection;
  expiries_sent.clear();
}

void RedisOrigin::Worker::read(const std::vector<CellRead>& cells, OriginReply reply) {
  Call call;
  for (const CellRead& cell : cells) {
    const size_t at = call.pipeline.count;
    std::string key = redis_key(cell.cell);
    add(call.pipeline, OriginCommand::kRead, {"HGETALL", key});
    call.cells.push_back({.field = redis_field(cell.reader),
                          .first_reply = at,
                          .hash_reply = at,
                          .key = std::move(key),
                          .expires_at = cell.expires_at});
  }
  send(std::move(call), std::move(reply));
}

void RedisOrigin::Worker::replay(const std::vector<CellReplay>& cells, OriginReply reply) {
  const WallTime now = clock.now().wall;
  reset_after_reconnect();
  Call call;
  for (const CellReplay& cell : cells) {
    CellCall part{.field = redis_field(cell.writer),
                  .first_reply = call.pipeline.count,
                  .total = cell.total,
                  .expired = cell.expires_at <= now};
    if (!part.expired) {
      part.key = redis_key(cell.cell);
      part.expires_at = cell.expires_at;
      if (cell.total > 0) write_field(call.pipeline, part, OriginCommand::kTell);
      add(call.pipeline, OriginCommand::kRead, {"HGETALL", part.key});
      part.hash_reply = call.pipeline.count - 1;
    }
    call.cells.push_back(std::move(part));
  }
  send(std::move(call), std::move(reply));
}

// The first write on a connection sets the expiry, too. Later the reply to the write shows whether
// the cell still has it.
void RedisOrigin::Worker::write_field(Pipeline& pipeline, CellCall& cell, OriginCommand kind) {
  add(pipeline, kind, {"HSET", cell.key, cell.field, std::to_string(cell.total)});
  cell.written = true;
  cell.expiry_sent = expiries_sent.insert(cell.key).second;
  if (cell.expiry_sent) add_expiry(pipeline, cell.key, cell.expires_at);
}

// HSET keeps the last value, even if it is smaller. Readers take it as a hint: at worst they
// publish again what the ledger has.
void RedisOrigin::Worker::note_published(const std::vector<CellPublished>& cells) {
  const WallTime now = clock.now().wall;
  reset_after_reconnect();
  Call call;
  for (const CellPublished& cell : cells) {
    if (cell.expires_at <= now || cell.total == 0) continue;
    CellCall part{.field = std::string(kPublishedField),
                  .first_reply = call.pipeline.count,
                  .total = cell.total,
                  .key = redis_key(cell.cell),
                  .expires_at = cell.expires_at};
    write_field(call.pipeline, part, OriginCommand::kPublish);
    call.cells.push_back(std::move(part));
  }
  if (call.pipeline.count > 0) send_published(std::move(call));
}

void RedisOrigin::Worker::send_published(Call call) {
  std::string text = std::move(call.pipeline.text);
  const size_t count = call.pipeline.count;
  link.send(std::move(text), count,
            [this, began = clock.now().mono, call = std::move(call)](
                std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              check_expiries(call, replies);
              for (const RedisReply& each : replies) {
                if (each.type != RedisReply::Type::kError) continue;
                if (error_of_reply(each.text) == OriginError::kWrongType) {
                  metrics.errors.add(OriginError::kWrongType);  // of one cell only
                }
              }
              if (const RedisReply* const error = first_error(replies)) {
                failure = error_of_reply(error->text);
                note_refused_write(*failure, error->text);
              }
              note_call(began, failure);
            });
}

void RedisOrigin::Worker::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  retire(std::move(cells), std::move(reply), OnMissingScript::kRetry);
}

void RedisOrigin::Worker::retire(std::vector<CellRetirement> cells, RetirementReply reply,
                                 OnMissingScript policy) {
  Pipeline pipeline;
  reset_after_reconnect();
  if (!std::exchange(retire_script_sent, true)) {
    add(pipeline, OriginCommand::kRetire, {"SCRIPT", "LOAD", kRetireScript});
  }
  const size_t first = pipeline.count;
  for (const CellRetirement& cell : cells) {
    add(pipeline, OriginCommand::kRetire,
        {"EVALSHA", retire_sha, "1", redis_key(cell.cell), redis_field(cell.writer)});
  }
  const MonoTime began = clock.now().mono;
  const auto on_replies = [this, began, first, policy, cells = std::move(cells),
                           reply = std::move(reply)](std::optional<OriginError> failure,
                                                     std::span<const RedisReply> replies) {
    size_t retired = 0;
    for (size_t i = first; i < replies.size(); ++i) {
      retired += replies[i].type == RedisReply::Type::kInteger && replies[i].integer == 1 ? 1 : 0;
      if (replies[i].type != RedisReply::Type::kError) continue;
      failure = error_of_reply(replies[i].text);
      note_refused_write(*failure, replies[i].text);
    }
    note_call(began, failure);
    if (failure == OriginError::kNoScript && policy == OnMissingScript::kRetry) {
      // Another client flushed the scripts.
      retire_script_sent = false;
      return asio::post(io, [this, cells, reply] { retire(cells, reply, OnMissingScript::kFail); });
    }
    reply(failure ? Result<size_t>(to_error(*failure)) : Result<size_t>(retired));
  };
  link.send(std::move(pipeline.text), pipeline.count, on_replies);
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
              if (const RedisReply* const error_reply = first_error(replies)) {
                const OriginError meaning = error_of_reply(error_reply->text);
                note_refused_write(meaning, error_reply->text);
                note_call(began, meaning);
                Error error = to_error(meaning);
                error.detail = "the origin answered: " + std::string(error_reply->text);
                return reply(std::move(error));
              }
              auto result = totals(call, replies);
              if (call.writes()) note_accepted_write();
              if (!repairs.empty()) send_repairs();
              note_call(began, result ? std::nullopt : std::optional(OriginError::kOther));
              reply(std::move(result));
            });
}

// A write may have created a cell without an expiry in three cases. The field was new in a cell
// that this node had written before: the server flushed or evicted the cell. Or PEXPIRE failed. Or
// the call got no reply.
void RedisOrigin::Worker::check_expiries(const Call& call, std::span<const RedisReply> replies) {
  for (const CellCall& cell : call.cells) {
    if (!cell.written) continue;
    if (!replies.empty()) {
      const RedisReply& write = replies[cell.first_reply];
      if (write.type != RedisReply::Type::kInteger) continue;
      const auto is_one = [](const RedisReply& reply) {
        return reply.type == RedisReply::Type::kInteger && reply.integer == 1;
      };
      if (cell.expiry_sent ? is_one(replies[cell.first_reply + 1]) : !is_one(write)) continue;
    }
    repairs.add_expiry(cell.key, cell.expires_at);
  }
  if (!replies.empty() && !repairs.empty()) send_repairs();
}

// A repair that fails is added again; the next accepted heartbeat sends it.
void RedisOrigin::Worker::send_repairs() {
  if (!link.ready()) return;
  reset_after_reconnect();
  auto batch = repairs.take(kRepairsPerPipeline);
  if (batch.empty()) return;
  Pipeline pipeline;
  const bool restores = std::any_of(batch.begin(), batch.end(),
                                    [](const auto& repair) { return repair.departed > 0; });
  if (restores && !std::exchange(restore_script_sent, true)) {
    add(pipeline, OriginCommand::kRetire, {"SCRIPT", "LOAD", kRestoreScript});
  }
  const size_t first = pipeline.count;
  for (const RedisRepairs::Repair& repair : batch) {
    if (repair.departed == 0) {
      add_expiry(pipeline, repair.key, repair.expires_at);
    } else {
      add(pipeline, OriginCommand::kRetire,
          {"EVALSHA", restore_sha, "1", repair.key, std::to_string(repair.departed),
           ttl_text(repair.expires_at)});
    }
  }
  link.send(std::move(pipeline.text), pipeline.count,
            [this, first, batch = std::move(batch)](std::optional<OriginError> failure,
                                                    std::span<const RedisReply> replies) {
              for (size_t i = 0; i < batch.size(); ++i) {
                if (!failure && replies[first + i].type != RedisReply::Type::kError) continue;
                if (!failure) {
                  const OriginError why = error_of_reply(replies[first + i].text);
                  metrics.errors.add(why);
                  if (why == OriginError::kNoScript) restore_script_sent = false;
                  if (why == OriginError::kWrongType) continue;  // the key is not a cell
                }
                repairs.add(batch[i]);
              }
            });
}

Result<std::vector<CellTotals>> RedisOrigin::Worker::totals(const Call& call,
                                                            std::span<const RedisReply> replies) {
  std::vector<CellTotals> all;
  for (const CellCall& cell : call.cells) {
    if (cell.expired) {
      all.push_back({.mine = cell.total});
      continue;
    }
    const RedisReply& reply = replies[cell.hash_reply];
    if (reply.type == RedisReply::Type::kList) {
      const CellHash hash = read_hash(reply, cell.field);
      metrics.invalid.fetch_add(hash.invalid, std::memory_order_relaxed);
      if (cell.expires_at != WallTime{}) {
        repairs.observe_departed(cell.key, hash.departed, cell.expires_at);
      }
      all.push_back(hash.totals);
    } else if (reply.type == RedisReply::Type::kError) {
      // The key holds another type. The cell counts as acknowledged, so that it does not block the
      // others.
      metrics.errors.add(OriginError::kWrongType);
      all.push_back({.mine = cell.total});
    } else {
      return to_error(OriginError::kOther);
    }
  }
  return all;
}

}  // namespace weir::origins

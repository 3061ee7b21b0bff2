// Reads and updates of tuples by the bridge.
//
// A long list is sent in parts, one after the other, so that the reads of requests, which share the
// connection, do not wait for all of it.

#include <algorithm>
#include <utility>

#include "base/wide.h"
#include "origins/redis/redis_tuples.h"
#include "origins/redis/redis_worker.h"

namespace weir::origins {

using telemetry::OriginCommand;

namespace {

constexpr size_t kTuplesPerPipeline = 500;

}  // namespace

// A call in progress.
struct RedisOrigin::Worker::TupleReads {
  std::vector<TupleRead> tuples;
  TupleReply reply;
  std::vector<TupleCounts> counts;  // of the tuples read so far
};
struct RedisOrigin::Worker::TupleUpdates {
  std::vector<TupleUpdate> tuples;
  TupleReply reply;
  std::vector<TupleCounts> counts;
};

std::vector<RegionCount> RedisOrigin::Worker::regions_of(const RedisReply& hash) {
  TupleHash read = read_tuple_hash(hash);
  metrics.invalid.fetch_add(read.invalid, std::memory_order_relaxed);
  return std::move(read.regions);
}

// From the region counts of a tuple and its cells, in this order.
TupleCounts RedisOrigin::Worker::counts_of(const std::vector<int64_t>& sequences, Replies hashes) {
  TupleCounts counts{.windows = {}, .regions = regions_of(hashes[0])};
  for (size_t i = 0; i < sequences.size(); ++i) {
    const CellHash cell = read_hash(hashes[i + 1], {});
    metrics.invalid.fetch_add(cell.invalid, std::memory_order_relaxed);
    counts.windows.push_back({.sequence = sequences[i],
                              .total = base::saturating_add(cell.totals.mine, cell.totals.siblings),
                              .limit_seen = cell.limit_seen});
  }
  return counts;
}

void RedisOrigin::Worker::read_tuples(std::vector<TupleRead> tuples, TupleReply reply) {
  read_next(std::make_shared<TupleReads>(
      TupleReads{.tuples = std::move(tuples), .reply = std::move(reply), .counts = {}}));
}

void RedisOrigin::Worker::read_next(const std::shared_ptr<TupleReads>& reads) {
  const size_t begin = reads->counts.size();
  const size_t end = std::min(begin + kTuplesPerPipeline, reads->tuples.size());
  if (begin == end) return reads->reply(std::move(reads->counts));
  Pipeline commands;
  for (size_t i = begin; i < end; ++i) {
    const std::string prefix = key_prefix(reads->tuples[i].tuple);
    add(commands, OriginCommand::kRegions, {"HGETALL", tuple_key(prefix)});
    for (const int64_t sequence : reads->tuples[i].sequences) {
      add(commands, OriginCommand::kRead, {"HGETALL", prefix + std::to_string(sequence)});
    }
  }
  call_scripts(
      {.commands = std::move(commands), .done = [this, reads, begin, end](Result<Replies> replies) {
         if (!replies) return reads->reply(replies.error());
         size_t at = 0;
         for (size_t i = begin; i < end; ++i) {
           const std::vector<int64_t>& sequences = reads->tuples[i].sequences;
           const size_t count = 1 + sequences.size();
           reads->counts.push_back(counts_of(sequences, replies->subspan(at, count)));
           at += count;
         }
         read_next(reads);
       }});
}

void RedisOrigin::Worker::update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) {
  update_next(std::make_shared<TupleUpdates>(
      TupleUpdates{.tuples = std::move(updates), .reply = std::move(reply), .counts = {}}));
}

// An update that has ended only reads. Floors come first, so that the reply has the new totals.
void RedisOrigin::Worker::add_update(Pipeline& commands, const TupleUpdate& update) {
  const std::string prefix = key_prefix(update.tuple);
  std::vector<std::string> keys = {tuple_key(prefix)};
  for (const int64_t sequence : update.sequences) keys.push_back(prefix + std::to_string(sequence));
  std::vector<std::string> values = {"0"};
  const WallTime now = update.now == WallTime{} ? clock.now().wall : update.now;
  if (!update.counts.empty() && update.kept_until > now) {
    values[0] = ttl_text(update.kept_until, now);
    for (const RegionCount& count : update.counts) {
      const int64_t lease = count.leased_until.time_since_epoch().count();
      values.push_back(count.region);
      values.push_back(std::to_string(count.sequence));
      values.push_back(count_text(count.count));
      values.push_back(count_text(count.limit_seen));
      values.push_back(std::to_string(std::max<int64_t>(0, lease)));
    }
  }
  for (const CellFloor& floor : update.floors) add_floor(commands, prefix, floor);
  const std::vector<std::string_view> key_views(keys.begin(), keys.end());
  const std::vector<std::string_view> value_views(values.begin(), values.end());
  add_script(commands, OriginCommand::kRegions, Script::kUpdateTuple, key_views, value_views);
}

void RedisOrigin::Worker::add_floor(Pipeline& commands, const std::string& prefix,
                                    const CellFloor& floor) {
  const std::string cell = prefix + std::to_string(floor.sequence);
  std::vector<std::string> values = {count_text(floor.total), ttl_text(floor.expires_at)};
  for (const uint64_t incarnation : floor.writers) {
    // As in the field of its components, without the generation.
    const std::string field = redis_field({.incarnation = incarnation, .generation = 1});
    values.push_back(field.substr(0, field.find('.')));
  }
  const std::vector<std::string_view> keys = {cell};
  const std::vector<std::string_view> value_views(values.begin(), values.end());
  add_script(commands, OriginCommand::kRetire, Script::kRaiseDeparted, keys, value_views);
}

void RedisOrigin::Worker::update_next(const std::shared_ptr<TupleUpdates>& updates) {
  const size_t begin = updates->counts.size();
  const size_t end = std::min(begin + kTuplesPerPipeline, updates->tuples.size());
  if (begin == end) return updates->reply(std::move(updates->counts));
  Pipeline commands;
  for (size_t i = begin; i < end; ++i) add_update(commands, updates->tuples[i]);
  call_scripts({.commands = std::move(commands),
                .scripts = {Script::kUpdateTuple, Script::kRaiseDeparted},
                .done = [this, updates, begin, end](Result<Replies> replies) {
                  if (!replies) return updates->reply(replies.error());
                  size_t at = 0;
                  for (size_t i = begin; i < end; ++i) {
                    const std::vector<int64_t>& sequences = updates->tuples[i].sequences;
                    at += updates->tuples[i].floors.size();
                    const RedisReply& hashes = (*replies)[at++];
                    if (hashes.items.size() != 1 + sequences.size()) {
                      return updates->reply(to_error(OriginError::kOther));
                    }
                    updates->counts.push_back(counts_of(sequences, hashes.items));
                  }
                  update_next(updates);
                }});
}

}  // namespace weir::origins

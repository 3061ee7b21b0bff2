#include "global/bridge_publisher.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "algorithms/windows.h"
#include "base/mutation.h"
#include "global/bridge_rule.h"
#include "global/ledger_key.h"
#include "global/shared_tuples.h"
#include "memory/publish_watch.h"
#include "memory/tuple_key.h"

namespace weir::global {

using base::mutated;
using base::Mutation;

namespace {

constexpr size_t kDuePerRead = 5000;
constexpr size_t kTuplesPerChunk = 500;
// So many due tuples are read even if the budget has one row only: most may need none.
constexpr size_t kReadBeyondBudget = 16;
// The clocks of processes differ: entries may be added a little before the last one that was read.
constexpr Millis kClocksDiffer{2000};
constexpr WallTime kAnyTime{Millis(int64_t{1} << 52)};

// From when a row of a window leases its tuple. A window may have begun elsewhere only.
WallTime lease_begins(WallTime now, WallTime window) {
  return window > now && !mutated(Mutation::kLeaseOfNextFromNow) ? window : now;
}

// The lease of a region on a tuple covers whole windows, so that all regions agree in which
// windows it holds.
WallTime lease_from(WallTime now, Millis duration, Millis lease) {
  if (mutated(Mutation::kLeaseWithinCell)) return now + lease;
  return end_of_window(algorithms::position_of(now + lease, duration).sequence, duration);
}

}  // namespace

BridgePublisher::BridgePublisher(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                                 std::shared_ptr<CompletionQueue> completions, Regions& regions,
                                 BridgeImporter& importer, BridgeImporter::Notify notify)
    : identity_(std::move(identity)),
      ledger_(std::move(ledger)),
      regions_(regions),
      importer_(importer),
      notify_(std::move(notify)),
      task_(std::move(completions), &importer.clock()) {}

void BridgePublisher::use(BridgeStore& store) {
  store_ = &store;
  stop();
}

void BridgePublisher::stop() {
  task_.cancel();
  task_.next = {};
  backlog_.clear();
  read_until_ = {};
  reserved_at_ = {};
  current_.clear();
  chunks_.clear();
  repeats_records_ = false;
  failing_since_.reset();
}

void BridgePublisher::run(Instant now, Flush flush) {
  flush_ = flush;
  now = importer_.clock().time(now);
  if (task_.give_up_late_call(now.mono)) {
    put_back_all(now.mono);
    if (!failing_since_) failing_since_ = task_.began();
    ++stats_.errors;
  }
  if (regions_.count > 0) {
    budget_.refill(now.mono, static_cast<double>(regions_.rules.rows_per_second) / regions_.count);
  }
  note_waits(now.mono);
  if (task_.in_flight() || (now.mono < task_.next && flush == Flush::kDue)) return;
  const bool repeats = importer_.repeats_records() && now.mono >= repeat_after_;
  if (!importer_.knows_records() || repeats) return read_records(now);
  if (importer_.feed_is_missing()) return begin_feed(now);
  if (is_full()) return choose(now);
  read_due(now);
}

void BridgePublisher::note_waits(MonoTime now) {
  // Rows may also wait for a ledger that fails; a larger allowance would not help.
  if (needs_rows_) {
    backlog_.each_tenant(
        [&](const Tenant& tenant, MonoTime since) { budget_.note_wait(now, tenant, now - since); });
  }
  (void)budget_.halve_idle(now);
  regions_.doublings = budget_.doublings();
}

Nanos BridgePublisher::lag(MonoTime now) const {
  MonoTime first = now;
  backlog_.each_tenant([&](const Tenant&, MonoTime since) { first = std::min(first, since); });
  return now - first;
}

void BridgePublisher::each_late_tenant(MonoTime now, Nanos longer_than,
                                       const std::function<void(const Tenant&)>& visit) const {
  backlog_.each_tenant([&](const Tenant& tenant, MonoTime since) {
    if (now - since > longer_than) visit(tenant);
  });
}

// Writes a batch without rows. A region whose feed begins is read whole by all others, one region
// after another: better now than with the first rows, when those of all regions would wait.
void BridgePublisher::begin_feed(Instant now) {
  task_.next = now.mono + Nanos(regions_.rules.publish_every);
  chunks_.emplace_back();
  send_next(now);
}

void BridgePublisher::read_due(Instant now) {
  task_.next = now.mono + Nanos(regions_.rules.publish_every);
  const WallTime by = flush_ == Flush::kAll ? kAnyTime : now.wall;
  // A long backlog is not read again and again.
  const bool is_long = backlog_.size() > kDuePerRead / 2;
  store_->read_due(
      is_long ? read_until_ : WallTime{}, by, kDuePerRead,
      task_.call_origin<std::vector<DueTuple>>(
          now.mono, [this, by](Instant when, const Result<std::vector<DueTuple>>& due) {
            if (due) return on_due(when, by, *due);
            ++stats_.errors;
            task_.next = when.mono + kRetry;
          }));
}

// Entries of kWindowEnd become entries of kRule before the counts are read: one that a process adds
// for the next window meanwhile is then not removed with the one that was read.
void BridgePublisher::on_due(Instant now, WallTime by, const std::vector<DueTuple>& due) {
  std::vector<DueTuple> removed;
  std::vector<DueTuple> added;
  for (const DueTuple& each : due) {
    if (!is_window_tuple(each.tuple)) {
      removed.push_back(each);
      continue;
    }
    DueTuple entry = each;
    if (each.kind == Due::kWindowEnd) {
      removed.push_back(each);
      entry.kind = Due::kRule;
      entry.at = now.wall;
      added.push_back(entry);
    }
    backlog_.add(entry, now.mono);
  }
  if (!added.empty()) store_->add_due(std::move(added));
  if (!removed.empty()) store_->remove_due(std::move(removed));
  if (due.size() < kDuePerRead) {
    read_until_ = std::min(by, now.wall) - kClocksDiffer;
  } else {
    // More entries of one millisecond than one reply has are read when the backlog is short.
    read_until_ = due.back().at + Millis(due.front().at == due.back().at ? 1 : 0);
  }
  choose(now);
}

void BridgePublisher::choose(Instant now) {
  std::map<std::string, TupleRows> chosen;
  needs_rows_ = !has_row();
  if (needs_rows_) return;
  const auto reads_another = [&](size_t read) {
    return read < kReadBeyondBudget || flush_ == Flush::kAll || budget_.has_rows(read + 1);
  };
  while (chosen.size() < kTuplesPerChunk && reads_another(chosen.size())) {
    DueBacklog::Entry* const entry = backlog_.take(now.mono);
    if (entry == nullptr) break;
    TupleRows& rows = chosen[entry->due.tuple];
    rows.tuple = entry->due.tuple;
    rows.due.push_back(entry->due);
  }
  if (chosen.empty()) {
    end_failure_if_empty();
    // Now, so that the next rows need not wait for it.
    const auto next = next_number();
    if (next && !is_reserved(*next, now.mono)) reserve(now, *next, [](Instant) {});
    return;
  }
  std::vector<TupleRead> reads;
  current_.clear();
  for (auto& [tuple, rows] : chosen) {
    const Millis duration = memory::header_of(tuple).duration();
    reads.push_back({.tuple = tuple, .sequences = windows_at(now.wall, duration)});
    current_.push_back(std::move(rows));
  }
  store_->read_tuples(
      std::move(reads),
      task_.call_origin<std::vector<TupleCounts>>(
          now.mono, [this](Instant when, const Result<std::vector<TupleCounts>>& tuples) {
            if (tuples && tuples->size() == current_.size()) return on_tuples(when, *tuples);
            ++stats_.errors;
            put_back_all(when.mono + kRetry);
          }));
}

// A process that asked for the current window has a reason, which may be a refusal. For the others
// the rule decides.
std::vector<BridgePublisher::OwnRow> BridgePublisher::rows_of(Instant now, const TupleRows& chosen,
                                                              const TupleCounts& counts) const {
  const OriginTuple tuple(chosen.tuple, counts, identity_.region, now.wall, regions_);
  const bool asked = std::any_of(chosen.due.begin(), chosen.due.end(),
                                 [](const DueTuple& due) { return due.kind == Due::kNow; });
  std::vector<OwnRow> rows;
  for (const int64_t sequence : windows_at(now.wall, tuple.duration())) {
    PublishReason reason = tuple.reason(sequence);
    const bool over = sequence < tuple.current();
    const Count count = tuple.counted(sequence);
    const bool unknown = count > tuple.published(sequence) || !tuple.is_leased(sequence);
    if (asked && !over && count > 0 && unknown && reason == PublishReason::kNone) {
      reason = PublishReason::kExhaustion;
    }
    if (reason == PublishReason::kNone) continue;
    const Count limit = tuple.limit_seen();
    const WallTime leased_from = lease_begins(now.wall, WallTime(sequence * tuple.duration()));
    Count published = count;
    if (mutated(Mutation::kForeignPublished)) published += tuple.foreign(sequence);
    if (mutated(Mutation::kVerdictPublished) && asked && !over) published = limit;
    rows.push_back(
        {.sequence = sequence,
         .count = published,
         .limit = limit == 0 ? kMaxLimit : limit,
         .leased_until =
             over ? WallTime{} : lease_from(leased_from, tuple.duration(), regions_.rules.lease),
         .reason = reason});
  }
  return rows;
}

void BridgePublisher::on_tuples(Instant now, const std::vector<TupleCounts>& tuples) {
  Chunk chunk;
  Chunk done;
  std::vector<TupleCounts> done_counts;
  const Chunk chosen = std::exchange(current_, {});
  for (size_t i = 0; i < chosen.size(); ++i) {
    TupleRows rows = chosen[i];
    rows.rows = rows_of(now, chosen[i], tuples[i]);
    if (!rows.rows.empty() && !has_row()) {
      needs_rows_ = true;
      for (const DueTuple& due : rows.due) backlog_.put_back(due, now.mono);
      continue;
    }
    budget_.take(rows.rows.size());
    if (!rows.rows.empty()) {
      chunk.push_back(std::move(rows));
      continue;
    }
    done.push_back(std::move(rows));
    done_counts.push_back(tuples[i]);
  }
  if (!done.empty()) {
    tell_published(now, done, done_counts);
    finish(now, done, done_counts);
  }
  if (!chunk.empty()) chunks_.push_back(std::move(chunk));
  send_next(now);
}

// A process that asks for what was published already has missed that.
void BridgePublisher::tell_published(Instant now, const Chunk& done,
                                     const std::vector<TupleCounts>& tuples) {
  std::vector<TupleChange> changes;
  for (size_t i = 0; i < done.size(); ++i) {
    TupleChange change{.tuple = done[i].tuple, .counts = {}};
    for (const RegionCount& count : tuples[i].regions) {
      if (count.region == identity_.region) change.counts.push_back(count);
    }
    if (!change.counts.empty()) changes.push_back(std::move(change));
  }
  if (!changes.empty()) notify_(now, std::move(changes));
}

// The batches of the last minute: the ledger may have lost them with the end of our feed.
void BridgePublisher::read_records(Instant now) {
  task_.next = now.mono + kRetry;
  store_->read_records(task_.call_origin<std::vector<std::string>>(
      now.mono, [this](Instant when, const Result<std::vector<std::string>>& records) {
        if (records) return on_records(when, *records);
        ++stats_.errors;
      }));
}

void BridgePublisher::on_records(Instant now, const std::vector<std::string>& records) {
  ChangeSet changes;
  FeedPosition last;
  std::set<uint64_t> epochs;
  for (const std::string& record : records) {
    if (const auto reservation = decode_reservation(record)) {
      used_ = std::max(used_, reservation->at);
    }
    const auto notice = decode_notice(record);
    if (!notice) continue;
    last = std::max(last, notice->regions.own);
    if (notice->regions.own.epoch != 0) epochs.insert(notice->regions.own.epoch);
    for (const TupleChange& change : notice->changes) {
      if (!is_window_tuple(change.tuple)) continue;
      for (const RegionCount& count : change.counts) changes.add(change.tuple, count);
    }
  }
  importer_.note_records(last, epochs.size() > 1);
  if (!importer_.repeats_records()) return read_due(now);
  Chunk chunk;
  for (const TupleChange& change : changes.changes()) {
    const Millis duration = memory::header_of(change.tuple).duration();
    std::map<int64_t, OwnRow> rows;
    for (const RegionCount& count : change.counts) {
      if (kept_until(count, duration) <= now.wall) continue;
      OwnRow& row = rows[count.sequence];
      row = {.sequence = count.sequence,
             .count = std::max(row.count, count.count),
             .limit = memory::smaller_limit(row.limit, count.limit_seen),
             .leased_until = std::max(row.leased_until, count.leased_until),
             .reason = PublishReason::kContended};
    }
    if (rows.empty()) continue;
    TupleRows tuple{.tuple = change.tuple, .due = {}, .rows = {}};
    for (const auto& [sequence, row] : rows) tuple.rows.push_back(row);
    chunk.push_back(std::move(tuple));
    if (chunk.size() == kTuplesPerChunk) chunks_.push_back(std::exchange(chunk, {}));
  }
  if (!chunk.empty()) chunks_.push_back(std::move(chunk));
  repeats_records_ = true;
  repeated_any_ = false;
  send_next(now);
}

}  // namespace weir::global

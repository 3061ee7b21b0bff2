#include "global/publish_trigger.h"

#include <algorithm>

#include "global/ledger_key.h"
#include "memory/lifecycle.h"
#include "memory/noted.h"
#include "memory/tentative.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;
using memory::Tuple;
using memory::WindowCells;

// Our region's counts of two windows of one tuple.
struct PublishTrigger::RegionCounts {
  int64_t sequence = 0;  // the current window
  Count current = 0;
  Count last = 0;
};

struct PublishTrigger::Usages {
  CellUsage current, last;
};

// None: batches kept changing the count.
std::optional<PublishTrigger::RegionCounts> PublishTrigger::region_counts(const Tuple& tuple,
                                                                          WallTime now) {
  const WindowCells cells(tuple);
  const int64_t at = algorithms::position_of(now, tuple.slot->header.duration()).sequence;
  RegionCounts counts{.sequence = std::max(at, cells.newest())};
  for (const int64_t back : {0, 1}) {
    const int64_t sequence = counts.sequence - back;
    if (!cells.can_know(sequence)) continue;
    const auto own = memory::settled(cells.own(sequence), cells.tentative());
    if (!own) return std::nullopt;
    const bool all = mutated(Mutation::kForeignPublished);
    const memory::Word& siblings = all ? cells.others(sequence) : cells.siblings(sequence);
    (back == 0 ? counts.current : counts.last) =
        own->count_of(sequence) + memory::count_in_order(siblings, sequence);
  }
  return counts;
}

namespace {

// 0 stands for no limit.
Count smaller_limit(Count a, Count b) {
  if (mutated(Mutation::kLargerLimitInRule)) return std::max(a, b);
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

// The smallest limit asked in this window.
Count limit_of(const Tuple& tuple) {
  const memory::TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
  return smaller_limit(WindowCells(tuple).watch().limit(), meta.limit());
}

bool is_window(const Tuple& tuple) {
  return tuple.slot->header.cell_class() == memory::CellClass::kWindow;
}

}  // namespace

void PublishTrigger::evaluate_listed(Instant now) {
  scan(now);
  for (const uint32_t index : watch_.take_all()) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_.table.at(index);
    if (!tuple || !is_window(tuple)) continue;
    merge_known(now, tuple);
    evaluate(now, tuple);
  }
}

// Merges counts that were imported before the window began here or before the tuple existed; the
// caller holds an epoch guard.
void PublishTrigger::merge_known(Instant now, const Tuple& tuple) {
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), tuples_.hash);
  const int64_t sequence =
      algorithms::position_of(now.wall, tuple.slot->header.duration()).sequence;
  const LedgerTotals known = remote_.totals(key, sequence);
  merge_into(tuple, sequence - 1, known.last);
  merge_into(tuple, sequence, known.current);
}

void PublishTrigger::scan(Instant now) {
  constexpr size_t kSlotsAtATime = 16'384;
  for (size_t i = 0; i < kSlotsAtATime && scan_at_ < tuples_.table.slots(); ++i, ++scan_at_) {
    const epoch::Guard guard;
    if (const Tuple tuple = tuples_.table.at(static_cast<uint32_t>(scan_at_))) evaluate(now, tuple);
  }
}

void PublishTrigger::evaluate_due(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now.mono) {
    RemoteEntry& entry = *timers_.begin()->second;
    cancel_timer(entry);
    evaluate(now, entry);
  }
}

void PublishTrigger::schedule(RemoteEntry& entry, MonoTime when) {
  // The end of one window, computed at two times, differs by a little.
  constexpr Millis kTolerance{5};
  if (entry.timer && (*entry.timer)->first <= when + kTolerance) return;
  cancel_timer(entry);
  entry.timer = timers_.emplace(when, &entry);
}

void PublishTrigger::cancel_timer(RemoteEntry& entry) {
  if (entry.timer) timers_.erase(*entry.timer);
  entry.timer.reset();
}

void PublishTrigger::evaluate(Instant now, RemoteEntry& entry) {
  const memory::TupleKey key(entry.tuple, tuples_.hash);
  {
    const epoch::Guard guard;
    if (const Tuple tuple = tuples_.table.find(key)) {
      merge_known(now, tuple);
      if (!mutated(Mutation::kRuleOnRequestsOnly)) evaluate(now, tuple);
      return;
    }
  }
  expire(now, entry);
}

// Evaluates both windows of a tuple; the caller holds an epoch guard.
void PublishTrigger::evaluate(Instant now, const Tuple& tuple) {
  if (!is_window(tuple)) return;
  // The clock was set back and the tuple is of a future time: its cells would replace those of the
  // present. The next charge rebuilds it.
  if (memory::is_ahead_of(tuple, now.wall)) return;
  const WindowCells cells(tuple);
  const bool refused = cells.take_refused();
  const auto counts = region_counts(tuple, now.wall);
  if (!counts) {
    if (refused) cells.mark_refused();
    watch_.push(tuple.index);
    return;
  }
  const SyncRules& rules = regions_.rules;
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), tuples_.hash);

  const std::lock_guard lock(remote_.mutex());
  RemoteEntry* entry = remote_.find(key);
  const Usages usages = usages_of(now, tuple, *counts, entry, refused);
  const PublishReason reason = publish_reason(usages.current, rules);
  const PublishReason last_reason = publish_reason(usages.last, rules);
  if (entry == nullptr && (reason != PublishReason::kNone || last_reason != PublishReason::kNone)) {
    entry = remote_.obtain(key);
    if (entry == nullptr) return skip(now, tuple, refused);
  }
  Count threshold = kNeverPublish;
  if (reason == PublishReason::kNone) {
    threshold = publish_threshold(usages.current, rules);
    const RemoteCell* known = entry == nullptr ? nullptr : entry->find(counts->sequence);
    // The watched count includes other regions.
    if (known != nullptr) threshold = base::saturating_add(threshold, known->foreign_sum());
  }
  if (cells.newest() < counts->sequence) {
    // Until the first charge of this window, a late charge falls into the window before it.
    cells.watch_count(0);
  } else {
    cells.watch_count(threshold);
    // An admission may have compared its count with the previous threshold.
    if (cells.counted_in_order(counts->sequence) >= threshold) watch_.push(tuple.index);
  }
  if (entry == nullptr) return;

  const Count limit = limit_of(tuple);
  const bool updated = update_cell(now, *entry, counts->sequence, limit, usages.current, reason);
  if (!update_cell(now, *entry, counts->sequence - 1, limit, usages.last, last_reason) ||
      !updated) {
    skip(now, tuple, refused);
  }
  // Time alone changes the answer at the end of the window and of the lease.
  const Nanos to_next = Nanos(WallTime((counts->sequence + 1) * entry->duration()) - now.wall);
  schedule(*entry, now.mono + std::max<Nanos>(to_next, Millis(1)));
  const bool leased = usages.current.leased && !mutated(Mutation::kLeaseEndNotWatched);
  if (leased) schedule(*entry, entry->lease.until);
}

// Both windows of a tuple as the rule sees them; the caller holds an epoch guard and the mutex of
// the remote counts.
PublishTrigger::Usages PublishTrigger::usages_of(Instant now, const Tuple& tuple,
                                                 const RegionCounts& counts,
                                                 const RemoteEntry* entry, bool refused) const {
  const RemoteCell* known = entry == nullptr ? nullptr : entry->find(counts.sequence);
  const RemoteCell* known_last = entry == nullptr ? nullptr : entry->find(counts.sequence - 1);
  Count limit = limit_of(tuple);
  const bool with_last = !mutated(Mutation::kLastLimitIgnored);
  for (const RemoteCell* cell : {known, with_last ? known_last : nullptr}) {
    if (cell == nullptr) continue;
    limit = smaller_limit(limit, smaller_limit(cell->limit, cell->remote_limit));
  }
  const auto regions_in = [&](int64_t sequence) {
    const uint32_t here = entry == nullptr ? 1 : entry->regions(sequence, now.wall);
    // Before the first full read ends, a process cannot know that its region is alone.
    return regions_.fully_read ? here : std::max(here, 2U);
  };
  std::string ns;
  if (budget_.max_doublings() > 0) {
    const std::string encoded = memory::encode_key(tuple.slot->header, tuple.slot->key_words());
    ns = ledger_key_of(encoded).ns;
  }
  Usages usages;
  usages.current = {.counted = counts.current,
                    .published = known == nullptr ? 0 : known->published_or_sent(),
                    .limit = limit,
                    .remaining = memory::remaining_of(tuple, now.wall, limit),
                    .allowance = unpublished_allowance(limit, regions_.rules, regions_.count,
                                                       budget_.doublings(ns)),
                    .regions = regions_in(counts.sequence),
                    .leased = entry != nullptr && entry->lease.holds(now),
                    .refused = refused || (known != nullptr && known->refused),
                    .refusal_published = known != nullptr && known->refusal_published};
  usages.last = {.counted = counts.last,
                 .published = known_last == nullptr ? 0 : known_last->published_or_sent(),
                 .limit = limit,
                 .allowance = usages.current.allowance,
                 .regions = regions_in(counts.sequence - 1),
                 .leased = true,
                 .over = true};
  return usages;
}

void PublishTrigger::inspect(Instant now,
                             const std::function<void(const SharedCell&)>& visit) const {
  tuples_.table.for_each([&](const Tuple& tuple) {
    if (!is_window(tuple)) return;
    const auto counts = region_counts(tuple, now.wall);
    if (!counts) return;
    const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), tuples_.hash);
    const std::lock_guard lock(remote_.mutex());
    const RemoteEntry* entry = remote_.find(key);
    const Usages usages =
        usages_of(now, tuple, *counts, entry, WindowCells(tuple).watch().refused());
    const auto show = [&](int64_t sequence, const CellUsage& usage) {
      const RemoteCell* cell = entry == nullptr ? nullptr : entry->find(sequence);
      SharedCell shared{.tuple = key.encoded(),
                        .sequence = sequence,
                        .usage = usage,
                        .reason = publish_reason(usage, regions_.rules)};
      if (cell != nullptr) {
        shared.published = cell->published;
        shared.foreign = cell->foreign_sum();
        shared.waits = cell->pending.reason != PublishReason::kNone || cell->sent > 0;
      }
      visit(shared);
    };
    show(counts->sequence, usages.current);
    show(counts->sequence - 1, usages.last);
  });
}

void PublishTrigger::skip(Instant now, const Tuple& tuple, bool refused) {
  const WindowCells cells(tuple);
  if (refused) cells.mark_refused();
  cells.watch_count(0);
  ++skipped_.cells;
  skipped_.at = now.mono;
}

// Records the evaluation of one window.
bool PublishTrigger::update_cell(Instant now, RemoteEntry& entry, int64_t sequence, Count limit,
                                 const CellUsage& usage, PublishReason reason) {
  const bool is_idle = reason == PublishReason::kNone && entry.find(sequence) == nullptr;
  if (is_idle && usage.over) return true;
  const int64_t current = algorithms::position_of(now.wall, entry.duration()).sequence;
  RemoteCell* const found = remote_.cell(entry, sequence, std::max(sequence, current));
  if (found == nullptr) return is_idle;
  if (found->sequence != sequence) return true;
  RemoteCell& cell = *found;
  cell.counted = usage.counted;
  cell.limit = smaller_limit(cell.limit, limit);
  // A row in flight may fail, so its refusal stays until the row is committed.
  cell.refused = usage.refused && (reason != PublishReason::kNone || cell.sent > 0);
  if (reason == PublishReason::kNone) {
    cell.pending = {};
  } else {
    queue_.enqueue(now, entry, cell, reason);
  }
  return true;
}

// An entry whose tuple is not in the table is erased once nothing of it matters.
void PublishTrigger::expire(Instant now, RemoteEntry& entry) {
  const std::lock_guard lock(remote_.mutex());
  if (entry.has_pending()) queue_.add(entry);
  if (entry.queued || entry.in_flight > 0) return;
  WallTime over{};
  entry.each_cell([&](const RemoteCell& cell) { over = std::max(over, entry.end_of(cell)); });
  for (const auto& [region, until] : entry.present) over = std::max(over, until);
  if (over <= now.wall && !entry.lease.holds(now)) {
    cancel_timer(entry);
    remote_.erase(entry);
    return;
  }
  const Millis rest = std::max(over - now.wall, Millis(0));
  schedule(entry, std::max(now.mono + rest, entry.lease.until));
}

}  // namespace weir::global

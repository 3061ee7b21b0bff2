#include "limiter/lookout.h"

#include <algorithm>

#include "base/mutex.h"
#include "memory/lifecycle.h"
#include "memory/tentative.h"
#include "memory/tuple_meta.h"

namespace weir::limiter {

using memory::mutated;
using memory::Mutation;
using memory::Tuple;
using memory::WindowCells;

// Two windows of one tuple, as our region counted them.
struct PublishTrigger::Counted {
  int64_t sequence = 0;  // the current one
  Count current = 0;
  Count last = 0;
};

struct PublishTrigger::Holdings {
  Holding current, last;
};

// Nothing: batches kept changing it.
std::optional<PublishTrigger::Counted> PublishTrigger::counted_of(const Tuple& tuple,
                                                                  WallTime now) {
  const WindowCells cells(tuple);
  const int64_t at = algorithms::position_of(now, tuple.slot->header.duration()).sequence;
  Counted counted{.sequence = std::max(at, cells.newest())};
  for (const int64_t back : {0, 1}) {
    const int64_t sequence = counted.sequence - back;
    if (!cells.in_tag_range(sequence)) continue;
    const auto own = memory::settled(cells.own(sequence), cells.tentative());
    if (!own) return std::nullopt;
    const bool all = mutated(Mutation::kForeignPublished);
    const memory::Word& siblings = all ? cells.others(sequence) : cells.siblings(sequence);
    (back == 0 ? counted.current : counted.last) =
        own->count_of(sequence) + memory::count_in_seq_cst(siblings, sequence);
  }
  return counted;
}

namespace {

Count smaller(Count a, Count b) {
  if (mutated(Mutation::kLargerLimitInRule)) return std::max(a, b);
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

// The smallest limit asked in this window.
Count asked_of(const Tuple& tuple) {
  const memory::TupleMeta meta{tuple.cold->meta.load(std::memory_order_relaxed)};
  return smaller(WindowCells(tuple).watch().limit(), meta.limit());
}

}  // namespace

void PublishTrigger::look_at_listed(Instant now) {
  walk(now);
  for (const uint32_t index : store_->looks.take_all()) {
    const epoch::Guard guard;
    const Tuple tuple = store_->table.at(index);
    if (!tuple || tuple.slot->header.cell_class() != memory::CellClass::kWindow) continue;
    take_in_known(now, tuple);
    look_at(now, tuple);
  }
}

// What was heard before a window began here, or before the tuple was there; the caller is pinned.
void PublishTrigger::take_in_known(Instant now, const Tuple& tuple) {
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), store_->hash);
  const int64_t sequence =
      algorithms::position_of(now.wall, tuple.slot->header.duration()).sequence;
  const Abroad known = store_->remote.abroad(key, sequence);
  take_in(known.last, tuple, sequence - 1);
  take_in(known.current, tuple, sequence);
}

void PublishTrigger::walk(Instant now) {
  constexpr size_t kSlotsAtATime = 16'384;
  for (size_t i = 0; i < kSlotsAtATime && walk_ < store_->table.slots(); ++i, ++walk_) {
    const epoch::Guard guard;
    if (const Tuple tuple = store_->table.at(static_cast<uint32_t>(walk_))) look_at(now, tuple);
  }
}

void PublishTrigger::look_at_due(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now.mono) {
    RemoteEntry& entry = *timers_.begin()->second;
    forget_timer(entry);
    look_at(now, entry);
  }
}

void PublishTrigger::look_again_at(RemoteEntry& entry, MonoTime when) {
  // The same end of a window, reckoned at another time, is a little earlier or later.
  constexpr Millis kAsGood{5};
  if (entry.timer && (*entry.timer)->first <= when + kAsGood) return;
  forget_timer(entry);
  entry.timer = timers_.emplace(when, &entry);
}

void PublishTrigger::forget_timer(RemoteEntry& entry) {
  if (entry.timer) timers_.erase(*entry.timer);
  entry.timer.reset();
}

void PublishTrigger::look_at(Instant now, RemoteEntry& entry) {
  const memory::TupleKey key(entry.tuple, store_->hash);
  {
    const epoch::Guard guard;
    if (const Tuple tuple = store_->table.find(key)) {
      take_in_known(now, tuple);
      if (!mutated(Mutation::kRuleOnRequestsOnly)) look_at(now, tuple);
      return;
    }
  }
  expire(now, entry);
}

// Holds both windows of a tuple against the rule; the caller is pinned.
void PublishTrigger::look_at(Instant now, const Tuple& tuple) {
  if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
  // Of a future that is no more, since the clock was set back: its cells would take the places of
  // those that matter now. The next charge makes it anew.
  if (memory::is_ahead_of(tuple, now.wall)) return;
  const WindowCells cells(tuple);
  const bool refused = cells.take_denied();
  const auto counted = counted_of(tuple, now.wall);
  if (!counted) {
    if (refused) cells.mark_denied();
    store_->looks.push(tuple.index);
    return;
  }
  const SyncRules& rules = regions_.rules;
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), store_->hash);

  const base::MutexLock lock(store_->remote.mutex());
  RemoteEntry* entry = store_->remote.find(key);
  const Holdings both = holdings_of(now, tuple, *counted, entry, refused);
  const Publish rule = rule_of(both.current, rules);
  const Publish last_rule = rule_of(both.last, rules);
  if (entry == nullptr && (rule != Publish::kNothing || last_rule != Publish::kNothing)) {
    entry = store_->remote.obtain(key);
    if (entry == nullptr) return leave_out(now, tuple, refused);
  }
  Count watch = kNeverPublish;
  if (rule == Publish::kNothing) {
    watch = publish_at(both.current, rules);
    const RemoteCell* known = entry == nullptr ? nullptr : entry->find(counted->sequence);
    // What is watched is what the window has of whomever.
    if (known != nullptr) watch = base::saturating_add(watch, known->foreign_sum());
  }
  if (cells.newest() < counted->sequence) {
    // Until something is charged in this window, what comes late is charged in the one before it.
    cells.watch_count(0);
  } else {
    cells.watch_count(watch);
    // An admission may have gone by what was watched before.
    if (cells.counted_seq_cst(counted->sequence) >= watch) store_->looks.push(tuple.index);
  }
  if (entry == nullptr) return;

  const Count asked = asked_of(tuple);
  const bool meta = note(now, *entry, counted->sequence, asked, both.current, rule);
  if (!note(now, *entry, counted->sequence - 1, asked, both.last, last_rule) || !meta) {
    leave_out(now, tuple, refused);
  }
  // What time alone changes.
  const Nanos to_next = Nanos(WallTime((counted->sequence + 1) * entry->duration()) - now.wall);
  look_again_at(*entry, now.mono + std::max<Nanos>(to_next, Millis(1)));
  const bool leased = both.current.leased && !mutated(Mutation::kLeaseEndNotWatched);
  if (leased) look_again_at(*entry, entry->lease.until);
}

// Both windows of a tuple as the rule sees them; the caller is pinned and holds the book's mutex.
PublishTrigger::Holdings PublishTrigger::holdings_of(Instant now, const Tuple& tuple,
                                                     const Counted& counted,
                                                     const RemoteEntry* entry, bool refused) const {
  const RemoteCell* known = entry == nullptr ? nullptr : entry->find(counted.sequence);
  const RemoteCell* known_last = entry == nullptr ? nullptr : entry->find(counted.sequence - 1);
  Count limit = asked_of(tuple);
  const bool both_count = !mutated(Mutation::kLastLimitIgnored);
  for (const RemoteCell* cell : {known, both_count ? known_last : nullptr}) {
    if (cell != nullptr) limit = smaller(limit, smaller(cell->limit, cell->limit_abroad));
  }
  const auto regions_in = [&](int64_t sequence) {
    const uint32_t here = entry == nullptr ? 1 : entry->regions(sequence, now.wall);
    // Who was just started and has not heard of all cannot know that it is alone.
    return regions_.all_received ? here : std::max(here, 2U);
  };
  std::string ns;
  if (budget_.most_doubled() > 0) {
    const std::string encoded = memory::encode_key(tuple.slot->header, tuple.slot->key_words());
    ns = ledger_key_of(encoded).ns;
  }
  Holdings both;
  both.current = {.counted = counted.current,
                  .published = known == nullptr ? 0 : known->acked(),
                  .limit = limit,
                  .remaining = memory::remaining_of(tuple, now.wall, limit),
                  .hidden = hidden_of(limit, regions_.rules, regions_.count, budget_.doubled(ns)),
                  .regions = regions_in(counted.sequence),
                  .leased = entry != nullptr && entry->lease.holds(now),
                  .refused = refused || (known != nullptr && known->refused),
                  .refused_before = known != nullptr && known->acked_full};
  both.last = {.counted = counted.last,
               .published = known_last == nullptr ? 0 : known_last->acked(),
               .limit = limit,
               .hidden = both.current.hidden,
               .regions = regions_in(counted.sequence - 1),
               .leased = true,
               .over = true};
  return both;
}

void PublishTrigger::inspect(Instant now,
                             const std::function<void(const SharedCell&)>& visit) const {
  store_->table.for_each([&](const Tuple& tuple) {
    if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
    const auto counted = counted_of(tuple, now.wall);
    if (!counted) return;
    const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), store_->hash);
    const base::MutexLock lock(store_->remote.mutex());
    const RemoteEntry* entry = store_->remote.find(key);
    const Holdings both =
        holdings_of(now, tuple, *counted, entry, WindowCells(tuple).watch().denied());
    const auto show = [&](int64_t sequence, const Holding& holding) {
      const RemoteCell* cell = entry == nullptr ? nullptr : entry->find(sequence);
      SharedCell shared{.tuple = key.encoded(),
                        .sequence = sequence,
                        .holding = holding,
                        .rule = rule_of(holding, regions_.rules)};
      if (cell != nullptr) {
        shared.published = cell->published;
        shared.foreign = cell->foreign_sum();
        shared.waits = cell->pending.rule != Publish::kNothing || cell->sent > 0;
      }
      visit(shared);
    };
    show(counted->sequence, both.current);
    show(counted->sequence - 1, both.last);
  });
}

void PublishTrigger::leave_out(Instant now, const Tuple& tuple, bool refused) {
  const WindowCells cells(tuple);
  if (refused) cells.mark_denied();
  cells.watch_count(0);
  ++left_out_.cells;
  left_out_.at = now.mono;
}

// What was found of one window.
bool PublishTrigger::note(Instant now, RemoteEntry& entry, int64_t sequence, Count asked,
                          const Holding& holding, Publish rule) {
  const bool is_idle = rule == Publish::kNothing && entry.find(sequence) == nullptr;
  if (is_idle && holding.over) return true;
  const int64_t current = algorithms::position_of(now.wall, entry.duration()).sequence;
  RemoteCell* const place = store_->remote.cell(entry, sequence, std::max(sequence, current));
  if (place == nullptr) return is_idle;
  if (place->sequence != sequence) return true;
  RemoteCell& cell = *place;
  cell.counted = holding.counted;
  cell.limit = smaller(cell.limit, asked);
  // What is on its way may fail to arrive.
  cell.refused = holding.refused && (rule != Publish::kNothing || cell.sent > 0);
  if (rule == Publish::kNothing) {
    cell.pending = {};
  } else {
    queue_.enqueue(now, entry, cell, rule);
  }
  return true;
}

// An entry whose tuple is not here: what it was for is over, or comes again with a request.
void PublishTrigger::expire(Instant now, RemoteEntry& entry) {
  const base::MutexLock lock(store_->remote.mutex());
  if (entry.owes()) queue_.add(entry);
  if (entry.queued || entry.under_way > 0) return;
  WallTime over{};
  entry.each_cell([&](const RemoteCell& cell) { over = std::max(over, entry.end_of(cell)); });
  for (const auto& [region, until] : entry.present) over = std::max(over, until);
  if (over <= now.wall && !entry.lease.holds(now)) {
    forget_timer(entry);
    store_->remote.erase(entry);
    return;
  }
  const Millis rest = std::max(over - now.wall, Millis(0));
  look_again_at(entry, std::max(now.mono + rest, entry.lease.until));
}

}  // namespace weir::limiter

#include "global/publish_trigger.h"
#include "base/mutex.h"

#include <algorithm>
#include <utility>

#include "global/ledger_key.h"
#include "memory/lifecycle.h"
#include "memory/tentative.h"
#include "memory/tuple_meta.h"
#include "memory/usage_key.h"

namespace weir::global {

using memory::mutated;
using memory::Mutation;
using memory::Tuple;
using memory::WindowCells;

// Our region's counts of two windows of one tuple.
struct PublishTrigger::WindowTotals {
  int64_t sequence = 0;  // the current window
  Count current = 0;
  Count last = 0;
};

struct PublishTrigger::Usages {
  CellUsage current, last;
};

// None: batches kept changing the count.
std::optional<PublishTrigger::WindowTotals> PublishTrigger::region_counts(const Tuple& tuple,
                                                                          WallTime now) {
  const WindowCells cells(tuple);
  const int64_t at = algorithms::position_of(now, tuple.slot->header.duration()).sequence;
  WindowTotals counts{.sequence = std::max(at, cells.newest())};
  for (const int64_t back : {0, 1}) {
    const int64_t sequence = counts.sequence - back;
    if (!cells.in_tag_range(sequence)) continue;
    const auto own = memory::settled(cells.own(sequence), cells.tentative());
    if (!own) return std::nullopt;
    (back == 0 ? counts.current : counts.last) =
        own->count_of(sequence) + memory::count_in_seq_cst(cells.siblings(sequence), sequence);
  }
  return counts;
}

namespace {

bool is_window(const Tuple& tuple) {
  return tuple.slot->header.cell_class() == memory::CellClass::kWindow;
}

}  // namespace

memory::TupleKey PublishTrigger::key_of(const Tuple& tuple) const {
  return {tuple.slot->header, tuple.slot->key_words(), tuples_.hash};
}

void PublishTrigger::evaluate_listed(Instant now) {
  // The tuple of a new entry may be evicted before it is evaluated.
  for (SharedTuple* entry : shared_.take_new())
    schedule(*entry, now.mono + Nanos(entry->duration()));
  scan(now);
  for (const uint32_t index : watch_.take_all()) {
    const epoch::Guard guard;
    const Tuple tuple = tuples_.table.at(index);
    if (!tuple || !is_window(tuple)) continue;
    shared_.merge_known(now.wall, tuple, key_of(tuple));
    evaluate(now, tuple);
  }
}

void PublishTrigger::scan(Instant now) {
  constexpr size_t kSlotsAtATime = 16'384;
  for (size_t i = 0; i < kSlotsAtATime && scan_at_ < tuples_.table.slots(); ++i, ++scan_at_) {
    const epoch::Guard guard;
    if (const Tuple tuple = tuples_.table.at(static_cast<uint32_t>(scan_at_))) evaluate(now, tuple);
  }
}

void PublishTrigger::evaluate_timers(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now.mono) {
    SharedTuple& entry = *timers_.begin()->second;
    cancel_timer(entry);
    evaluate(now, entry);
  }
}

void PublishTrigger::schedule(SharedTuple& entry, MonoTime when) {
  // The end of one window, computed at two times, differs by a little.
  constexpr Millis kTolerance{5};
  if (entry.timer_expires <= when + kTolerance) return;
  cancel_timer(entry);
  entry.timer = timers_.emplace(when, &entry);
  entry.timer_expires = when;
}

void PublishTrigger::cancel_timer(SharedTuple& entry) {
  if (entry.timer) timers_.erase(*entry.timer);
  entry.timer.reset();
  entry.timer_expires = MonoTime::max();
}

// An entry lives no longer than its tuple: the origin has the counts of both.
void PublishTrigger::evaluate(Instant now, SharedTuple& entry) {
  const memory::TupleKey key(entry.tuple, tuples_.hash);
  {
    const epoch::Guard guard;
    if (const Tuple tuple = tuples_.table.find(key)) {
      shared_.merge_known(now.wall, tuple, key);
      if (!mutated(Mutation::kRuleOnRequestsOnly)) evaluate(now, tuple);
      return;
    }
  }
  const base::MutexLock lock(shared_.mutex());
  cancel_timer(entry);
  shared_.erase(entry);
}

// Evaluates both windows of a tuple; the caller holds an epoch guard.
void PublishTrigger::evaluate(Instant now, const Tuple& tuple) {
  if (!is_window(tuple)) return;
  // The clock was set back and the tuple is of a future time: its cells would replace those of the
  // present. The next charge rebuilds it.
  if (memory::is_ahead_of(tuple, now.wall)) return;
  const WindowCells cells(tuple);
  const bool refused = cells.take_denied();
  const auto counts = region_counts(tuple, now.wall);
  if (!counts) {
    if (refused) cells.mark_denied();
    watch_.push(tuple.index);
    return;
  }
  const SyncRules& rules = regions_.rules;
  const memory::TupleKey key = key_of(tuple);
  note_window(now, tuple);

  const base::MutexLock lock(shared_.mutex());
  SharedTuple* entry = shared_.find(key);
  const Usages usages = usages_of(now, tuple, *counts, entry, refused);
  const PublishReason reason = publish_reason(usages.current, rules);
  const PublishReason last_reason = publish_reason(usages.last, rules);
  if (entry == nullptr && (reason != PublishReason::kNone || last_reason != PublishReason::kNone)) {
    entry = shared_.obtain(key);
    if (entry == nullptr) return skip(now, tuple, refused);
  }
  Count threshold = kNeverPublish;
  if (reason == PublishReason::kNone) {
    threshold = publish_threshold(usages.current, rules);
    const SharedWindow* known = entry == nullptr ? nullptr : entry->find(counts->sequence);
    // The watched count includes other regions.
    if (known != nullptr) threshold = base::saturating_add(threshold, known->foreign_sum());
  }
  if (cells.newest() < counts->sequence) {
    // Until the first charge of this window, a late charge falls into the window before it.
    cells.watch_count(0);
  } else {
    cells.watch_count(threshold);
    // An admission may have compared its count with the previous threshold.
    if (cells.counted_seq_cst(counts->sequence) >= threshold) watch_.push(tuple.index);
  }
  if (entry == nullptr) return;

  const bool updated = update_window(now, tuple, *entry, counts->sequence, usages.current, reason);
  if (!update_window(now, tuple, *entry, counts->sequence - 1, usages.last, last_reason) ||
      !updated) {
    skip(now, tuple, refused);
  }
  // Time alone changes the answer at the end of the window, and when the bridge did not publish
  // what is due.
  const WallTime end = end_of_window(counts->sequence, entry->duration());
  schedule(*entry, now.mono + std::max<Nanos>(Nanos(end - now.wall), Millis(1)));
  for (const int64_t sequence : {counts->sequence, counts->sequence - 1}) {
    const SharedWindow* const window = entry->find(sequence);
    if (window == nullptr || !window->is_due(now.mono)) continue;
    schedule(*entry, window->due_since + SharedWindow::kDueRetry);
  }
}

// Both windows of a tuple as the rule sees them; the caller holds an epoch guard and the mutex of
// the shared tuples.
PublishTrigger::Usages PublishTrigger::usages_of(Instant now, const Tuple& tuple,
                                                 const WindowTotals& counts,
                                                 const SharedTuple* entry, bool refused) const {
  const SharedWindow* known = entry == nullptr ? nullptr : entry->find(counts.sequence);
  const SharedWindow* known_last = entry == nullptr ? nullptr : entry->find(counts.sequence - 1);
  Count limit = memory::smallest_limit(tuple);
  const bool with_last = !mutated(Mutation::kLastLimitIgnored);
  for (const SharedWindow* window : {known, with_last ? known_last : nullptr}) {
    if (window == nullptr) continue;
    limit =
        memory::smaller_limit(limit, memory::smaller_limit(window->limit, window->remote_limit));
  }
  const auto regions_in = [&](int64_t sequence) {
    const uint32_t here = entry == nullptr ? 1 : entry->regions(sequence);
    // As long as rows may be missing, a process cannot know that its region is alone.
    return regions_.complete ? here : std::max(here, 2U);
  };
  uint32_t doublings = 0;
  if (!regions_.doublings.empty()) {
    const LedgerKey key =
        ledger_key_of(memory::encode_key(tuple.slot->header, tuple.slot->key_words()));
    doublings = regions_.doublings_of({.workspace = key.workspace, .ns = key.ns});
  }
  const bool is_due = known != nullptr && known->is_due(now.mono);
  Usages usages;
  usages.current = {
      .counted = counts.current,
      .published = known == nullptr ? 0 : known->published_or_due(now.mono),
      .limit = limit,
      .remaining = memory::remaining_of(tuple, now.wall, limit),
      .allowance = unpublished_allowance(limit, regions_.rules, regions_.count, doublings),
      .regions = regions_in(counts.sequence),
      .leased = is_due || (entry != nullptr && entry->is_leased(counts.sequence)),
      .refused = refused || (known != nullptr && known->refused),
      .refusal_published =
          known != nullptr && (known->refusal_published || known->refusal_is_due(now.mono)),
      .doublings = doublings};
  usages.last = {.counted = counts.last,
                 .published = known_last == nullptr ? 0 : known_last->published_or_due(now.mono),
                 .limit = limit,
                 .allowance = usages.current.allowance,
                 .regions = regions_in(counts.sequence - 1),
                 .leased = true,
                 .over = true,
                 .doublings = doublings};
  return usages;
}

// What is admitted counts to the end of its window, and of a usage tuple for as long as a window.
void PublishTrigger::note_window(Instant now, const Tuple& tuple) {
  const Millis length = tuple.slot->header.duration();
  longest_window_ = std::max(longest_window_, length);
  memory::KeyNames names = memory::names_of(tuple.slot->header, tuple.slot->key_words());
  windows_.note({.workspace = std::move(names.workspace), .ns = std::move(names.ns)}, length,
                memory::is_usage_width(length), now.wall);
}

void PublishTrigger::inspect(Instant now,
                             const std::function<void(const SharedCell&)>& visit) const {
  tuples_.table.for_each([&](const Tuple& tuple) {
    if (!is_window(tuple)) return;
    const auto counts = region_counts(tuple, now.wall);
    if (!counts) return;
    const memory::TupleKey key = key_of(tuple);
    const base::MutexLock lock(shared_.mutex());
    const SharedTuple* entry = shared_.find(key);
    const Usages usages =
        usages_of(now, tuple, *counts, entry, WindowCells(tuple).watch().denied());
    const auto show = [&](int64_t sequence, const CellUsage& usage) {
      const SharedWindow* window = entry == nullptr ? nullptr : entry->find(sequence);
      SharedCell shared{.tuple = key.encoded(),
                        .sequence = sequence,
                        .usage = usage,
                        .reason = publish_reason(usage, regions_.rules)};
      if (window != nullptr) {
        shared.published = window->published;
        shared.foreign = window->foreign_sum();
        shared.waits = window->is_due(now.mono);
      }
      visit(shared);
    };
    show(counts->sequence, usages.current);
    show(counts->sequence - 1, usages.last);
  });
}

void PublishTrigger::skip(Instant now, const Tuple& tuple, bool refused) {
  const WindowCells cells(tuple);
  if (refused) cells.mark_denied();
  cells.watch_count(0);
  note_skipped(now.mono);
}

// Records the evaluation of one window.
bool PublishTrigger::update_window(Instant now, const Tuple& tuple, SharedTuple& entry,
                                   int64_t sequence, const CellUsage& usage, PublishReason reason) {
  const bool is_idle = reason == PublishReason::kNone && entry.find(sequence) == nullptr;
  const bool contended = usage.regions >= 2 && usage.unpublished() > 0;
  if (is_idle && (usage.over || !contended)) return true;
  const int64_t current = algorithms::position_of(now.wall, entry.duration()).sequence;
  SharedWindow* const found = shared_.window(entry, sequence, std::max(sequence, current));
  if (found == nullptr) return is_idle;
  if (found->sequence != sequence) return true;
  SharedWindow& window = *found;
  window.counted = usage.counted;
  window.limit = memory::smaller_limit(window.limit, memory::smallest_limit(tuple));
  // The bridge may fail to publish, so a refusal stays until the row is known to be written.
  const bool waits = reason != PublishReason::kNone || window.is_due(now.mono);
  window.refused = usage.refused && waits && !mutated(Mutation::kFailedRefusalForgotten);
  if (reason != PublishReason::kNone) {
    window.due = usage.counted;
    window.due_since = now.mono;
    note_waiting(now.mono, entry, window);
    // The bridge evaluates the rule again, but only this process knows of the refusal.
    make_due(tuple, window, reason == PublishReason::kExhaustion ? Due::kNow : Due::kRule);
  } else {
    // A batch took back what the origin had granted to it.
    if (usage.counted < window.due) window.due = usage.counted;
    if (!window.is_due(now.mono)) window.waits_since.reset();
    if (contended && !usage.over && !window.end_is_due) make_due(tuple, window, Due::kWindowEnd);
  }
  return true;
}

void PublishTrigger::make_due(const Tuple& tuple, SharedWindow& window, Due due) {
  window.end_is_due = window.end_is_due || due == Due::kWindowEnd;
  due_.push_back({.index = tuple.index,
                  .generation = WindowCells(tuple).generation(),
                  .sequence = window.sequence,
                  .due = due});
}

void PublishTrigger::note_waiting(MonoTime now, const SharedTuple& entry, SharedWindow& window) {
  if (window.waits_since) return;
  window.waits_since = now;
  waiting_.push_back({.cell = {entry.tuple, window.sequence}, .since = now});
}

void PublishTrigger::forget_due() {
  due_.clear();
  tuples_.table.for_each([&](const Tuple& tuple) {
    if (!is_window(tuple)) return;
    const base::MutexLock lock(shared_.mutex());
    SharedTuple* const entry = shared_.find(key_of(tuple));
    if (entry == nullptr) return;
    for (const std::unique_ptr<SharedWindow>& window : entry->windows) {
      if (window) window->due = 0, window->end_is_due = false;
    }
  });
}

void PublishTrigger::make_all_due(Instant now) {
  tuples_.table.for_each([&](const Tuple& tuple) {
    if (!is_window(tuple) || memory::is_ahead_of(tuple, now.wall)) return;
    const auto counts = region_counts(tuple, now.wall);
    if (!counts || counts->current == 0) return;
    const base::MutexLock lock(shared_.mutex());
    SharedTuple* const entry = shared_.obtain(key_of(tuple));
    SharedWindow* const window =
        entry == nullptr ? nullptr : shared_.window(*entry, counts->sequence, counts->sequence);
    if (window == nullptr || window->sequence != counts->sequence) return;
    if (counts->current <= window->published_or_due(now.mono)) return;
    window->due = counts->current;
    window->due_since = now.mono;
    note_waiting(now.mono, *entry, *window);
    make_due(tuple, *window, Due::kNow);
  });
}

// A cell takes about 0.2 us: at most two percent of the time.
Nanos PublishTrigger::recount_pause() const {
  constexpr size_t kFew = 1000;
  if (waiting_.size() < kFew) return Nanos(0);
  return std::min<Nanos>(std::chrono::microseconds(10) * waiting_.size(), std::chrono::seconds(1));
}

const std::set<Tenant>& PublishTrigger::late(Instant now) {
  static const std::set<Tenant> kNone;
  const bool maybe =
      !waiting_.empty() && now.mono - waiting_.front().since + recount_pause() > kMaxInFlight;
  return maybe ? waiting(now).late : kNone;
}

const PublishTrigger::Waiting& PublishTrigger::waiting(Instant now) {
  if (now.mono < count_again_at_) return counted_;
  const Nanos pause = recount_pause();
  count_again_at_ = now.mono + pause;
  counted_ = {};
  const base::MutexLock lock(shared_.mutex());
  std::vector<WaitingCell> still_waiting;
  const std::string* late = nullptr;  // the last tuple that was late
  for (WaitingCell& each : waiting_) {
    const CellId& cell = each.cell;
    SharedTuple* const entry = shared_.find({cell.tuple, tuples_.hash});
    SharedWindow* const window = entry == nullptr ? nullptr : entry->find(cell.sequence);
    // One that is due again is in the list again.
    if (window == nullptr || window->waits_since != each.since) continue;
    // Expired, or of a clock that was ahead.
    const int64_t current = algorithms::position_of(now.wall, entry->duration()).sequence;
    const bool matters = cell.sequence >= current - 1 && cell.sequence <= current + 1;
    if (!matters || window->published >= window->due) {
      window->waits_since.reset();
      continue;
    }
    ++counted_.cells;
    const Nanos waited = now.mono - *window->waits_since;
    counted_.longest = std::max(counted_.longest, waited);
    // In a flood most tuples are of one tenant.
    if (waited + pause > kMaxInFlight &&
        (late == nullptr || !are_of_one_tenant(*late, entry->tuple))) {
      counted_.late.insert(tenant_of(entry->tuple));
      late = &entry->tuple;
    }
    still_waiting.push_back(std::move(each));
  }
  waiting_ = std::move(still_waiting);
  return counted_;
}

}  // namespace weir::global

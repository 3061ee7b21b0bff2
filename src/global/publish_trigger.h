// Evaluates the cells of this process against the publish rule whenever its answer may have
// changed.
//
// It may change when a tuple is charged or refused, when another region's or a sibling's count
// changes, and at the end of a window. A cell with a reason to publish becomes due: the bridge of
// the region publishes it. For the others this sets the count to watch for, so that a request that
// changes the answer puts its tuple on the list (PublishWatch).
//
// Only from the thread that runs the sync.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "global/global_state.h"
#include "global/held_bounds.h"
#include "global/regions.h"
#include "global/shared_tuples.h"
#include "memory/publish_watch.h"
#include "memory/tuple_store.h"
#include "regional/region_state.h"

namespace weir::global {

// One cell as the publish rule sees it, for checkers and for inspection.
struct SharedCell {
  std::string tuple;
  int64_t sequence = 0;
  CellUsage usage{};
  PublishReason reason = PublishReason::kNone;
  Count published = 0;  // in the ledger
  Count foreign = 0;
  bool waits = false;  // the bridge has been asked to publish it
};

// A count that waits to be published for longer than this is no longer in flight, and widens the
// bound.
inline constexpr Nanos kMaxInFlight = Millis(2000);

class PublishTrigger {
 public:
  PublishTrigger(memory::TupleStore& tuples, GlobalState& global, memory::PublishWatch& watch,
                 const Regions& regions)
      : tuples_(tuples), shared_(global.shared), watch_(watch), regions_(regions) {}

  void evaluate_listed(Instant now);  // the tuples of the publish watch
  void evaluate_timers(Instant now);  // the tuples whose timer expired
  // Evaluates all tuples, some per run: the rule itself has changed.
  void evaluate_all() { scan_at_ = 0; }
  // Makes all unpublished counts due that other regions may need: this process will end.
  void make_all_due(Instant now);

  // The cells that became due since the last call.
  [[nodiscard]] std::vector<regional::DueCell> take_due() { return std::exchange(due_, {}); }
  // Forgets that cells are due: another store has to know of them.
  void forget_due();

  // How long the oldest due cell has waited for the bridge, and how many wait. As of the last
  // evaluation of each. Thousands of cells are not counted again at once.
  struct Waiting {
    size_t cells = 0;
    Nanos longest{0};
    // With a cell that waits for longer than kMaxInFlight, or may before the next count.
    std::set<Tenant> late = {};
  };
  [[nodiscard]] const Waiting& waiting(Instant now);
  // At least the tenants with a cell that waits for longer than kMaxInFlight, at most
  // waiting().late. Counts nothing if no cell waits for so long.
  [[nodiscard]] const std::set<Tenant>& late(Instant now);

  // Cells with a reason to publish for which there was no memory, and when the last one was
  // skipped. The next charge, refusal or change evaluates such a tuple again.
  struct Skipped {
    uint64_t cells = 0;
    MonoTime at{};
  };
  [[nodiscard]] const Skipped& skipped() const { return skipped_; }
  void note_skipped(MonoTime now) {
    ++skipped_.cells;
    skipped_.at = now;
  }
  // The longest window of the tuples evaluated.
  [[nodiscard]] Millis longest_window() const { return longest_window_; }
  [[nodiscard]] const KnownWindows& windows() const { return windows_; }

  // Visits the live cells of window tuples.
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const;

 private:
  struct WindowTotals;
  struct Usages;
  struct WaitingCell {
    CellId cell;
    MonoTime since{};
  };

  [[nodiscard]] static std::optional<WindowTotals> region_counts(const memory::Tuple& tuple,
                                                                 WallTime now);
  [[nodiscard]] Usages usages_of(Instant now, const memory::Tuple& tuple,
                                 const WindowTotals& counts, const SharedTuple* entry,
                                 bool refused) const;
  [[nodiscard]] memory::TupleKey key_of(const memory::Tuple& tuple) const;
  void note_window(Instant now, const memory::Tuple& tuple);
  void evaluate(Instant now, const memory::Tuple& tuple);
  void evaluate(Instant now, SharedTuple& entry);
  void scan(Instant now);
  // Evaluates the tuple at that time or sooner.
  void schedule(SharedTuple& entry, MonoTime when);
  void cancel_timer(SharedTuple& entry);
  // False: there is no memory for it.
  [[nodiscard]] bool update_window(Instant now, const memory::Tuple& tuple, SharedTuple& entry,
                                   int64_t sequence, const CellUsage& usage, PublishReason reason)
      WEIR_REQUIRES(shared_.mutex());
  void note_waiting(MonoTime now, const SharedTuple& entry, SharedWindow& window)
      WEIR_REQUIRES(shared_.mutex());
  void make_due(const memory::Tuple& tuple, SharedWindow& window, Due due);
  void skip(Instant now, const memory::Tuple& tuple, bool refused);
  [[nodiscard]] Nanos recount_pause() const;

  memory::TupleStore& tuples_;
  SharedTuples& shared_;
  memory::PublishWatch& watch_;
  const Regions& regions_;
  SharedTupleTimers timers_;
  std::vector<regional::DueCell> due_;
  // Asked of the bridge, and not known to be published; the first one has waited longest.
  std::vector<WaitingCell> waiting_;
  Waiting counted_;  // of `waiting_`
  MonoTime count_again_at_{};
  size_t scan_at_ = ~size_t{0};
  Skipped skipped_;
  Millis longest_window_{0};
  KnownWindows windows_;
};

}  // namespace weir::global

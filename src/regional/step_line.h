// The requests that wait for steps of one tuple, and the step in flight. For the two source files
// of Steps.

#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/windows.h"
#include "base/countdown.h"
#include "regional/conversion.h"
#include "regional/foreign_use.h"
#include "regional/steps.h"

namespace weir::regional {

// How often an exact call is sent again.
inline constexpr int kMostRepeats = 2;

// Whether the origin keeps the whole state of the tuple.
[[nodiscard]] inline bool is_exact(const memory::TupleKey& key) {
  return key.header().cell_class() != memory::CellClass::kWindow;
}

// One caller of ask().
struct Steps::Waiter {
  Caller caller;
  MonoTime asked{};
  StepHandler done;
  std::vector<memory::TupleKey> keys;
  std::vector<StepResult> results;  // each is written before its part ends
  base::Countdown pending;
  base::Atomic<bool> expired{false};  // the deadline passed
};

// One request that waits.
struct Steps::Ask {
  WaiterPtr waiter;  // null: its deadline passed
  size_t entry = 0;
  memory::Query query{};
  int rounds = 0;
  // Of a window without a tuple, with a ledger: what a step has read of the regions.
  std::optional<RegionTotals> regions{};
  int64_t regions_at = 0;  // the window of that
};

// The callers whose last result has come. They are called after the end of the scope, in order: the
// next step of the line is sent first.
class Steps::Finished {
 public:
  Finished() = default;
  ~Finished();
  Finished(const Finished&) = delete;
  Finished& operator=(const Finished&) = delete;

  void answer(const Ask& ask, StepResult result) {
    ask.waiter->results[ask.entry] = std::move(result);
    if (ask.waiter->pending.end_part()) waiters_.push_back(ask.waiter);
  }

 private:
  std::vector<WaiterPtr> waiters_;
};

// One step of one tuple.
struct Steps::Flight {
  memory::TupleKey key;
  std::string tuple;
  uint64_t epoch = 0;  // of the origin
  algorithms::Position at{};
  uint64_t generation = 0;
  uint64_t number = 0;        // among the steps of this process
  Count own = 0;              // as sent
  Count acked = 0;            // the same, of an exact call
  Count capacity = 0;         // the same: the largest that a request was decided with
  bool has_tuple = false;     // of an exact call: the tuple was in the table when it was sent
  bool only_reports = false;  // an exact call that nobody waits for
  MonoTime first_sent{};      // of an exact call
  ForeignUse foreign;         // the same: what other regions have admitted
  bool converts = false;      // the same: the origin may have to be told what was taken over
  Conversion conversion;      // that; told by a call of its own, before this one
  uint64_t conversion_call = 0;
  bool only_reads = false;  // it asks for nothing: the counts of other regions are missing
  bool is_apart = false;    // a step of a window that has no tuple; see prepare_apart()
  RegionTotals regions;     // of such a step, as sent
  // The call to the origin has returned. Until then, a reply comes from within the call. Relaxed:
  // see go_on().
  base::Atomic<bool> sent{false};
  // Guarded by the shard's mutex.
  Instant began{};    // changes if an exact call is repeated
  uint64_t call = 0;  // the number of an exact call; 0: not sent yet
  bool ended = false;
  int repeats = 0;        // of an exact call
  Nanos pace = kPace;     // until the next one, after a refusal
  std::vector<Ask> asks;  // in the order of the step

  [[nodiscard]] bool may_repeat() const {
    return is_exact(key) && !ended && repeats < kMostRepeats &&
           std::any_of(asks.begin(), asks.end(),
                       [](const Ask& ask) { return ask.waiter != nullptr; });
  }
};

// The requests on one tuple.
struct Steps::Line {
  FlightPtr flight;  // null: none
  std::deque<Ask> waiting;
  MonoTime paced_until{};
  MonoTime resumed_at{};  // resume() will be called then

  [[nodiscard]] bool is_idle(MonoTime now) const {
    return flight == nullptr && waiting.empty() && paced_until <= now;
  }
  void put_back(std::vector<Ask> asks) {
    std::erase_if(asks, [](const Ask& ask) { return ask.waiter == nullptr; });
    waiting.insert(waiting.begin(), std::make_move_iterator(asks.begin()),
                   std::make_move_iterator(asks.end()));
  }
};

}  // namespace weir::regional

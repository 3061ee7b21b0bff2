// Holds cells against the publish rule whenever its answer may have changed.
//
// That is when something happened to a tuple, when there is news of it, and at times: the end of a
// window, or of a lease. What the rule wants written is owed, and waits in the queue; what it does
// not is watched, so that a request that changes this lists its tuple.
//
// Everything from the thread that runs the sharing.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "limiter/publish_queue.h"
#include "limiter/regions.h"
#include "limiter/row_budget.h"
#include "limiter/store.h"

namespace weir::limiter {

// One cell as the publish rule sees it, for checkers and for people who ask why.
struct SharedCell {
  std::string tuple;
  int64_t sequence = 0;
  Holding holding{};
  Publish rule = Publish::kNothing;
  Count published = 0;  // what the ledger has
  Count foreign = 0;
  bool waits = false;  // to be written, or is on its way
};

class PublishTrigger {
 public:
  PublishTrigger(std::shared_ptr<Store> store, const Regions& regions, const RowBudget& budget,
                 PublishQueue& queue)
      : store_(std::move(store)), regions_(regions), budget_(budget), queue_(queue) {}

  // Looks at what was listed, and at what is to be looked at by now.
  void look_at_listed(Instant now);
  void look_at_due(Instant now);
  void look_at(Instant now, RemoteEntry& entry);
  // Everything there is, a part at a time: the rule itself has changed.
  void look_at_all() { walk_ = 0; }
  // At that time, or sooner.
  void look_again_at(RemoteEntry& entry, MonoTime when);

  // Cells that the rule wants written although there is no memory to note that, and when one last
  // was so. The next charge, refusal or news has such a tuple looked at again.
  struct LeftOut {
    uint64_t cells = 0;
    MonoTime at{};
  };
  [[nodiscard]] const LeftOut& left_out() const { return left_out_; }

  // The live cells of window tuples.
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const;

 private:
  struct Counted;
  struct Holdings;

  [[nodiscard]] static std::optional<Counted> counted_of(const memory::Tuple& tuple, WallTime now);
  [[nodiscard]] Holdings holdings_of(Instant now, const memory::Tuple& tuple,
                                     const Counted& counted, const RemoteEntry* entry,
                                     bool refused) const;
  void look_at(Instant now, const memory::Tuple& tuple);
  void take_in_known(Instant now, const memory::Tuple& tuple);
  void walk(Instant now);
  void forget_timer(RemoteEntry& entry);
  // False: there is no memory for it.
  [[nodiscard]] bool note(Instant now, RemoteEntry& entry, int64_t sequence, Count asked,
                          const Holding& holding, Publish rule)
      WEIR_REQUIRES(store_->remote.mutex());
  void leave_out(Instant now, const memory::Tuple& tuple, bool refused);
  void expire(Instant now, RemoteEntry& entry);

  const std::shared_ptr<Store> store_;
  const Regions& regions_;
  const RowBudget& budget_;
  PublishQueue& queue_;
  RemoteTimers timers_;
  size_t walk_ = ~size_t{0};
  LeftOut left_out_;
};

}  // namespace weir::limiter

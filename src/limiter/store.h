// What a limiter is made of, and what its parts share: the counts, the list of those to
// be told, and what it counts about itself. Outlives the limiter while a reply is under
// way.

#pragma once

#include <memory>

#include "base/keyed_hash.h"
#include "memory/dirty_list.h"
#include "memory/sketch.h"
#include "memory/table.h"
#include "memory/window_cells.h"
#include "telemetry/counters.h"
#include "weir/clock.h"
#include "weir/options.h"

namespace weir::limiter {

enum class Stat : uint8_t {
  kAdmitted,
  kDenied,
  kDegraded,
  kColdReads,
  kStaleReads,
  kStrictReads,
  kColdReadErrors,
  kStaleReadErrors,
  kStrictReadErrors,
  kUnread,
  kMadeStrict,
  kReplayed,
  kReplayErrors,
  kLateReplays,
  kHealed,
  kCount,
};

// Fixed after construction; each part synchronises itself.
struct Store {
  // `seed` is for the hash of keys and the name of this incarnation.
  Store(const Clock& the_clock, const Options& options, uint64_t seed)
      : clock(the_clock),
        hash(seed),
        incarnation(seed * 0x2545f4914f6cdd1dULL | 1),
        origin(options.origin),
        read_deadline(options.read_deadline),
        max_freshness(options.max_freshness),
        on_origin_loss(options.on_origin_loss),
        replay_within(options.replay_within),
        table(options.capacity,
              options.origin ? memory::Company::kShared : memory::Company::kAlone),
        sketch(options.capacity),
        dirty(options.origin ? table.slots() : 0) {}

  [[nodiscard]] bool shared() const { return origin != nullptr; }
  [[nodiscard]] Component component(uint64_t generation) const {
    return {.incarnation = incarnation, .generation = generation};
  }

  // Has a window tuple told, again if need be; by a pinned caller.
  void make_dirty(const memory::Tuple& tuple) {
    if (memory::WindowCells(tuple).mark_dirty()) dirty.push(tuple.index);
  }

  // Asked only where a reply arrives or a request seems late; a request brings its time.
  const Clock& clock;
  const base::KeyedHash hash;
  const uint64_t incarnation;
  const std::shared_ptr<RegionalOrigin> origin;
  const Millis read_deadline;
  const Millis max_freshness;
  const OnOriginLoss on_origin_loss;
  const Millis replay_within;

  memory::Table table;
  memory::Sketch sketch;
  memory::DirtyList dirty;
  telemetry::Counters<Stat> stats;
};

}  // namespace weir::limiter

// The state of one limiter, by the module that owns each part. The engine builds it; every class
// gets the parts that it uses.
//
// Each part synchronises itself. Parts are shared, because a reply of the origin or the ledger may
// arrive after the limiter ended.

#pragma once

#include <cstdint>
#include <memory>

#include "global/global_state.h"
#include "memory/publish_watch.h"
#include "memory/tuple_store.h"
#include "regional/merger.h"
#include "regional/region_state.h"
#include "telemetry/limiter_counters.h"
#include "weir/clock.h"
#include "weir/options.h"

namespace weir::decide {

struct LimiterState {
  // `hash_seed` is a secret; see TupleStore.
  LimiterState(const Clock& clock, const Options& options, uint64_t hash_seed)
      : tuples(std::make_shared<memory::TupleStore>(clock, options, hash_seed)),
        region(std::make_shared<regional::RegionState>(options, *tuples)),
        global(options.ledger ? std::make_shared<global::GlobalState>(options, *tuples) : nullptr),
        publish_watch(options.ledger ? std::make_shared<memory::PublishWatch>(*tuples) : nullptr),
        counters(std::make_shared<telemetry::LimiterCounters>()),
        merger(std::make_shared<regional::Merger>(tuples, region, publish_watch, counters)) {}

  const std::shared_ptr<memory::TupleStore> tuples;
  const std::shared_ptr<regional::RegionState> region;
  // Null without a ledger.
  const std::shared_ptr<global::GlobalState> global;
  const std::shared_ptr<memory::PublishWatch> publish_watch;
  const std::shared_ptr<telemetry::LimiterCounters> counters;
  const std::shared_ptr<const regional::Merger> merger;
};

}  // namespace weir::decide

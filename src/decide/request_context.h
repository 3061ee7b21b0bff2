// A valid request on the slow path: its names are read once and hashed once.

#pragma once

#include <optional>

#include "algorithms/windows.h"
#include "base/inline.h"
#include "base/keyed_hash.h"
#include "global/shared_tuples.h"
#include "memory/slot.h"
#include "memory/tuple_key.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::decide {

struct RequestContext {
  RequestContext() = default;
  WEIR_HOT_INLINE RequestContext(Instant at, const Request& request, const base::KeyedHash& hash)
      : now(at),
        key(request, hash),
        query(memory::query_of(at.wall, request)),
        on_origin_loss(request.on_origin_loss),
        consistency(request.consistency) {}

  Instant now{};
  memory::TupleKey key;
  memory::Query query;
  std::optional<OnOriginLoss> on_origin_loss{};
  std::optional<Consistency> consistency{};
  // The region's counts as read from the origin, for a peek at a tuple that is not in the table.
  std::optional<algorithms::WindowCounts> region_counts{};
  std::optional<global::LedgerTotals> ledger_totals{};  // the same of the other regions
  // What other regions have admitted, for a peek at such a tuple without an origin.
  Count foreign_use = 0;
  std::optional<memory::CellDecision> refusal{};  // on what was known when it came
  // A denial by the origin that still holds: its late answer would not admit the request.
  std::optional<memory::CellDecision> standing_denial{};
  // An exact request that the origin does not decide, of a class other than windows: the loss
  // policy denies it, or the query has the share of this process. Then this is the requested
  // capacity.
  bool denied_by_loss = false;
  bool unknown_to_origin = false;  // it will not learn of the request from a call
  bool asks_origin = false;        // unless this process can decide it; see Engine::ask()
  // Of a window: the table has no place for the tuple, so the origin decides by its own counts.
  bool is_apart = false;
  std::optional<Count> undivided_capacity{};

  [[nodiscard]] memory::CellClass cell_class() const { return key.header().cell_class(); }
  // Moves the request to another time.
  void set_time(Instant then) {
    now = then;
    query.now = then.wall;
  }
};

}  // namespace weir::decide

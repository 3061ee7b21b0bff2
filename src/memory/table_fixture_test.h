// Requests and operations for tests of the table.

#pragma once

#include <string_view>

#include "base/keyed_hash.h"
#include "memory/backlog_cell.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"
#include "memory/table.h"
#include "memory/window_cells.h"

namespace weir::memory {

inline constexpr WallTime kNoon{Millis(1'699'999'200'000)};

// The request refers to the caller's string.
inline Request request_for(std::string_view identifier, Count limit = 10,
                           Algorithm algorithm = Algorithm::kSlidingWindow) {
  return {.ns = "test",
          .identifier = identifier,
          .limit = limit,
          .duration = Millis(60'000),
          .algorithm = algorithm};
}

struct Subject {
  explicit Subject(const Request& request, WallTime at = kNoon)
      : key(request, base::KeyedHash(7)), query(query_of(at, request)) {}
  TupleKey key;
  Query query;
};

// Charges the tuple once. The tuple must exist and fit the query.
inline CellDecision charge(const Table& table, const Subject& subject) {
  const epoch::Guard guard;
  const Tuple tuple = table.find(subject.key);
  if (!tuple) return {.status = DecisionStatus::kRetry};
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kWindow: return WindowCells(tuple).decide(subject.query, Effect::kConsume);
    case CellClass::kBacklog: return BacklogCell(tuple).decide(subject.query, Effect::kConsume);
    case CellClass::kRing: return RingCell(tuple).decide(subject.query, Effect::kConsume);
    case CellClass::kLog: break;
  }
  return LogCell(tuple).decide(subject.query, Effect::kConsume);
}

// As if the origin had acknowledged everything this node accepted.
inline void ack_all(const Table& table, const Subject& subject) {
  const epoch::Guard guard;
  const WindowCells cells(table.find(subject.key));
  for (const int64_t sequence : {cells.newest(), cells.newest() - 1}) {
    const Tagged own{cells.own(sequence).load()};
    cells.acked(sequence).store(own.word & ~kClosedBit);
  }
}

inline bool knows(const Table& table, const Subject& subject) {
  const epoch::Guard guard;
  return static_cast<bool>(table.find(subject.key));
}

}  // namespace weir::memory

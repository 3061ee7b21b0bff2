#include "limiter/refresh.h"

#include <utility>

#include "base/wide.h"
#include "limiter/told.h"

namespace weir::limiter {

using memory::mutated;
using memory::Mutation;
using memory::WindowCells;

namespace {

Stat asked(ReadRequirement requirement) {
  return requirement == ReadRequirement::kCold    ? Stat::kColdReads
         : requirement == ReadRequirement::kStale ? Stat::kStaleReads
                                                  : Stat::kStrictReads;
}
Stat failed(ReadRequirement requirement) {
  return requirement == ReadRequirement::kCold    ? Stat::kColdReadErrors
         : requirement == ReadRequirement::kStale ? Stat::kStaleReadErrors
                                                  : Stat::kStrictReadErrors;
}

}  // namespace

// One request that waits for some flights.
struct Refresh::Waiter {
  Executor* home = nullptr;
  UniqueFunction<void(const std::vector<Received>&)> done;
  std::vector<Received> received;  // each flight writes its own entry, before it counts itself off
  base::Atomic<size_t> pending{0};
};

// One read of one tuple.
struct Refresh::Flight {
  std::string tuple;
  memory::TupleKey key;
  ReadRequirement requirement = ReadRequirement::kCold;
  int64_t sequence = 0;  // the current window at the time of asking
  uint64_t generation = 0;
  Instant began{};
  // Guarded by the shard's mutex.
  bool ended = false;
  struct Seat {
    std::shared_ptr<Waiter> waiter;
    size_t entry = 0;
  };
  std::vector<Seat> seats;

  [[nodiscard]] size_t cells() const { return requirement == ReadRequirement::kStrict ? 1 : 2; }
};

Refresh::Shard& Refresh::shard_of(const Flight& flight) {
  return shards_[flight.key.hash() % kShards];
}

uint64_t Refresh::generation_of(const memory::TupleKey& key) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = store_->table.find(key);
  return tuple ? WindowCells(tuple).generation() : 0;
}

void Refresh::read(Instant now, const std::vector<Wanted>& wanted, Executor& home,
                   UniqueFunction<void(const std::vector<Received>&)> done) {
  auto waiter = std::make_shared<Waiter>();
  waiter->home = &home;
  waiter->done = std::move(done);
  waiter->received.resize(wanted.size());
  waiter->pending.store(wanted.size(), std::memory_order_relaxed);

  std::vector<FlightPtr> started;
  std::vector<CellRead> cells;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const RequestContext& context = *wanted[i].context;
    auto flight = std::make_shared<Flight>();
    flight->tuple = context.key.encoded();
    flight->key = context.key;
    flight->requirement = wanted[i].requirement;
    flight->sequence = algorithms::position_of(now.wall, context.query.duration).sequence;
    flight->generation = generation_of(context.key);
    flight->began = now;

    Shard& shard = shard_of(*flight);
    const std::lock_guard lock(shard.mutex);
    FlightPtr& current = shard.flights[flight->tuple];
    // A flight for an older window or for fewer cells does not answer this one.
    const bool joins = current != nullptr && current->sequence == flight->sequence &&
                       current->generation == flight->generation &&
                       current->cells() >= flight->cells();
    if (!joins) {
      current = flight;
      started.push_back(flight);
      store_->stats.add(asked(flight->requirement));
      const Component reader = store_->component(flight->generation);
      for (size_t back = 0; back < flight->cells(); ++back) {
        const int64_t sequence = flight->sequence - static_cast<int64_t>(back);
        cells.push_back({.cell = {flight->tuple, sequence},
                         .reader = reader,
                         .expires_at = WallTime((sequence + 2) * context.query.duration)});
      }
    }
    current->seats.push_back({.waiter = waiter, .entry = i});
  }
  if (started.empty()) return;

  const MonoTime deadline = now.mono + store_->read_deadline;
  home.post_at(deadline,
               [self = shared_from_this(), started, deadline] { self->fail(started, deadline); });
  // Weak: an origin that never answers must not keep its user alive.
  store_->origin->read(std::move(cells), [self = weak_from_this(), started](auto totals) {
    if (const auto refresh = self.lock()) refresh->land(started, std::move(totals));
  });
}

void Refresh::land(const std::vector<FlightPtr>& flights, Result<std::vector<CellTotals>> totals) {
  if (!totals) {
    fail(flights, store_->clock.now().mono);
    return;
  }
  const CellTotals* next = totals->data();
  const CellTotals* const last = next + totals->size();
  for (const FlightPtr& flight : flights) {
    // A store that answers with fewer cells than it was asked for has not answered.
    if (static_cast<size_t>(last - next) < flight->cells()) {
      fail({flight}, store_->clock.now().mono);
      continue;
    }
    const auto total = [next](size_t back) {
      return std::min(base::saturating_add(next[back].mine, next[back].siblings),
                      memory::kMaxCount);
    };
    Received received{.read = true, .learnt = learn(*flight, next)};
    received.counts.current = total(0);
    if (flight->cells() == 2) received.counts.previous = total(1);
    next += flight->cells();
    end(flight, received);
  }
}

void Refresh::fail(const std::vector<FlightPtr>& flights, MonoTime now) {
  for (const FlightPtr& flight : flights) {
    {
      const std::lock_guard lock(shard_of(*flight).mutex);
      if (flight->ended) continue;
    }
    store_->stats.add(failed(flight->requirement));
    {
      const epoch::Guard guard;
      if (const memory::Tuple tuple = store_->table.find(flight->key)) {
        if (mutated(Mutation::kFreshByFailedRead)) {
          note_read(tuple, flight->sequence, flight->began, Extent::kBoth, 0,
                    store_->max_freshness);
        }
        note_failed_read(WindowCells(tuple), now);
      }
    }
    end(flight, {});
  }
}

bool Refresh::learn(const Flight& flight, const CellTotals* totals) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = store_->table.find(flight.key);
  // Forgotten and made anew since: its component has another name now, and what was read
  // as ours is a sibling's. It will be read again.
  if (!tuple || WindowCells(tuple).generation() != flight.generation) return false;
  const WindowCells cells(tuple);
  // So long unused, or so far ahead of a clock that was set back, that it is to be made anew first.
  if (!store_->is_of_this_time(tuple, flight.sequence)) return false;
  const Count known = memory::count_in(cells.siblings(flight.sequence), flight.sequence);
  for (size_t back = 0; back < flight.cells(); ++back) {
    const int64_t newest = mutated(Mutation::kLateIntoNext) ? cells.newest() : flight.sequence;
    const int64_t sequence = newest - static_cast<int64_t>(back);
    if (cells.raise_siblings(sequence, totals[back].siblings)) {
      store_->look_after_news(tuple, sequence);
    }
    if (!heal_acked(cells, sequence, totals[back].mine)) continue;
    store_->stats.add(Stat::kHealed);
    store_->make_dirty(tuple);
  }
  if (flight.requirement != ReadRequirement::kStrict) {
    const Millis longest =
        longest_while_failing(store_->tells_fail_since(), flight.began.mono,
                              tuple.slot->header.duration(), store_->max_freshness);
    note_read(tuple, flight.sequence, flight.began, Extent::kBoth, known, longest);
  }
  return true;
}

void Refresh::end(const FlightPtr& flight, const Received& received) {
  std::vector<Flight::Seat> seats;
  {
    Shard& shard = shard_of(*flight);
    const std::lock_guard lock(shard.mutex);
    if (flight->ended) return;
    flight->ended = true;
    seats.swap(flight->seats);
    const auto found = shard.flights.find(flight->tuple);
    if (found != shard.flights.end() && found->second == flight) shard.flights.erase(found);
  }
  for (const Flight::Seat& seat : seats) {
    seat.waiter->received[seat.entry] = received;
    // The last flight to end sees what the others wrote.
    if (seat.waiter->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    seat.waiter->home->post([waiter = seat.waiter] { waiter->done(waiter->received); });
  }
}

}  // namespace weir::limiter

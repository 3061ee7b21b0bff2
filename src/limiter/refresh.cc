#include "limiter/refresh.h"

#include <utility>

#include "base/wide.h"
#include "limiter/told.h"

namespace weir::limiter {

using memory::WindowCells;

// One request that waits for some flights.
struct Refresh::Waiter {
  Executor* home = nullptr;
  std::function<void(Heard)> done;
  Heard heard;  // each flight writes its own entry, before it counts itself off
  std::atomic<bool> failed{false};
  std::atomic<size_t> pending{0};
};

// One read of one tuple.
struct Refresh::Flight {
  std::string tuple;
  memory::TupleKey key;
  Need need = Need::kReadBoth;
  int64_t sequence = 0;  // the current window at the time of asking
  uint64_t generation = 0;
  MonoTime began{};
  // Guarded by the shard's mutex.
  bool ended = false;
  struct Seat {
    std::shared_ptr<Waiter> waiter;
    size_t entry = 0;
  };
  std::vector<Seat> seats;

  [[nodiscard]] size_t cells() const { return need == Need::kReadBoth ? 2 : 1; }
};

Refresh::Shard& Refresh::shard_of(const Flight& flight) {
  return shards_[flight.key.hash() % kShards];
}

uint64_t Refresh::generation_of(const memory::TupleKey& key) const {
  const platform::Pin pin;
  const memory::Tuple tuple = store_->table.find(key);
  return tuple ? WindowCells(tuple).generation() : 0;
}

void Refresh::read(Instant now, const std::vector<Wanted>& wanted, Executor& home,
                   std::function<void(Heard)> done) {
  auto waiter = std::make_shared<Waiter>();
  waiter->home = &home;
  waiter->done = std::move(done);
  waiter->heard.counts.resize(wanted.size());
  waiter->pending.store(wanted.size(), std::memory_order_relaxed);

  std::vector<FlightPtr> started;
  std::vector<CellRead> cells;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Case& the_case = *wanted[i].the_case;
    auto flight = std::make_shared<Flight>();
    flight->tuple = the_case.key.encoded();
    flight->key = the_case.key;
    flight->need = wanted[i].need;
    flight->sequence =
        algorithms::position_of(now.wall, the_case.query.duration).sequence;
    flight->generation = generation_of(the_case.key);
    flight->began = now.mono;

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
      const Component reader = store_->component(flight->generation);
      for (size_t back = 0; back < flight->cells(); ++back) {
        cells.push_back({.cell = {flight->tuple, flight->sequence - static_cast<int64_t>(back)},
                         .reader = reader});
      }
    }
    current->seats.push_back({.waiter = waiter, .entry = i});
  }
  if (started.empty()) return;

  store_->stats.add(Stat::kRefreshes, started.size());
  const MonoTime deadline = now.mono + store_->read_deadline;
  home.post_at(deadline, [self = shared_from_this(), started, deadline] {
    self->fail(started, deadline);
  });
  store_->origin->read(std::move(cells), [self = shared_from_this(), started](auto totals) {
    self->land(started, std::move(totals));
  });
}

void Refresh::land(const std::vector<FlightPtr>& flights,
                   Result<std::vector<CellTotals>> totals) {
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
    learn(*flight, next);
    algorithms::WindowCounts counts{.current = base::saturating_add(next[0].mine, next[0].siblings)};
    if (flight->cells() == 2) counts.previous = base::saturating_add(next[1].mine, next[1].siblings);
    counts = {.current = std::min(counts.current, memory::kMaxCount),
              .previous = std::min(counts.previous, memory::kMaxCount)};
    next += flight->cells();
    end(flight, Ending::kRead, counts);
  }
}

void Refresh::fail(const std::vector<FlightPtr>& flights, MonoTime now) {
  for (const FlightPtr& flight : flights) {
    {
      const std::lock_guard lock(shard_of(*flight).mutex);
      if (flight->ended) continue;
    }
    store_->stats.add(Stat::kRefreshErrors);
    {
      const platform::Pin pin;
      if (const memory::Tuple tuple = store_->table.find(flight->key)) {
        note_failed_read(WindowCells(tuple), now);
      }
    }
    end(flight, Ending::kFailed, {});
  }
}

void Refresh::learn(const Flight& flight, const CellTotals* totals) const {
  const platform::Pin pin;
  const memory::Tuple tuple = store_->table.find(flight.key);
  // Forgotten and made anew since: its component has another name now, and what was read
  // as ours is a sibling's. It will be read again.
  if (!tuple || WindowCells(tuple).generation() != flight.generation) return;
  const WindowCells cells(tuple);
  for (size_t back = 0; back < flight.cells(); ++back) {
    const int64_t sequence = flight.sequence - static_cast<int64_t>(back);
    cells.raise_siblings(sequence, totals[back].siblings);
    if (heal_told(cells, sequence, totals[back].mine) && cells.mark_dirty()) {
      store_->dirty.push(tuple.index);
    }
  }
  if (flight.need == Need::kReadBoth) {
    note_read(cells, flight.began,
              fresh_for(tuple.slot->header.duration(), store_->max_freshness));
  }
}

void Refresh::end(const FlightPtr& flight, Ending ending, const algorithms::WindowCounts& counts) {
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
    seat.waiter->heard.counts[seat.entry] = counts;
    if (ending == Ending::kFailed) seat.waiter->failed.store(true, std::memory_order_relaxed);
    // The last flight to end sees what the others wrote.
    if (seat.waiter->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    seat.waiter->home->post([waiter = seat.waiter] {
      waiter->heard.complete = !waiter->failed.load(std::memory_order_relaxed);
      waiter->done(std::move(waiter->heard));
    });
  }
}

}  // namespace weir::limiter

#include "regional/refresh.h"

#include <algorithm>
#include <utility>

#include "base/countdown.h"
#include "base/mutex.h"
#include "base/wide.h"

namespace weir::regional {

using memory::mutated;
using memory::Mutation;
using memory::WindowCells;
using telemetry::Stat;

namespace {

Stat read_stat(ReadRequirement requirement) {
  return requirement == ReadRequirement::kCold ? Stat::kColdReads : Stat::kStaleReads;
}
Stat error_stat(ReadRequirement requirement) {
  return requirement == ReadRequirement::kCold ? Stat::kColdReadErrors : Stat::kStaleReadErrors;
}

}  // namespace

// One caller of read(), which waits for some flights.
struct Refresh::Waiter {
  Executor* home = nullptr;
  UniqueFunction<void(const std::vector<ReadResult>&)> done;
  std::vector<ReadResult> results;  // each flight writes its entry before its part ends
  base::Countdown pending;          // flights, and read() itself until the timer is set
};

// An entry of the results of a waiter.
struct Refresh::Subscription {
  WaiterPtr waiter;
  size_t entry = 0;
};

// One read of one tuple.
struct Refresh::Flight {
  std::string tuple;
  memory::TupleKey key;
  ReadRequirement requirement = ReadRequirement::kCold;
  int64_t sequence = 0;  // the current window when the read began
  uint64_t generation = 0;
  Count own = 0;  // of the current window
  Instant began{};
  std::deque<Subscription> subscriptions;  // guarded by the shard's mutex

  static constexpr size_t kCells = 2;  // this window and the last one
};

Refresh::Shard& Refresh::shard_of(const Flight& flight) {
  return shards_[flight.key.hash() % kShards];
}

void Refresh::note_state(Flight& flight) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = tuples_->table.find(flight.key);
  if (!tuple) return;
  const WindowCells cells(tuple);
  flight.generation = cells.generation();
  flight.own = memory::count_in(cells.own(flight.sequence), flight.sequence);
}

void Refresh::read(Instant now, const std::vector<ReadRequest>& requests, const Caller& caller,
                   UniqueFunction<void(const std::vector<ReadResult>&)> done) {
  // Not make_shared: the timer's weak pointer would keep the memory.
  const WaiterPtr waiter(new Waiter);
  waiter->home = caller.home;
  waiter->done = std::move(done);
  waiter->results.resize(requests.size());
  waiter->pending.set(requests.size() + 1);
  if (!caller.has_time(now.mono)) {
    waiter->home->post([waiter] { waiter->done(waiter->results); });
    return;
  }
  std::vector<FlightPtr> awaited;
  std::vector<FlightPtr> started;
  std::vector<CellRead> cells;
  for (size_t i = 0; i < requests.size(); ++i) {
    const ReadRequest& request = requests[i];
    auto flight = std::make_shared<Flight>();
    flight->tuple = request.key->encoded();
    flight->key = *request.key;
    flight->requirement = request.requirement;
    flight->sequence = algorithms::position_of(now.wall, request.duration).sequence;
    note_state(*flight);
    flight->began = now;

    Shard& shard = shard_of(*flight);
    const base::MutexLock lock(shard.mutex);
    FlightPtr& current = shard.flights[flight->tuple];
    // A read of an older window does not serve this request.
    const bool joins = current != nullptr && current->sequence == flight->sequence &&
                       current->generation == flight->generation &&
                       now.mono - current->began.mono < region_->read_deadline;
    if (!joins) {
      current = flight;
      started.push_back(flight);
      counters_->add(read_stat(flight->requirement));
      const Component reader = region_->component(flight->generation);
      for (size_t back = 0; back < Flight::kCells; ++back) {
        const int64_t sequence = flight->sequence - static_cast<int64_t>(back);
        cells.push_back({.cell = {flight->tuple, sequence},
                         .reader = reader,
                         .expires_at = WallTime((sequence + 2) * request.duration),
                         .with_regions = region_->reads_regions && back == 0});
      }
    }
    current->subscriptions.push_back({.waiter = waiter, .entry = i});
    awaited.push_back(current);
  }
  caller.home->post_at(caller.deadline, [self = shared_from_this(), waiting = std::weak_ptr(waiter),
                                         awaited = std::move(awaited), deadline = caller.deadline] {
    if (const WaiterPtr late = waiting.lock()) {
      self->expire(late, awaited, deadline);
    }
  });
  end_part(waiter);
  if (started.empty()) return;
  // Weak: an origin that never answers must not keep this object alive.
  region_->origin->read(std::move(cells), [self = weak_from_this(), started](auto totals) {
    if (const auto refresh = self.lock()) refresh->on_reply(started, std::move(totals));
  });
}

void Refresh::on_reply(const std::vector<FlightPtr>& flights,
                       Result<std::vector<CellTotals>> totals) {
  const CellTotals* next = totals ? totals->data() : nullptr;
  const CellTotals* const last = totals ? next + totals->size() : nullptr;
  for (const FlightPtr& flight : flights) {
    // A reply with too few cells is no answer for the rest.
    if (static_cast<size_t>(last - next) < Flight::kCells) {
      fail(flight);
      continue;
    }
    const auto total = [next](size_t back) {
      return std::min(base::saturating_add(next[back].mine, next[back].siblings),
                      memory::kMaxCount);
    };
    ReadResult result{.answered = true, .merged = merge(*flight, next)};
    result.counts.current = total(0);
    result.counts.previous = total(1);
    result.regions = next[0].regions;
    next += Flight::kCells;
    for (const Subscription& each : end(flight)) answer(each, result);
  }
}

// The waiter leaves the reads that have not ended, in the order of its entries.
void Refresh::expire(const WaiterPtr& waiter, const std::vector<FlightPtr>& flights,
                     MonoTime deadline) {
  for (size_t i = 0; i < flights.size(); ++i) {
    const FlightPtr& flight = flights[i];
    // One for which only requests with little time have waited says nothing of the origin.
    const bool is_late = deadline - flight->began.mono >= region_->read_deadline;
    bool was_current = false;
    {
      Shard& shard = shard_of(*flight);
      const base::MutexLock lock(shard.mutex);
      auto& all = flight->subscriptions;
      // Nearly always the first.
      const auto left = std::find_if(all.begin(), all.end(), [&](const Subscription& each) {
        return each.waiter == waiter && each.entry == i;
      });
      if (left == all.end()) continue;
      all.erase(left);
      if (is_late || all.empty()) was_current = remove(shard, flight);
    }
    if (is_late) {
      if (was_current) counters_->add(error_stat(flight->requirement));
      note_failure(*flight, deadline);
    }
    answer({.waiter = waiter, .entry = i}, {});
  }
}

void Refresh::fail(const FlightPtr& flight) {
  const std::deque<Subscription> subscriptions = end(flight);
  if (subscriptions.empty()) return;
  counters_->add(error_stat(flight->requirement));
  note_failure(*flight, tuples_->clock.now().mono);
  for (const Subscription& each : subscriptions) answer(each, {});
}

void Refresh::note_failure(const Flight& flight, MonoTime now) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = tuples_->table.find(flight.key);
  if (!tuple) return;
  if (mutated(Mutation::kFreshByFailedRead)) {
    note_read(tuple, flight.sequence, flight.began, Extent::kBoth, OtherRegions::kKnown, 0,
              region_->max_freshness);
  }
  note_failed_read(WindowCells(tuple), now);
}

bool Refresh::merge(const Flight& flight, const CellTotals* totals) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = tuples_->table.find(flight.key);
  // Evicted and created again since: the tuple has another component now, and the reply counts our
  // former one as a sibling. A later read gets it right.
  if (!tuple || WindowCells(tuple).generation() != flight.generation) return false;
  // The next charge must rebuild the tuple first.
  if (!tuples_->is_current(tuple, flight.sequence)) return false;
  merger_->merge(tuple, {.began = flight.began,
                         .sequence = flight.sequence,
                         .own = flight.own,
                         .current = &totals[0],
                         .last = &totals[1]});
  return true;
}

// False: it was not in the map any more.
bool Refresh::remove(Shard& shard, const FlightPtr& flight) {
  const auto found = shard.flights.find(flight->tuple);
  if (found == shard.flights.end() || found->second != flight) return false;
  shard.flights.erase(found);
  return true;
}

// Returns the requests that wait for it.
std::deque<Refresh::Subscription> Refresh::end(const FlightPtr& flight) {
  Shard& shard = shard_of(*flight);
  const base::MutexLock lock(shard.mutex);
  remove(shard, flight);
  return std::exchange(flight->subscriptions, {});
}

void Refresh::answer(const Subscription& subscription, const ReadResult& result) {
  subscription.waiter->results[subscription.entry] = result;
  end_part(subscription.waiter);
}

void Refresh::end_part(const WaiterPtr& waiter) {
  if (!waiter->pending.end_part()) return;
  waiter->home->post([waiter] { waiter->done(waiter->results); });
}

}  // namespace weir::regional

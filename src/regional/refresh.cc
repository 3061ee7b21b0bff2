#include "regional/refresh.h"

#include <utility>

#include "base/mutex.h"
#include "base/wide.h"
#include "regional/acked.h"

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
  std::vector<ReadResult> results;  // each flight writes its entry before it decrements `pending`
  base::Atomic<size_t> pending{0};
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
  // Guarded by the shard's mutex.
  bool ended = false;
  struct Subscription {
    std::shared_ptr<Waiter> waiter;
    size_t entry = 0;
  };
  std::vector<Subscription> subscriptions;

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

void Refresh::read(Instant now, const std::vector<ReadRequest>& requests, Executor& home,
                   UniqueFunction<void(const std::vector<ReadResult>&)> done) {
  auto waiter = std::make_shared<Waiter>();
  waiter->home = &home;
  waiter->done = std::move(done);
  waiter->results.resize(requests.size());
  waiter->pending.store(requests.size(), std::memory_order_relaxed);

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
                       current->generation == flight->generation;
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
  }
  if (started.empty()) return;

  const MonoTime deadline = now.mono + region_->read_deadline;
  home.post_at(deadline,
               [self = shared_from_this(), started, deadline] { self->fail(started, deadline); });
  // Weak: an origin that never answers must not keep this object alive.
  region_->origin->read(std::move(cells), [self = weak_from_this(), started](auto totals) {
    if (const auto refresh = self.lock()) refresh->on_reply(started, std::move(totals));
  });
}

void Refresh::on_reply(const std::vector<FlightPtr>& flights,
                       Result<std::vector<CellTotals>> totals) {
  if (!totals) {
    fail(flights, tuples_->clock.now().mono);
    return;
  }
  const CellTotals* next = totals->data();
  const CellTotals* const last = next + totals->size();
  for (const FlightPtr& flight : flights) {
    // A reply with too few cells is no answer for the rest.
    if (static_cast<size_t>(last - next) < Flight::kCells) {
      fail({flight}, tuples_->clock.now().mono);
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
    end(flight, result);
  }
}

void Refresh::fail(const std::vector<FlightPtr>& flights, MonoTime now) {
  for (const FlightPtr& flight : flights) {
    {
      const base::MutexLock lock(shard_of(*flight).mutex);
      if (flight->ended) continue;
    }
    counters_->add(error_stat(flight->requirement));
    {
      const epoch::Guard guard;
      if (const memory::Tuple tuple = tuples_->table.find(flight->key)) {
        if (mutated(Mutation::kFreshByFailedRead)) {
          note_read(tuple, flight->sequence, flight->began, Extent::kBoth, OtherRegions::kKnown, 0,
                    region_->max_freshness);
        }
        note_failed_read(WindowCells(tuple), now);
      }
    }
    end(flight, {});
  }
}

bool Refresh::merge(const Flight& flight, const CellTotals* totals) const {
  const epoch::Guard guard;
  const memory::Tuple tuple = tuples_->table.find(flight.key);
  // Evicted and created again since: the tuple has another component now, and the reply counts our
  // former one as a sibling. A later read gets it right.
  if (!tuple || WindowCells(tuple).generation() != flight.generation) return false;
  const WindowCells cells(tuple);
  // The next charge must rebuild the tuple first.
  if (!tuples_->is_current(tuple, flight.sequence)) return false;
  const Count known = memory::count_in(cells.siblings(flight.sequence), flight.sequence);
  for (size_t back = 0; back < Flight::kCells; ++back) {
    const int64_t newest = mutated(Mutation::kLateIntoNext) ? cells.newest() : flight.sequence;
    const int64_t sequence = newest - static_cast<int64_t>(back);
    if (cells.raise_siblings(sequence, totals[back].siblings) && publish_watch_ != nullptr) {
      publish_watch_->after_sibling_change(tuple, sequence);
    }
    if (!heal_acked(*tuples_, tuple, sequence, totals[back].mine, flight.began.mono)) continue;
    counters_->add(Stat::kHealed);
    region_->replay_again(tuple, flight.generation, sequence);
  }
  if (totals[0].regions != nullptr) {
    if (const auto handler = region_->region_counts.lock()) {
      handler->merge_regions(tuple, *totals[0].regions);
    }
  }
  cells.note_told(flight.sequence, std::min(flight.own, totals[0].mine),
                  WindowCells::Refusals{totals[0].refused, totals[1].refused});
  const Millis longest =
      longest_while_failing(region_->replay_failing_since(), flight.began.mono,
                            tuple.slot->header.duration(), region_->max_freshness);
  const bool missed = region_->reads_regions && (totals[0].regions == nullptr ||
                                                 region_->missed_messages_since(flight.began.mono));
  note_read(tuple, flight.sequence, flight.began, Extent::kBoth,
            missed ? OtherRegions::kAsBefore : OtherRegions::kKnown, known, longest);
  return true;
}

void Refresh::end(const FlightPtr& flight, const ReadResult& result) {
  std::vector<Flight::Subscription> subscriptions;
  {
    Shard& shard = shard_of(*flight);
    const base::MutexLock lock(shard.mutex);
    if (flight->ended) return;
    flight->ended = true;
    subscriptions.swap(flight->subscriptions);
    const auto found = shard.flights.find(flight->tuple);
    if (found != shard.flights.end() && found->second == flight) shard.flights.erase(found);
  }
  for (const Flight::Subscription& subscription : subscriptions) {
    const std::shared_ptr<Waiter>& waiter = subscription.waiter;
    waiter->results[subscription.entry] = result;
    // Acquire and release: the last flight to end sees the results of the others.
    if (waiter->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    waiter->home->post([waiter] { waiter->done(waiter->results); });
  }
}

}  // namespace weir::regional

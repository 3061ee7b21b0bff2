#include "origins/in_process_origin.h"

#include <algorithm>
#include <utility>

#include "origins/subscriber.h"

namespace weir::origins {

struct InProcessOrigin::Store {
  Store(const Clock& the_clock, InProcessOptions the_options)
      : clock(the_clock), options(the_options) {}

  const Clock& clock;
  const InProcessOptions options;
  mutable base::StdMutex mutex;
  InProcessState state WEIR_GUARDED_BY(mutex);
  uint64_t dropped WEIR_GUARDED_BY(mutex) = 0;
  Subscribers subscribers;
};

InProcessOrigin::InProcessOrigin(const Clock& clock, InProcessOptions options)
    : InProcessOrigin(std::make_shared<Store>(clock, options)) {}

std::shared_ptr<RegionalOrigin> InProcessOrigin::another_endpoint() const {
  return std::shared_ptr<RegionalOrigin>(new InProcessOrigin(store_));
}

void InProcessOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  std::vector<CellTotals> answer;
  {
    const base::MutexLock lock(store_->mutex);
    InProcessState& state = store_->state;
    state.delete_expired(store_->clock.now().wall);
    for (const CellRead& read : cells) {
      CellTotals totals = state.totals(read.cell, read.reader);
      if (read.with_regions) {
        totals.regions =
            std::make_shared<const std::vector<RegionCount>>(state.regions(read.cell.tuple));
      }
      answer.push_back(std::move(totals));
    }
  }
  reply(std::move(answer));
}

void InProcessOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  std::vector<CellTotals> answer;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    store_->state.delete_expired(now);
    for (const CellReplay& replay : cells) {
      store_->state.replay(replay, now);
      CellTotals current = store_->state.totals(replay.cell, replay.writer);
      // An expired cell counts as acknowledged.
      if (replay.expires_at <= now) current.mine = replay.total;
      answer.push_back(std::move(current));
    }
  }
  reply(std::move(answer));
}

void InProcessOrigin::step(std::vector<CellStep> steps, StepReply reply) {
  std::vector<StepTotals> answer;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    store_->state.delete_expired(now);
    for (const CellStep& step : steps) answer.push_back(store_->state.step(step, now));
  }
  reply(std::move(answer));
}

void InProcessOrigin::decide(std::vector<ExactCall> calls, ExactReply reply) {
  std::vector<ExactAnswer> answers;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    store_->state.delete_expired(now);
    for (const ExactCall& call : calls) answers.push_back(store_->state.exact.decide(call, now));
  }
  reply(std::move(answers));
}

void InProcessOrigin::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  size_t retired = 0;
  {
    const base::MutexLock lock(store_->mutex);
    for (const CellRetirement& cell : cells) retired += store_->state.retire(cell) ? 1 : 0;
  }
  reply(retired);
}

void InProcessOrigin::acquire(std::string holder, Millis lease, GrantReply reply) {
  BridgeGrant grant;
  {
    const base::MutexLock lock(store_->mutex);
    grant = store_->state.acquire(holder, lease, store_->clock.now());
  }
  reply(std::move(grant));
}

void InProcessOrigin::release(std::string holder) {
  const base::MutexLock lock(store_->mutex);
  store_->state.release(holder);
}

void InProcessOrigin::save(std::string holder, std::string before, std::string state,
                           SavedReply reply) {
  bool saved = false;
  {
    const base::MutexLock lock(store_->mutex);
    saved = store_->state.save(holder, before, std::move(state), store_->clock.now().mono);
  }
  reply(saved);
}

void InProcessOrigin::read_due(WallTime from, WallTime by, size_t most, DueReply reply) {
  std::vector<DueTuple> entries;
  {
    const base::MutexLock lock(store_->mutex);
    // The entries have the time of the store. The clock of the caller may be behind it.
    entries = store_->state.due.read(from, std::max(by, store_->clock.now().wall), most);
  }
  reply(std::move(entries));
}

void InProcessOrigin::add_due(std::vector<DueTuple> entries) {
  const base::MutexLock lock(store_->mutex);
  for (const DueTuple& entry : entries) store_->state.due.add(entry);
}

void InProcessOrigin::remove_due(std::vector<DueTuple> entries) {
  const base::MutexLock lock(store_->mutex);
  for (const DueTuple& entry : entries) store_->state.due.remove(entry);
}

void InProcessOrigin::read_tuples(std::vector<TupleRead> tuples, TupleReply reply) {
  std::vector<TupleCounts> answer;
  {
    const base::MutexLock lock(store_->mutex);
    store_->state.delete_expired(store_->clock.now().wall);
    for (const TupleRead& read : tuples) {
      answer.push_back(store_->state.tuple(read.tuple, read.sequences));
    }
  }
  reply(std::move(answer));
}

void InProcessOrigin::update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) {
  std::vector<TupleCounts> answer;
  {
    const base::MutexLock lock(store_->mutex);
    const WallTime now = store_->clock.now().wall;
    store_->state.delete_expired(now);
    for (const TupleUpdate& update : updates) {
      const bool updated = store_->state.update(update, now, store_->options.max_tuples);
      for (const CellFloor& floor : update.floors) {
        store_->state.raise_departed(update.tuple, floor, now);
      }
      answer.push_back(store_->state.tuple(update.tuple, update.sequences));
      if (updated) continue;
      answer.back().dropped = true;
      ++store_->dropped;
    }
  }
  reply(std::move(answer));
}

void InProcessOrigin::keep_record(std::string record, KeptReply reply) {
  {
    const base::MutexLock lock(store_->mutex);
    store_->state.keep_record(std::move(record), store_->clock.now().wall);
  }
  reply(true);
}

void InProcessOrigin::read_records(RecordsReply reply) {
  std::vector<std::string> records;
  {
    const base::MutexLock lock(store_->mutex);
    records = store_->state.records();
  }
  reply(std::move(records));
}

void InProcessOrigin::notify(std::string body) {
  Subscribers::Receivers receivers;
  {
    const base::MutexLock lock(store_->mutex);
    receivers = store_->subscribers.enqueue(
        {.number = ++store_->state.last_message, .body = std::move(body)});
  }
  for (const auto& subscriber : receivers) subscriber->drain();
}

Subscription InProcessOrigin::subscribe(BridgeMessageHandler handler) {
  return store_->subscribers.add(std::move(handler));
}

void InProcessOrigin::clear() {
  const base::MutexLock lock(store_->mutex);
  store_->state = {};
}

void InProcessOrigin::evict(const std::string& tuple) {
  const base::MutexLock lock(store_->mutex);
  store_->state.evict(tuple);
}

InProcessOrigin::Snapshot InProcessOrigin::snapshot() const {
  const base::MutexLock lock(store_->mutex);
  return store_->state;
}

void InProcessOrigin::restore(Snapshot snapshot) {
  const base::MutexLock lock(store_->mutex);
  store_->state = std::move(snapshot);
}

std::map<Component, Count> InProcessOrigin::components(const CellId& cell) const {
  const base::MutexLock lock(store_->mutex);
  return store_->state.components(cell);
}

uint64_t InProcessOrigin::dropped() const {
  const base::MutexLock lock(store_->mutex);
  return store_->dropped;
}

}  // namespace weir::origins

namespace weir {

std::shared_ptr<RegionalOrigin> make_in_process_origin(const Clock& clock, size_t max_tuples) {
  return std::make_shared<origins::InProcessOrigin>(
      clock, origins::InProcessOptions{.max_tuples = max_tuples});
}

}  // namespace weir

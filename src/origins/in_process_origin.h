// A regional origin in memory: for limiters of one process that share a limit, for tests, for the
// simulator, and as the bridge store of a region without another origin.
//
// One store has several endpoints. Each is an origin, like a process with its own connection to a
// server.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "origins/in_process_state.h"
#include "weir/clock.h"
#include "weir/origin.h"

namespace weir::origins {

struct InProcessOptions {
  // Tuples of which the store keeps the counts of the ledger; 0: no bound.
  size_t max_tuples = 0;
};

// Safe from any thread; replies before the call returns. A message reaches all handlers before
// notify() returns, unless another thread delivers messages at that moment.
class InProcessOrigin final : public RegionalOrigin,
                              public StepStore,
                              public ExactStore,
                              public BridgeStore {
  struct Store;

 public:
  // The contents at one moment.
  using Snapshot = InProcessState;

  explicit InProcessOrigin(const Clock& clock, InProcessOptions options = {});
  InProcessOrigin(const InProcessOrigin&) = delete;
  InProcessOrigin& operator=(const InProcessOrigin&) = delete;

  // An origin with the same store.
  [[nodiscard]] std::shared_ptr<RegionalOrigin> another_endpoint() const;

  void read(std::vector<CellRead> cells, OriginReply reply) override;
  void replay(std::vector<CellReplay> cells, OriginReply reply) override;
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override;
  void step(std::vector<CellStep> steps, StepReply reply) override;
  [[nodiscard]] StepStore* step_store() override { return this; }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override;
  [[nodiscard]] ExactStore* exact_store() override { return this; }
  [[nodiscard]] BridgeStore* bridge_store() override { return this; }

  void acquire(std::string holder, Millis lease, GrantReply reply) override;
  void release(std::string holder) override;
  void save(std::string holder, std::string before, std::string state, SavedReply reply) override;
  void read_due(WallTime from, WallTime by, size_t most, DueReply reply) override;
  void add_due(std::vector<DueTuple> entries) override;
  void remove_due(std::vector<DueTuple> entries) override;
  void read_tuples(std::vector<TupleRead> tuples, TupleReply reply) override;
  void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) override;
  void keep_record(std::string record, KeptReply reply) override;
  void read_records(RecordsReply reply) override;
  void notify(std::string body) override;
  [[nodiscard]] Subscription subscribe(BridgeMessageHandler handler) override;

  // Deletes everything, like a restart without persistence. Messages are numbered from 1 again.
  void clear();
  // Deletes the cells and the region counts of a tuple, like a store whose memory is full.
  void evict(const std::string& tuple);
  // Goes back to an earlier state, like a restart from a snapshot.
  [[nodiscard]] Snapshot snapshot() const;
  void restore(Snapshot snapshot);

  // Returns all components of a cell.
  [[nodiscard]] std::map<Component, Count> components(const CellId& cell) const;
  // Updates of new tuples that were dropped because of `max_tuples`.
  [[nodiscard]] uint64_t dropped() const;

 private:
  explicit InProcessOrigin(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  const std::shared_ptr<Store> store_;
};

}  // namespace weir::origins

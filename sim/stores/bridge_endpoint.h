// The bridge store of a simulated origin, as one process reaches it.

#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "origins/subscriber.h"
#include "sim/stores/bridge_data.h"
#include "weir/origin.h"

namespace weir::sim {

// What all endpoints of one origin share. Belongs to the timeline.
struct SharedBridge {
  BridgeData data;
  std::function<Count(const CellId&)> total;  // of a cell: the sum of all components
  std::function<void(const std::string& tuple, const CellFloor&)> raise_departed;
  origins::Subscribers subscribers = {};
};

// Replies before the call returns. Must not outlive the shared part.
class BridgeEndpoint final : public BridgeStore {
 public:
  explicit BridgeEndpoint(SharedBridge& shared) : shared_(shared) {}

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
  [[nodiscard]] Subscription subscribe(BridgeMessageHandler handler) override {
    return shared_.subscribers.add(std::move(handler));
  }

 private:
  [[nodiscard]] TupleCounts read(const std::string& tuple,
                                 const std::vector<int64_t>& sequences) const;

  SharedBridge& shared_;
};

}  // namespace weir::sim

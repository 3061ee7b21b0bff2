// The bridge store of the origin, over the network of one process. Every call is a message with the
// faults of the link. Messages of the bridge arrive in order; those of a gap between two
// connections are lost.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/stores/origin_transport.h"

namespace weir::sim {

// Belongs to the timeline. Must not outlive the transport and the far end.
class BridgeLink final : public BridgeStore {
 public:
  BridgeLink(OriginTransport& transport, BridgeStore& far_end)
      : transport_(transport), far_end_(far_end) {}

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

 private:
  template <typename Answer>
  using Reply = OriginTransport::Reply<Answer>;
  using Traffic = OriginTransport::Traffic;

  // Sends a call that `apply` makes at the far end.
  template <typename Answer, typename Apply>
  void call(BridgeStep step, size_t entries, Traffic kind, Apply apply, Reply<Answer> reply);
  // The same without a reply.
  template <typename Apply>
  void tell(BridgeStep step, size_t entries, Apply apply);
  void note_applied(BridgeStep step) const;

  OriginTransport& transport_;
  BridgeStore& far_end_;
};

}  // namespace weir::sim

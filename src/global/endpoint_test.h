// The connection of one process to the origin of its region.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weir/origin.h"

namespace weir::global {

// An origin whose connection can be cut, like that of one process to a server.
class Endpoint final : public RegionalOrigin, public BridgeStore {
 public:
  explicit Endpoint(std::shared_ptr<RegionalOrigin> inner) : inner_(std::move(inner)) {}

  bool connected = true;
  bool hears_messages = true;
  bool accepts_updates = true;  // of the counts of regions
  uint64_t lost_data = 0;       // times that the store lost data
  uint32_t nodes = 1;           // of the region

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    if (!connected) return reply(unreachable());
    ++reads;
    inner_->read(std::move(cells), std::move(reply));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    if (!connected) return reply(unreachable());
    inner_->replay(std::move(cells), std::move(reply));
  }
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override {
    if (!connected) return reply(unreachable());
    inner_->retire(std::move(cells), std::move(reply));
  }
  [[nodiscard]] Reach reach() const override { return connected ? Reach::kPrompt : Reach::kNone; }
  [[nodiscard]] uint64_t epoch() const override { return lost_data; }
  [[nodiscard]] uint32_t live_nodes() const override { return nodes; }
  [[nodiscard]] BridgeStore* bridge_store() override { return this; }

  void acquire(std::string holder, Millis lease, GrantReply reply) override {
    if (!connected) return reply(unreachable());
    store().acquire(std::move(holder), lease, std::move(reply));
  }
  void release(std::string holder) override {
    if (connected) store().release(std::move(holder));
  }
  void save(std::string holder, std::string before, std::string state, SavedReply reply) override {
    if (!connected) return reply(unreachable());
    store().save(std::move(holder), std::move(before), std::move(state), std::move(reply));
  }
  void read_due(WallTime from, WallTime by, size_t most, DueReply reply) override {
    if (!connected) return reply(unreachable());
    store().read_due(from, by, most, std::move(reply));
  }
  void add_due(std::vector<DueTuple> entries) override {
    if (connected) store().add_due(std::move(entries));
  }
  void remove_due(std::vector<DueTuple> entries) override {
    if (connected) store().remove_due(std::move(entries));
  }
  void read_tuples(std::vector<TupleRead> tuples, TupleReply reply) override {
    if (!connected) return reply(unreachable());
    store().read_tuples(std::move(tuples), std::move(reply));
  }
  void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) override {
    if (!connected || !accepts_updates) return reply(unreachable());
    store().update_tuples(std::move(updates), std::move(reply));
  }
  void keep_record(std::string record, KeptReply reply) override {
    if (!connected) return reply(unreachable());
    store().keep_record(std::move(record), std::move(reply));
  }
  void read_records(RecordsReply reply) override {
    if (!connected) return reply(unreachable());
    store().read_records(std::move(reply));
  }
  void notify(std::string body) override {
    if (connected) store().notify(std::move(body));
  }
  [[nodiscard]] Subscription subscribe(BridgeMessageHandler handler) override {
    return store().subscribe([this, handler = std::move(handler)](BridgeMessage message) {
      if (connected && hears_messages) handler(std::move(message));
    });
  }

  uint64_t reads = 0;

 private:
  [[nodiscard]] BridgeStore& store() { return *inner_->bridge_store(); }
  [[nodiscard]] static Error unreachable() {
    return {.code = ErrorCode::kUnavailable,
            .retry = Retry::kMayHelp,
            .detail = "the origin cannot be reached"};
  }
  const std::shared_ptr<RegionalOrigin> inner_;
};

}  // namespace weir::global

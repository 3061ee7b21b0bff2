// Watchers that show the messages of one process to the monitor.

#pragma once

#include <memory>
#include <utility>

#include "sim/checkers/monitor.h"

namespace weir::sim {

class CheckedOriginWatcher : public LinkWatcher {
 public:
  CheckedOriginWatcher(Monitor& monitor, const Timeline& timeline, Node& node)
      : monitor_(monitor), timeline_(timeline), node_(node), process_(*node.process) {}

  void disrupted() override {
    process_.disruptions.push_back(timeline_.now().mono);
    monitor_.note_disruption();
  }
  void bridge_disrupted() override { monitor_.note_disruption(); }
  void notified(const BridgeMessage&) override { node_.touched = true; }
  void granted(bool ours) override { node_.is_bridge = ours; }
  void reconnected() override { monitor_.after_reconnect(node_, process_.number); }
  void sent(uint64_t message, const std::vector<CellReplay>& cells) override {
    monitor_.after_sent(node_, {.process = process_.number, .message = message, .cells = cells});
  }
  void stepping(uint64_t message, const std::vector<CellReplay>& cells) override {
    monitor_.after_sent(
        node_, {.process = process_.number, .message = message, .cells = cells, .by_step = true});
  }
  void received(uint64_t message, const std::vector<CellReplay>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    node_.touched = true;
    monitor_.after_received(
        node_,
        ReceivedReplay{.sent = {.process = process_.number, .message = message, .cells = cells},
                       .totals = totals});
  }
  void received(const std::vector<CellRead>& cells,
                const Result<std::vector<CellTotals>>& totals) override {
    node_.touched = true;
    monitor_.after_received(
        node_, ReceivedRead{.process = process_.number, .cells = cells, .totals = totals});
  }

 private:
  Monitor& monitor_;
  const Timeline& timeline_;
  Node& node_;
  ProcessInfo& process_;
};

class CheckedLedgerWatcher : public LedgerWatcher {
 public:
  explicit CheckedLedgerWatcher(Monitor& monitor) : monitor_(monitor) {}

  void disrupted() override { monitor_.note_disruption(); }
  void rejected(const std::vector<LedgerRow>& rows) override {
    for (const LedgerRow& row : rows) monitor_.conditions.rejected.insert(tuple_of(row.key));
  }

 private:
  Monitor& monitor_;
};

}  // namespace weir::sim

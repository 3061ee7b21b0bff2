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
  void reconnected() override { monitor_.after_reconnect(node_, process_.number); }
  void sent(uint64_t message, const std::vector<CellReplay>& cells) override {
    monitor_.after_sent(node_, {.process = process_.number, .message = message, .cells = cells});
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
  CheckedLedgerWatcher(Monitor& monitor, const Timeline& timeline,
                       std::shared_ptr<ImportLog> received)
      : monitor_(monitor), timeline_(timeline), received_(std::move(received)) {}

  void disrupted() override { monitor_.note_disruption(); }
  void rejected(const LedgerNews& news) override {
    for (const LedgerRow& row : news.rows) monitor_.conditions.rejected.insert(tuple_of(row.key));
  }
  void received(const LedgerNews& news) override {
    for (const LedgerRow& row : news.rows) {
      ImportLog::Row& known = received_->rows[{cell_of(row), row.region}];
      if (row.count > known.count) known.since = timeline_.now().mono;
      known.count = std::max(known.count, row.count);
      if (known.limit == 0 || row.limit_seen < known.limit) known.limit = row.limit_seen;
    }
    for (const LedgerPresence& presence : news.presences) {
      WallTime& until = received_->present[{tuple_of(presence.key), presence.region}];
      until = std::max(until, presence.until);
    }
  }

 private:
  Monitor& monitor_;
  const Timeline& timeline_;
  const std::shared_ptr<ImportLog> received_;
};

}  // namespace weir::sim

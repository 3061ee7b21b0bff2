// Shows every event of a simulation to the checkers. Worlds and fleets use the same monitor, so a
// fleet can run every checker of a world.
//
// The monitor holds the data that no node has: the oracle of each region, the history of the
// ledger, and a copy of each node's state after its last event. It changes nothing in the
// simulation: a run with checkers takes the same decisions as one without.
//
// The first violation ends the checking; later events may only follow from it.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/checkers/global_checker.h"
#include "sim/checkers/region_checker.h"
#include "sim/nodes/node.h"
#include "sim/stores/ledger_history.h"
#include "sim/stores/watched_ledger.h"
#include "sim/timeline.h"

namespace weir::sim {

// The state of the simulation as a whole; its owner keeps it up to date.
struct Conditions {
  bool fault_free = false;              // no fault is ever injected
  bool budget_limited = false;          // rows may have to wait for the budget
  bool failed_over = false;             // the ledger lost rows at some time
  bool no_room = false;                 // at some time a process had no capacity for remote rows
  std::set<std::string> rejected = {};  // tuples of which the ledger rejected a row
  std::optional<MonoTime> calm_since = {};  // no fault has any effect from then on
  std::optional<MonoTime> jumped_at = {};   // the last jump of all clocks
};

// Belongs to the timeline.
class Monitor {
 public:
  // Retries, the deadline of a ledger call and the delay of messages: after a disruption, bounds
  // on delays hold again after this.
  static constexpr Millis kRecovery{8000};

  // `only_checker` names the one checker to run; empty: all of them.
  Monitor(const Timeline& timeline, std::string only_checker);

  // Regions and nodes are numbered in the order they are added. All must outlive the monitor.
  // A region without an origin has one node; `origin` then stays empty.
  enum class Sharing : uint8_t { kOrigin, kNone };
  void add_region(const std::string& name, const OriginHistory& origin,
                  Sharing sharing = Sharing::kOrigin);
  void add_node(Node& node);
  // Runs the checkers of several regions, too. `delays` is called at each check.
  void watch_ledger(const WatchedLedger& ledger, std::function<Delays()> delays);

  // The node's engine exists.
  ProcessInfo& start_process(Node& node);

  // Events.
  void note_disruption();
  void clear_disruption() { disruption_began_.reset(); }
  void after_write(int region, const OriginWrite& write);
  void after_commit(const Committed& committed);
  void after_sent(const Node& node, const SentReplay& sent);
  void after_received(const Node& node, const ReceivedReplay& received);
  void after_received(const Node& node, const ReceivedRead& received);
  void after_reconnect(const Node& node, int process);
  // Completes the records of requests that one call answered, and adds them to the oracle.
  void record(const Node& node, std::vector<RequestRecord>& together);
  // To be called for each of them, after record().
  void after_answer(const Node& node, const RequestRecord& record,
                    const std::vector<RequestRecord>& together);
  // A call of this node ends now.
  void after_wait(const Node& node, MonoTime began);
  // A client has used all its settings. Its requests have no record.
  void after_changes(int region, const ChangedUse& use);
  // After each event of the timeline.
  void after_event();
  // Every kAuditEvery: the publish rule's state of each cell.
  static constexpr Millis kAuditEvery{100};
  void audit();
  // After an audit.
  void at_end();
  // Copies the state of each node that the current event touched.
  void refresh_views();
  // From here on nothing is checked.
  void stop() { stopped_ = true; }

  // Whether a request was counted in the sketch, where tuples share counters.
  [[nodiscard]] bool is_sketched(const RequestRecord& record) const;
  [[nodiscard]] Oracle& oracle(int region) { return at(region).oracle; }
  [[nodiscard]] RegionView view(int region) const;
  [[nodiscard]] const NodeView& view(const Node& node) const {
    return at(node.region).views[static_cast<size_t>(node.index)];
  }
  // "checker: text".
  [[nodiscard]] const std::optional<std::string>& violation() const { return violation_; }
  [[nodiscard]] MonoTime violated_at() const { return violated_at_; }

  Guarantees guarantees{};
  Conditions conditions{};

 private:
  struct Region {
    std::string name;
    const OriginHistory& origin;
    Oracle oracle{};
    std::vector<Node*> nodes{};
    std::vector<NodeView> views{};
    std::map<int, std::vector<RequestRecord>> ambiguous{};  // by node; see add_to_oracle()
    std::vector<std::unique_ptr<RegionChecker>> checkers{};
  };
  [[nodiscard]] Region& at(int region) const { return *regions_[static_cast<size_t>(region)]; }
  template <typename Visit>
  void for_each_node(const Visit& visit) const {
    for (const auto& region : regions_) {
      for (Node* const node : region->nodes) visit(*node, *region);
    }
  }
  // Requests that were decided together may be answered one after the other. So a charge that may
  // be of a replaced tuple is attributed again when others of the same instant are added.
  void add_to_oracle(const Node& node, std::vector<RequestRecord>& together);
  [[nodiscard]] GlobalView global_view() const;
  template <typename Checkers, typename Check>
  void run(const Checkers& checkers, const Check& check);
  template <typename Check>
  void check(int region, const Check& check);
  template <typename Check>
  void check_regions(const Check& check);
  template <typename Check>
  void check_global(const Check& check);

  const Timeline& timeline_;
  const std::string only_checker_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<RegionState> states_;
  const WatchedLedger* ledger_ = nullptr;
  std::function<Delays()> delays_;
  LedgerHistory history_;
  std::vector<std::unique_ptr<GlobalChecker>> global_checkers_;
  std::optional<MonoTime> disruption_began_;
  MonoTime last_disruption_{};
  std::optional<std::string> violation_;
  MonoTime violated_at_{};
  bool stopped_ = false;
};

}  // namespace weir::sim

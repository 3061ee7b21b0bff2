// Many processes in many regions that share limits through one ledger, under a virtual clock.
//
// The engines are those of production. The nodes of a region share an origin, all regions share a
// ledger, and all links have delays. The fleet knows every request, so it can compare the decisions
// of the nodes with the true counts. FaultInjector injects faults.
//
// One thread at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkers/monitor.h"
#include "sim/fleets/admission_log.h"
#include "sim/nodes/node.h"
#include "sim/random.h"
#include "sim/scenario/scenario.h"
#include "sim/stores/simulated_origin.h"
#include "sim/stores/watched_ledger.h"
#include "sim/timeline.h"

namespace weir::sim {

// Checkers excuse the windows that a clock further off than this showed.
inline constexpr Millis kWrongClock{2000};

// Runs every checker of a world on the fleet. Each event then costs far more, so this is for small
// fleets. The decisions stay the same.
struct FleetChecks {
  std::string only_checker = {};               // empty: all
  PlantedBug planted_bug = PlantedBug::kNone;  // in the links or stores, to test the checkers
  bool fault_free = false;                     // no fault is ever injected
  bool evicts = false;                         // there may be more keys than a table holds
  Millis max_clock_skew{0};                    // between any two clocks, or by setting one
  Millis extra_origin_delay{0};                // that faults add to a message, one way
};

struct FleetOptions {
  uint64_t seed = 1;
  std::vector<RegionPlan> regions;
  FleetSettings settings{};
  std::vector<ClockShape> clocks = {};
  std::optional<FleetChecks> checks = {};
  // Real time, to measure the CPU cost of sharing.
  std::function<Nanos()> stopwatch = {};
};

// Calls of a ledger.
struct LedgerLoad {
  uint64_t rows = 0;     // written
  uint64_t batches = 0;  // of rows, written
  uint64_t rows_read = 0;

  LedgerLoad& operator+=(const LedgerLoad& other);
  friend LedgerLoad operator-(const LedgerLoad& a, const LedgerLoad& b);
};

// The requests of a region and their results, and the commands to its origin.
struct RegionLoad {
  uint64_t offered = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t degraded = 0;         // of those answers
  uint64_t unanswered = 0;       // no node served, or its process ended
  uint64_t false_denials = 0;    // although the request fitted the true counts
  uint64_t origin_commands = 0;  // two for each replayed cell, one for each cell read
  uint64_t bridge_commands = 0;  // one for each tuple read or updated, and for each other call
  uint64_t bridge_updates = 0;   // of these, one for each tuple updated
  uint64_t message_bytes = 0;    // of messages of the bridge that reached a process
};

struct FleetAnswer {
  size_t key = 0;
  uint32_t node = 0;
  uint32_t region = 0;
  Count cost = 0;
  WallTime requested_at{};  // by the node's clock
  const Verdict& verdict;
};

class Fleet {
 public:
  explicit Fleet(const FleetOptions& options);
  ~Fleet();

  size_t add(FleetKey key) { return admissions_.add(std::move(key)); }
  // Sends a request to any node of the region.
  void send(size_t key, uint32_t region, Count cost = 1);
  // The same for a key that gets no further request. on_answer() does not see the verdict.
  void send_once(const FleetKey& key, uint32_t region);
  // Called with each answer to send().
  void on_answer(std::function<void(const FleetAnswer&)> watch) { on_answer_ = std::move(watch); }

  // Runs for this time in steps of a millisecond, and calls `each` in each of them.
  void run_for(
      Millis span, const std::function<void()>& each = [] {});
  [[nodiscard]] Millis elapsed() const { return elapsed_; }
  [[nodiscard]] Instant now() const { return timeline_.now(); }
  [[nodiscard]] Timeline& timeline() { return timeline_; }

  // From here on cells, delays and the CPU cost of sharing are recorded.
  void begin_measuring();
  [[nodiscard]] const AdmissionLog& admissions() const { return admissions_; }
  [[nodiscard]] LedgerLoad load() const;  // of all regions
  [[nodiscard]] const RegionLoad& region_load(uint32_t region) const { return loads_[region]; }
  [[nodiscard]] Nanos sync_time() const { return sync_time_; }
  [[nodiscard]] SyncStats sync_stats(uint32_t node) const;
  [[nodiscard]] uint64_t events() const { return events_; }
  // Of every answer and every commit, in order.
  [[nodiscard]] uint64_t fingerprint() const { return fingerprint_; }
  // Accepted cost that was not acknowledged when its process was killed.
  [[nodiscard]] Count lost_with_nodes() const { return lost_with_nodes_; }

  [[nodiscard]] uint32_t nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  [[nodiscard]] Node& node(uint32_t number) { return *nodes_[number]; }
  [[nodiscard]] uint32_t regions() const { return static_cast<uint32_t>(plans_.size()); }
  [[nodiscard]] const RegionPlan& region(uint32_t number) const { return plans_[number]; }
  [[nodiscard]] const std::vector<uint32_t>& nodes_of(uint32_t region) const {
    return of_region_[region];
  }
  [[nodiscard]] const FleetSettings& settings() const { return options_.settings; }

  void start_process(Node& node);
  void kill(Node& node);
  void drain(Node& node);  // takes no more requests; ends when all counts are acknowledged
  // Sets the clock of a node to this offset.
  void set_clock(Node& node, Millis skew);
  // A replica that has the commits up to `as_of` replaces the ledger.
  void fail_over_ledger(MonoTime as_of);
  // The links to the stores without faults.
  [[nodiscard]] LinkFaults normal_origin_link(const Node& node) const;
  [[nodiscard]] LedgerFaults normal_ledger_link(const Node& node) const;
  [[nodiscard]] SimulatedOrigin& origin(uint32_t region) { return *origins_[region]; }
  [[nodiscard]] WatchedLedger& ledger() { return *ledger_; }

  // Checks. All do nothing without FleetOptions::checks.
  void note_disruption();  // a fault begins or ends
  void note_calm();        // the last fault has ended
  // Probes all nodes until they must agree, then runs the checks of the end. To be called last.
  void check_convergence();
  // The first violation that a checker found: "checker: text".
  [[nodiscard]] std::optional<std::string> violation() const;

  // The longest time from an admission that must be published until every region knows it.
  [[nodiscard]] Millis longest_delay() const;

 private:
  // In larger fleets, the delays of one process in each region stand for those of all.
  static constexpr uint32_t kMaxSampledNodes = 64;

  class OriginWatcher;
  class LedgerLoadWatcher;

  [[nodiscard]] Node* any_of(uint32_t region);
  void tick();
  void run_iteration(Node& node);
  void continue_draining(Node& node);
  void end(Node& node, ProcessInfo::Exit exit);
  void heartbeat(Node& node);
  void measure_delays(const Node& node, const BridgeMessage& message);
  void make_monitor();
  void audit();
  void probe_all();
  void send_to(Node& node, size_t key, Count cost);
  [[nodiscard]] RequestRecord record_of(const Node& node, const Request& request) const;
  void check_answer(Node& node, RequestRecord record, const Verdict& verdict);
  [[nodiscard]] bool exact_had_capacity(const FleetAnswer& answer);
  void answer(const FleetAnswer& answer);
  void mix(uint64_t number) { fingerprint_ = (fingerprint_ ^ number) * 0x100000001b3ULL; }

  const FleetOptions options_;
  const std::vector<RegionPlan>& plans_;
  Timeline timeline_;
  Random random_;
  std::unique_ptr<WatchedLedger> ledger_;
  std::vector<std::unique_ptr<SimulatedOrigin>> origins_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::vector<uint32_t>> of_region_;  // nodes
  std::unique_ptr<Monitor> monitor_;              // none: nothing is checked
  std::map<std::string, uint32_t> by_region_name_;
  // Of all processes: messages that they sent still arrive.
  std::vector<std::shared_ptr<OriginLink>> links_;
  std::vector<std::shared_ptr<LedgerLink>> ledger_links_;
  std::vector<std::shared_ptr<ProcessExecutor>> executors_;
  // Counts every admission at once.
  std::shared_ptr<decide::Engine> exact_;
  AdmissionLog admissions_;
  std::vector<RegionLoad> loads_;
  std::vector<LedgerLoad> ledger_loads_;
  std::function<void(const FleetAnswer&)> on_answer_;
  const std::function<void()>* each_ = nullptr;
  Millis elapsed_{0};
  bool over_ = false;
  uint64_t events_ = 0;
  uint64_t fingerprint_ = 0xcbf29ce484222325ULL;
  Count lost_with_nodes_ = 0;
  Nanos sync_time_{0};
};

}  // namespace weir::sim

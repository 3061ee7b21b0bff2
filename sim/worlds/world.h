// A small deployment drawn from one seed: production limiters in regions with one origin each and
// one ledger between them, lossy networks, processes that are killed, stores that fail, and
// traffic.
// Runs until a checker finds a violation or the time is up; then all faults end, and the checkers
// test whether all nodes agree.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/checkers/monitor.h"
#include "sim/faults/planted_bug.h"
#include "sim/faults/world_fault.h"
#include "sim/nodes/node.h"
#include "sim/random.h"
#include "sim/stores/watched_ledger.h"
#include "sim/stores/watched_origin.h"
#include "sim/timeline.h"
#include "sim/worlds/coverage.h"
#include "sim/worlds/region.h"

namespace weir::sim {

// The size of each process's tuple table.
enum class TableSize : uint8_t {
  kLarge,
  kSmall,  // tuples without a second request evict others while their windows last
};

// Faults of wall clocks, besides small differences and steps.
enum class ClockFault : uint8_t {
  kNone,
  kHours,  // one clock is set hours ahead or back, and corrected later
  kJumps,  // all clocks are set ahead together, over 2^16 to 2^32 windows of one tuple
};

enum class FaultMode : uint8_t {
  kRandom,
  kNone,  // messages have delays, but no fault is injected
};

struct WorldOptions {
  uint64_t seed = 1;
  int regions = 0;            // 0: one to three; a single one has no ledger
  int nodes = 0;              // of a region; 0: two to four, or one to three with several regions
  Millis fault_time{20'000};  // how long faults are injected
  FaultMode faults = FaultMode::kRandom;
  bool limits_differ = false;  // regions always have different limits for the first tuple
  Millis max_region_skew{0};   // at most, between the clocks of two regions
  int visitors = 0;  // clients that stay away once they were denied; with several regions only
  TableSize table = TableSize::kLarge;
  int remote_tuples = 0;          // capacity of a process that is its own bridge; 0: enough
  bool small_row_budget = false;  // few rows per second are allowed; else drawn
  bool tenants = false;           // busy tuples of one namespace and quiet ones of another
  bool kills_after_ack = false;   // processes are killed after an acknowledged replay
  bool kills_bridges = false;     // bridges are killed at any step of their work
  bool feed_gaps = false;         // many batches are missing from the feeds
  bool bursts = false;            // the same burst on all nodes of a region, now and then
  int without_origin = 0;         // regions, the last ones: one process each, which has no origin
  ClockFault clock = ClockFault::kNone;
  bool steps_back = false;        // one clock is often set back over the start of a window
  bool ledger_trouble = false;    // the ledger often rejects rows and cuts imports
  bool fails_over_often = false;  // the ledger
  bool pauses_bridges = false;    // bridges often do not run for a while
  bool all_algorithms = false;    // also tuples of algorithms that each process counts by itself
  bool changes_settings = false;  // clients whose algorithm and duration change
  bool relaxed = false;           // requests on some tuples are relaxed, or some of these requests
  Millis read_deadline{300};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  int tuples = 4;                    // that get requests, 1 to 4
  WorldFaults disabled_faults = {};  // kinds of faults that are not injected
  PlantedBug planted_bug = PlantedBug::kNone;
  std::string only_checker = {};  // the name of the only checker to run; empty: all
};

struct RunReport {
  std::optional<std::string> broken;  // "checker: text" of the first violation
  Millis broken_after{0};             // since the start
  Millis lasted{0};                   // simulated time
  int regions = 0;
  int nodes = 0;             // in the largest region
  uint64_t fingerprint = 0;  // of all events, in order
  uint64_t events = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t processes = 0;  // started
  uint64_t rows = 0;       // written to the ledger
  uint64_t evicted = 0;    // tuples, because the table was full
  uint64_t sketched = 0;   // answers for tuples that did not fit in the table
  uint64_t left_out = 0;   // counts of other regions that did not fit
  Nanos delay{0};          // from one region to another, without faults
  // Of cells that were live at the end: accepted counts, and those of them that cannot be
  // recovered.
  Count accepted = 0;
  Count died_unacked = 0;
  Count lost_with_origin = 0;
  std::map<Coverage, uint64_t> coverage;
  std::vector<std::string> last_events;  // before the violation
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  [[nodiscard]] RunReport run();

 private:
  static constexpr Millis kProbeEvery{100};  // after faults have ended
  static constexpr Millis kOneTimeWindow{5000};

  // The consistency of the requests on a tuple.
  enum class Asked : uint8_t {
    kConverge,
    kRelaxed,
    kMixed,  // each request draws one of the two
  };
  // A tuple that gets many requests.
  struct Tuple {
    std::string identifier;
    Millis duration{0};
    Count limit = 0;
    Algorithm algorithm = Algorithm::kSlidingWindow;
    Count other_limit = 0;  // the limit in all regions but the first
    std::string ns = "sim";
    Asked asked = Asked::kConverge;

    [[nodiscard]] Count limit_in(int region) const { return region == 0 ? limit : other_limit; }
  };
  struct ChangingClient;
  class NodeOriginWatcher;
  class NodeLedgerWatcher;

  void make_region();
  void make_tuples();
  void draw_consistencies();
  void make_ledger();

  // Traffic (traffic.cc).
  void schedule_traffic();
  void schedule_probes();
  void send_request(Node& node, const Tuple& tuple, Count cost);
  void send_batch(Node& node);
  void send_one_time_request(Node& node);
  [[nodiscard]] const Tuple& random_tuple();
  void schedule_visit();
  void schedule_bursts();
  void visit(Node& node);
  void complete(Node& node, std::vector<RequestRecord> records, const std::string& what);
  void cover_answer(const Node& node, const RequestRecord& record);
  void cover_exact_answer(const Node& node, const RequestRecord& record);
  void cover_relaxed(const std::vector<RequestRecord>& records);
  [[nodiscard]] Request request_of(const Node& node, const Tuple& tuple, Count cost);
  [[nodiscard]] RequestRecord make_record(const Node& node, const Request& request) const;
  [[nodiscard]] Node* any_serving_node();
  void choose_load();

  // Clients whose settings change (changing_clients.cc).
  void schedule_changing_clients();
  void use_settings(const std::shared_ptr<ChangingClient>& client, size_t stage);
  void send_by_settings(Node& node, const std::shared_ptr<ChangingClient>& client, size_t stage);
  void check_changes(const ChangingClient& client);

  // Processes (node_lifecycle.cc).
  void start_process(Node& node);
  void end_process(Node& node, ProcessInfo::Exit exit);
  void stop(Node& node);
  void release_all();
  void kill(Node& node);
  void maybe_kill_after_ack(Node& node);
  // The bridge has just sent a call, or a store has applied it.
  void maybe_kill_bridge(Node& node, BridgeStep step);
  void pause(Node& node, Millis how_long);
  [[nodiscard]] Node* any_bridge();
  void drain(Node& node);
  void schedule_replay(Node& node, int process);
  void schedule_sync(Node& node, int process);
  void connect_ledger(Node& node, int process);
  void schedule_heartbeat(Node& node);
  void schedule_sweep(Node& node);

  // Faults (fault_schedule.cc).
  void schedule_fault();
  void schedule_final_disconnects();
  void inject_node_fault();
  void inject_origin_fault();
  void inject_ledger_fault();
  void inject_bridge_fault();
  void start_ledger_outage(Connectivity connectivity, Millis lasts);
  void start_region_outage(Region& region, Connectivity connectivity, Millis lasts);
  void reject_rows_of_a_tuple();
  void schedule_rejected_rows();
  void schedule_bridge_pauses();
  void pause_a_bridge();
  [[nodiscard]] bool happens(WorldFault kind) const {
    return options_.disabled_faults.count(kind) == 0;
  }
  void drop_connection(Node& node, Millis late);
  void isolate(Node& node);
  void schedule_clock();
  void set_clock(Millis skew);
  void schedule_wrong_clock();
  void set_wrong_clock(Node& node, Millis skew);
  void correct_clock(Node& node);
  void schedule_clock_jump();
  void start_origin_outage(Region& region, Connectivity connectivity, Millis lasts,
                           const std::function<void()>& then);
  void update_connectivity();
  void reconnect_all(Region& region);
  void slow_down(Region& region);
  void stop_faults();

  void run_until(MonoTime end);
  void note_violation();
  void schedule_audit();
  void audit();
  void on_commit(const Committed& committed);
  [[nodiscard]] Delays delays() const;
  template <typename Visit>
  void for_each_node(const Visit& visit) const {
    for (const auto& region : regions_) {
      for (const auto& node : region->nodes) visit(*node);
    }
  }
  [[nodiscard]] Region& region_of(const Node& node) const {
    return *regions_[static_cast<size_t>(node.region)];
  }
  [[nodiscard]] Region& any_region();
  [[nodiscard]] bool is_awake(const Node& node) const {
    return node.serves() && !node.is_paused(timeline_.now().mono);
  }
  void note(const std::string& what, uint64_t value = 0);
  void cover(Coverage state) { ++report_.coverage[state]; }
  void summarize();

  WorldOptions options_;
  Random random_;
  Timeline timeline_;
  const MonoTime began_ = timeline_.now().mono;
  Monitor monitor_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::unique_ptr<WatchedLedger> ledger_;  // none: there is one region
  // Of all processes: messages that they sent still arrive.
  std::vector<std::shared_ptr<OriginLink>> links_;
  std::vector<std::shared_ptr<LedgerLink>> ledger_links_;
  std::vector<Tuple> tuples_;  // shared ones first
  RunReport report_;

  Millis replay_within_{250};
  Millis max_fault_gap_{0};
  Node* stepping_node_ = nullptr;  // its clock is set now and then
  Connectivity ledger_connectivity_ = Connectivity::kUp;
  std::optional<int> busy_region_;  // the only region that gets requests now
  bool idle_ = false;               // no region does
  MonoTime load_until_{};
  int one_time_requests_ = 0;
  int changing_clients_ = 0;
  std::vector<std::pair<Node*, Tuple>> visitors_;
  bool active_ = true;
  bool probing_ = true;
  bool over_ = false;
};

}  // namespace weir::sim

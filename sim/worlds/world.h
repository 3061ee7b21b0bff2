// Regions in a box: production limiters on one origin each and one ledger between them, networks
// that lose things, processes that die, stores that fail, and traffic, all drawn from one seed.
// Runs until something breaks or the time is up, then calms down and looks whether everyone
// agrees.

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

// In the tables of processes.
enum class TableSize : uint8_t {
  kLarge,
  kSmall,  // tuples that nobody asks for again crowd out others while their windows last
};

// What happens to wall clocks, beside small differences and steps.
enum class ClockFault : uint8_t {
  kNone,
  kHours,  // one is set hours ahead or back, and right again
  kJumps,  // all are set ahead together, over 2^16 to 2^32 windows of one tuple
};

enum class FaultMode : uint8_t {
  kRandom,
  kNone,  // messages take their time, and nothing else goes wrong
};

struct WorldOptions {
  uint64_t seed = 1;
  int regions = 0;            // 0: one to three; a lone one has no ledger
  int nodes = 0;              // of a region; 0: two to four, one to three where there are regions
  Millis fault_time{20'000};  // time with faults
  FaultMode faults = FaultMode::kRandom;
  bool limits_differ = false;  // regions differ in the limit of the first tuple, whatever is drawn
  Millis max_region_skew{0};   // at most, the clocks of one region from those of another
  int visitors = 0;  // that come twice and, once they were refused, never again; with regions only
  TableSize table = TableSize::kLarge;
  int remote_tuples = 0;          // of which a process has room for others' counts; 0: enough
  bool small_row_budget = false;  // allowed in a second; else drawn
  bool tenants = false;           // busy tuples of one namespace beside quiet ones of another
  bool kills_after_ack = false;   // processes die when the origin has acknowledged
  ClockFault clock = ClockFault::kNone;
  bool all_algorithms = false;  // tuples that each process counts by itself, too
  Millis read_deadline{300};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  int tuples = 4;                    // that are asked for, 1 to 4
  WorldFaults disabled_faults = {};  // kinds of misfortune that do not happen
  PlantedBug planted_bug = PlantedBug::kNone;
  std::string only_checker = {};  // the name of the one checker that looks; empty: all do
};

struct RunReport {
  std::optional<std::string> broken;  // the first invariant broken, and how
  Millis broken_after{0};             // the beginning
  Millis lasted{0};                   // the world, in its own time
  int regions = 0;                    // there were
  int nodes = 0;                      // in the largest of them
  uint64_t fingerprint = 0;           // of everything that happened, in order
  uint64_t events = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t processes = 0;  // of processes
  uint64_t rows = 0;       // written to the ledger
  uint64_t evicted = 0;    // tuples, for want of room
  uint64_t sketched = 0;   // answers on tuples that there was no room for
  uint64_t no_room = 0;    // rows of others that there was no room for
  Nanos delay{0};          // from one region to another where nothing goes wrong
  // Of cells that still mattered at the end: what was accepted, and of that what nobody can
  // tell any more.
  Count accepted = 0;
  Count died_unacked = 0;
  Count lost_with_origin = 0;
  std::map<Coverage, uint64_t> coverage;
  std::vector<std::string> last_events;  // what led to the fault
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  [[nodiscard]] RunReport run();

 private:
  static constexpr Millis kProbeEvery{100};  // in calm
  static constexpr Millis kOneTimeWindow{5000};

  // What is asked for, again and again.
  struct Tuple {
    std::string identifier;
    Millis duration{0};
    int64_t limit = 0;
    Algorithm algorithm = Algorithm::kSlidingWindow;
    int64_t other_limit = 0;  // what other regions than the first ask with
    std::string ns = "sim";

    [[nodiscard]] int64_t limit_in(int region) const { return region == 0 ? limit : other_limit; }
  };
  class NodeOriginWatcher;

  void make_region();
  void make_tuples();
  void make_ledger();

  // Traffic (asking.cc).
  void schedule_traffic();
  void schedule_probes();
  void send_request(Node& node, const Tuple& tuple, Count cost);
  void send_batch(Node& node);
  void send_one_time_request(Node& node);
  [[nodiscard]] const Tuple& random_tuple();
  void schedule_visit();
  void visit(Node& node);
  void answer(Node& node, std::vector<RequestRecord> records, const std::string& what);
  void cover_answer(const Node& node, const RequestRecord& record);
  [[nodiscard]] Request request_of(const Node& node, const Tuple& tuple, Count cost) const;
  [[nodiscard]] RequestRecord make_record(const Node& node, const Tuple& tuple, Count cost) const;
  [[nodiscard]] Node* any_serving_node();
  void choose_load();

  // Life and death (lives.cc).
  void start_process(Node& node);
  void end_process(Node& node, ProcessInfo::Exit exit);
  void stop(Node& node);
  void release_all();
  void kill(Node& node);
  void maybe_kill_after_ack(Node& node);
  void drain(Node& node);
  void schedule_replay(Node& node, int process);
  void schedule_sync(Node& node, int process);
  void connect_ledger(Node& node, int process);
  void schedule_heartbeat(Node& node);
  void schedule_sweep(Node& node);

  // What goes wrong (storm.cc).
  void schedule_fault();
  void schedule_final_disconnects();
  void inject_node_fault();
  void inject_origin_fault();
  void inject_ledger_fault();
  void start_ledger_outage(Connectivity connectivity, Millis lasts);
  void start_region_outage(Region& region, Connectivity connectivity, Millis lasts);
  void reject_rows_of_a_tuple();
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
  void note(const std::string& what, uint64_t value = 0);
  void cover(Coverage state) { ++report_.coverage[state]; }
  void summarize();

  WorldOptions options_;
  Random random_;
  Timeline timeline_;
  const MonoTime began_ = timeline_.now().mono;
  Monitor monitor_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::unique_ptr<WatchedLedger> ledger_;  // none: a lone region
  // Of all lives: what was sent still arrives.
  std::vector<std::shared_ptr<OriginLink>> links_;
  std::vector<std::shared_ptr<LedgerLink>> ledger_links_;
  std::vector<Tuple> tuples_;  // shared ones first
  RunReport report_;

  Millis replay_within_{250};
  Millis max_fault_gap_{0};
  Node* stepping_node_ = nullptr;  // its clock is set now and then
  Connectivity ledger_connectivity_ = Connectivity::kUp;
  std::optional<int> busy_region_;  // the only region that is asked now
  bool idle_ = false;               // nobody is
  MonoTime load_until_{};
  int one_time_requests_ = 0;  // so far
  std::vector<std::pair<Node*, Tuple>> visitors_;
  bool active_ = true;
  bool probing_ = true;
  bool over_ = false;
};

}  // namespace weir::sim

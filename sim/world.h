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

#include "sim/checker.h"
#include "sim/fleet_checker.h"
#include "sim/mark.h"
#include "sim/node.h"
#include "sim/plant.h"
#include "sim/random.h"
#include "sim/region.h"
#include "sim/timeline.h"
#include "sim/watched_ledger.h"
#include "sim/watched_origin.h"
#include "sim/world_fault.h"

namespace weir::sim {

// In the tables of processes.
enum class Room : uint8_t {
  kEnough,
  kScarce,  // tuples that nobody asks for again crowd out others while their windows last
};

// What happens to wall clocks, beside small differences and steps.
enum class ClockFault : uint8_t {
  kNone,
  kHours,  // one is set hours ahead or back, and right again
  kLeaps,  // all are set ahead together, over 2^16 to 2^32 windows of one tuple
};

enum class Weather : uint8_t {
  kStormy,
  kFair,  // messages take their time, and nothing else goes wrong
};

struct WorldOptions {
  uint64_t seed = 1;
  int regions = 0;        // 0: one to three; a lone one has no ledger
  int nodes = 0;          // of a region; 0: two to four, one to three where there are regions
  Millis stormy{20'000};  // time with faults
  Weather weather = Weather::kStormy;
  bool limits_differ = false;  // regions differ in the limit of the first tuple, whatever is drawn
  Millis regions_apart{0};     // at most, the clocks of one region from those of another
  int visitors = 0;  // that come twice and, once they were refused, never again; with regions only
  Room room = Room::kEnough;
  int remote_tuples = 0;             // of which a process has room for others' counts; 0: enough
  bool few_rows = false;             // allowed in a second; else drawn
  bool tenants = false;              // busy tuples of one namespace beside quiet ones of another
  bool kills_after_telling = false;  // processes die when the origin has acknowledged
  ClockFault clock = ClockFault::kNone;
  bool all_algorithms = false;  // tuples that each process counts by itself, too
  Millis read_deadline{300};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  int tuples = 4;            // that are asked for, 1 to 4
  WorldFaults without = {};  // kinds of misfortune that do not happen
  Plant plant = Plant::kNone;
  std::string only = {};  // the name of the one checker that looks; empty: all do
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
  uint64_t lives = 0;     // of processes
  uint64_t rows = 0;      // written to the ledger
  uint64_t evicted = 0;   // tuples, for want of room
  uint64_t sketched = 0;  // answers on tuples that there was no room for
  uint64_t no_room = 0;   // rows of others that there was no room for
  Nanos delay{0};         // from one region to another where nothing goes wrong
  // Of cells that still mattered at the end: what was accepted, and of that what nobody can
  // tell any more.
  Count accepted = 0;
  Count died_unacked = 0;
  Count lost_with_origin = 0;
  std::map<Mark, uint64_t> marks;
  std::vector<std::string> last_events;  // what led to the fault
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  [[nodiscard]] RunReport run();

 private:
  // The deadline of whatever is asked of the ledger, trying again, and news on its way.
  static constexpr Millis kRecovery{8000};
  static constexpr Millis kAskEvery{100};  // in calm
  static constexpr Millis kReplayEvery{10};
  static constexpr Millis kPasserWindow{5000};

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
  class Watcher;
  class AbroadWatcher;

  void make_region();
  void make_tuples();
  void make_ledger();

  // Traffic (asking.cc).
  void schedule_traffic();
  void schedule_asking();
  void ask_one(Node& node, const Tuple& tuple, Count cost);
  void ask_batch(Node& node);
  void pass_by(Node& node);
  [[nodiscard]] const Tuple& any_tuple();
  void schedule_visit();
  void visit(Node& node);
  [[nodiscard]] bool is_sketched(const Answered& answered) const;
  void answer(Node& node, std::vector<Answered> answers, const std::string& what);
  void mark_answer(const Node& node, const Answered& answered);
  [[nodiscard]] Request request_of(const Node& node, const Tuple& tuple, Count cost) const;
  [[nodiscard]] Answered question(const Node& node, const Tuple& tuple, Count cost) const;
  [[nodiscard]] Node* any_that_serves();
  void choose_mood();

  // Life and death (lives.cc).
  void begin_life(Node& node);
  void end_life(Node& node, Life::End how);
  void stop(Node& node);
  void unlock_head();
  void kill(Node& node);
  void consider_killing(Node& node);
  void drain(Node& node);
  void schedule_replay(Node& node, int life);
  void schedule_sync(Node& node, int life);
  void connect_ledger(Node& node, int life);
  void schedule_beat(Node& node);
  void schedule_sweep(Node& node);

  // What goes wrong (storm.cc).
  void schedule_misfortune();
  void schedule_last_deaths();
  void trouble_a_node();
  void trouble_the_origin();
  void trouble_the_ledger();
  void ledger_is_out(Road road, Millis lasts);
  void region_is_cut_off(Region& region, Road road, Millis lasts);
  void blame_a_tuple();
  void note_trouble();
  [[nodiscard]] bool happens(WorldFault kind) const { return options_.without.count(kind) == 0; }
  void let_connection_die(Node& node, Millis late);
  void isolate(Node& node);
  void schedule_clock();
  void set_clock(Millis skew);
  void schedule_astray();
  void set_astray(Node& node, Millis skew);
  void set_right(Node& node);
  void schedule_leap();
  void origin_is_out(Region& region, Road road, Millis lasts, const std::function<void()>& then);
  void set_reach();
  void reconnect_all(Region& region);
  void slow_down(Region& region);
  void make_calm();

  void run_until(MonoTime end);
  void look();
  void schedule_audit();
  void audit();
  [[nodiscard]] WorldView view(const Region& region) const;
  void check(const Region& region, const std::function<Checker::Fault(Checker&)>& ask);
  void check_everywhere(const std::function<Checker::Fault(Checker&, const WorldView&)>& ask);
  [[nodiscard]] FleetView fleet() const;
  void check_fleet(const std::function<Checker::Fault(FleetChecker&, const FleetView&)>& ask);
  void witness_commit(const Committed& committed);
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
  void break_by(std::string_view checker, const std::string& fault);
  void mark(Mark mark) { ++report_.marks[mark]; }
  void sum_up();

  WorldOptions options_;
  Random random_;
  Timeline timeline_;
  const MonoTime began_ = timeline_.now().mono;
  Promises promises_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::unique_ptr<WatchedLedger> ledger_;  // none: a lone region
  LedgerHistory history_;
  // Of all lives: what was sent still arrives.
  std::vector<std::shared_ptr<LossyLink>> links_;
  std::vector<std::shared_ptr<LedgerLink>> ledger_links_;
  std::vector<Tuple> tuples_;  // shared ones first
  std::vector<std::unique_ptr<FleetChecker>> fleet_checkers_;
  std::vector<RegionView> region_views_;
  RunReport report_;

  Millis replay_within_{250};
  Millis most_between_misfortunes_{0};
  Node* unsteady_ = nullptr;  // its clock is set now and then
  Road ledger_road_ = Road::kOpen;
  std::optional<int> busy_;  // the only region that is asked now
  bool quiet_ = false;       // nobody is
  MonoTime mood_until_{};
  std::set<std::string> blamed_;
  std::optional<MonoTime> trouble_began_;
  MonoTime last_trouble_{};
  int passers_ = 0;  // so far
  std::vector<std::pair<Node*, Tuple>> visitors_;
  bool scarce_ = false;
  bool failed_over_ = false;
  bool no_room_ = false;
  std::optional<MonoTime> leapt_;  // all clocks, last
  bool stormy_ = true;
  bool asking_ = true;
  bool over_ = false;
  std::optional<MonoTime> calm_since_;
};

}  // namespace weir::sim

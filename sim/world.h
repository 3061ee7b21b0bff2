// A region in a box: production limiters on one origin, a network that loses things,
// processes that die, an origin that fails, and traffic, all drawn from one seed. Runs until
// something breaks or the time is up, then calms down and looks whether everyone agrees.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/node.h"
#include "sim/plant.h"
#include "sim/random.h"
#include "sim/timeline.h"
#include "sim/watched_origin.h"

namespace weir::sim {

struct WorldOptions {
  uint64_t seed = 1;
  int nodes = 0;          // 0: two to four
  Millis stormy{20'000};  // time with faults
  Plant plant = Plant::kNone;
};

// Interesting states a run has been in; a suite that never reaches one proves little.
enum class Mark : uint8_t {
  kDeniedBySiblingsOnly,
  kDegradedVerdict,
  kReadAcrossRollOver,
  kReplayAppliedButReplyLost,
  kBatchRefused,
  kMessageRepeated,
  kKilledWithUntoldCounts,
  kRestarted,
  kIsolatedNodeDecided,
  kDrained,
  kEmptyOriginHealed,
  kOldSnapshotHealed,
  kLaggingReplicaHealed,
  kLateWriteHealed,
  kRefusingOutageSurvived,
  kSilentOutageSurvived,
  kSlowReply,
  kDecidedWithClockSetBack,
  kLimitExceededInFlight,
  kTupleForgotten,
  kCount,
};
[[nodiscard]] std::string_view to_string(Mark mark);

struct RunReport {
  std::optional<std::string> broken;  // the first invariant broken, and how
  uint64_t fingerprint = 0;           // of everything that happened, in order
  uint64_t events = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t lives = 0;  // of processes
  // Of cells that still mattered at the end: what was accepted, and of that what nobody can
  // tell any more.
  Count accepted = 0;
  Count died_untold = 0;
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
  struct Tuple;
  class Watcher;

  // Traffic.
  void schedule_traffic();
  void schedule_asking();
  void ask_one(Node& node, const Tuple& tuple, Count cost);
  void ask_batch(Node& node);
  void answer(Node& node, std::vector<Answered> answers, const std::string& what);
  void mark_answer(const Node& node, const Answered& answered);
  [[nodiscard]] Request request_of(const Tuple& tuple, Count cost) const;
  [[nodiscard]] Answered question(const Node& node, const Tuple& tuple, Count cost) const;
  [[nodiscard]] Node* any_that_serves();

  // Life and death (lives.cc).
  void begin_life(Node& node);
  void end_life(Node& node, Life::End how);
  void stop(Node& node);
  void let_go();
  void kill(Node& node);
  void drain(Node& node);
  void schedule_replay(Node& node, int life);
  void schedule_beat(Node& node);
  void schedule_sweep(Node& node);

  // What goes wrong (storm.cc).
  void schedule_misfortune();
  void schedule_last_deaths();
  void trouble_a_node();
  void trouble_the_origin();
  void let_connection_die(Node& node, Millis late);
  void isolate(Node& node);
  void schedule_clock();
  void set_clock(Millis skew);
  void origin_is_out(Road road, Millis lasts, const std::function<void()>& then);
  void set_reach();
  void reconnect_all();
  void slow_down();
  void make_calm();

  void run_until(MonoTime end);
  void look();
  [[nodiscard]] WorldView view() const;
  void check(const std::function<Checker::Fault(Checker&)>& ask);
  void note(const std::string& what, uint64_t value = 0);
  void mark(Mark mark) { ++report_.marks[mark]; }
  void sum_up();

  WorldOptions options_;
  Random random_;
  Timeline timeline_;
  Promises promises_;
  WatchedOrigin origin_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::shared_ptr<LossyLink>> links_;  // of all lives: what was sent still arrives
  std::vector<Tuple> tuples_;
  std::vector<std::unique_ptr<Checker>> checkers_ = all_checkers();
  std::vector<NodeView> views_;
  Truth truth_;
  RunReport report_;

  Millis replay_within_{250};
  Millis most_between_misfortunes_{0};
  Node* unsteady_ = nullptr;  // its clock is set now and then
  Road origin_road_ = Road::kOpen;
  bool stormy_ = true;
  bool asking_ = true;
  bool over_ = false;
  std::optional<MonoTime> calm_since_;
};

}  // namespace weir::sim

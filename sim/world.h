// A region in a box: production limiters on one origin, a network that loses things, and
// traffic, all drawn from one seed. Runs until something breaks or the time is up, then
// calms down and looks whether everyone agrees.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "limiter/engine.h"
#include "sim/checker.h"
#include "sim/lossy_link.h"
#include "sim/random.h"
#include "sim/timeline.h"
#include "sim/watched_origin.h"

namespace weir::sim {

struct WorldOptions {
  uint64_t seed = 1;
  int nodes = 2;
  Millis stormy{20'000};  // time with faults
  Millis calm{20'000};    // time without, at the end
};

// Interesting states a run has been in; a suite that never reaches one proves little.
enum class Mark : uint8_t {
  kDeniedBySiblingsOnly,
  kDegradedVerdict,
  kReadAcrossRollOver,
  kReplayAppliedButReplyLost,
  kOriginCameBackEmpty,
  kBatchRefused,
  kMessageRepeated,
  kCount,
};
[[nodiscard]] std::string_view to_string(Mark mark);

struct RunReport {
  std::optional<std::string> broken;  // the first invariant broken, and how
  uint64_t fingerprint = 0;           // of everything that happened, in order
  uint64_t events = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  std::map<Mark, uint64_t> marks;
  std::vector<std::string> last_events;  // what led to the fault
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  [[nodiscard]] RunReport run();

 private:
  struct Node;
  struct Tuple;

  void schedule_traffic();
  void schedule_replay(Node& node);
  void schedule_forgetting();
  void ask_one(Node& node, const Tuple& tuple, Count cost);
  void ask_batch(Node& node);
  void answer(std::vector<Answered> answers, std::string what);
  [[nodiscard]] Request request_of(const Tuple& tuple, Count cost) const;
  void run_until(MonoTime end);
  void make_calm();

  void look();
  [[nodiscard]] WorldView view() const;
  template <typename Ask>
  void check(const Ask& ask);
  void note(const std::string& what, uint64_t value);
  void mark(Mark mark) { ++report_.marks[mark]; }

  WorldOptions options_;
  Random random_;
  Timeline timeline_;
  WatchedOrigin origin_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Tuple> tuples_;
  std::vector<std::unique_ptr<Checker>> checkers_ = all_checkers();
  std::vector<NodeView> views_;
  Truth truth_;
  RunReport report_;
  bool stormy_ = true;
};

}  // namespace weir::sim

// Many processes in many regions that share limits through one ledger, under a virtual clock.
//
// The engines are the ones in production, each with an origin that it shares with its region
// and a ledger that all share, at distances. The fleet knows every request and so what was admitted
// in truth, which no process does: that is what sharing is held against. What goes wrong is up to
// who drives it (misfortune.h).
//
// One thread at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "origins/in_process_origin.h"
#include "sim/fleet/account.h"
#include "sim/fleet/node.h"
#include "sim/fleet/scenario.h"
#include "sim/random.h"
#include "sim/timeline.h"
#include "sim/watched_ledger.h"

namespace weir::sim {

struct FleetOptions {
  uint64_t seed = 1;
  std::vector<RegionPlan> regions;
  FleetSettings settings{};
  std::vector<ClockShape> clocks = {};
  // Real time, if somebody wants to know what sharing takes.
  std::function<Nanos()> stopwatch = {};
};

// What a ledger was asked to do.
struct LedgerLoad {
  uint64_t rows = 0;       // written
  uint64_t presences = 0;  // written beside them
  uint64_t rows_read = 0;  // presences included

  LedgerLoad& operator+=(const LedgerLoad& other);
  friend LedgerLoad operator-(const LedgerLoad& a, const LedgerLoad& b);
};

// What a region was asked and answered, and what it asked its origin.
struct RegionLoad {
  uint64_t offered = 0;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t degraded = 0;         // of those answers
  uint64_t unanswered = 0;       // nobody was there, or died meanwhile
  uint64_t false_denials = 0;    // although in truth there was room
  uint64_t origin_commands = 0;  // two for a cell that is told, one for one that is read
};

struct FleetAnswer {
  size_t key = 0;
  uint32_t node = 0;
  uint32_t region = 0;
  Count cost = 0;
  WallTime asked{};  // by the node's clock
  const Verdict& verdict;
};

class Fleet {
 public:
  explicit Fleet(const FleetOptions& options);
  ~Fleet();

  size_t add(FleetKey key) { return account_.add(std::move(key)); }
  // A request to any process of the region.
  void ask(size_t key, uint32_t region, Count cost = 1);
  // The same for a key that nobody will ask for again; its verdict is not looked at.
  void ask_once(const FleetKey& key, uint32_t region);
  // Sees each answer to ask().
  void on_answer(std::function<void(const FleetAnswer&)> watch) { on_answer_ = std::move(watch); }

  // Lets time pass, in steps of a millisecond; `each` is called in each of them.
  void run_for(
      Millis span, const std::function<void()>& each = [] {});
  [[nodiscard]] Millis elapsed() const { return elapsed_; }
  [[nodiscard]] Instant now() const { return timeline_.now(); }
  [[nodiscard]] Timeline& timeline() { return timeline_; }

  // From here on cells, delays and what sharing takes are kept.
  void begin_measuring();
  [[nodiscard]] const Account& account() const { return account_; }
  [[nodiscard]] LedgerLoad load() const;  // of all regions
  [[nodiscard]] const RegionLoad& region_load(uint32_t region) const { return loads_[region]; }
  [[nodiscard]] Nanos sync_time() const { return sync_time_; }
  [[nodiscard]] SyncStats sync_stats(uint32_t node) const;
  [[nodiscard]] uint64_t events() const { return events_; }
  // Of every answer and every commit, in order.
  [[nodiscard]] uint64_t fingerprint() const { return fingerprint_; }
  // Cost that its process had accepted and not told when it was killed.
  [[nodiscard]] Count lost_with_nodes() const { return lost_with_nodes_; }

  [[nodiscard]] uint32_t nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  [[nodiscard]] FleetNode& node(uint32_t number) { return *nodes_[number]; }
  [[nodiscard]] uint32_t regions() const { return static_cast<uint32_t>(plans_.size()); }
  [[nodiscard]] const RegionPlan& region(uint32_t number) const { return plans_[number]; }
  [[nodiscard]] const std::vector<uint32_t>& nodes_of(uint32_t region) const {
    return of_region_[region];
  }
  [[nodiscard]] const FleetSettings& settings() const { return options_.settings; }

  // Life and death.
  void begin(FleetNode& node);
  void kill(FleetNode& node);
  void drain(FleetNode& node);  // takes no more requests; goes when all is told
  // How far each store is when nothing goes wrong.
  [[nodiscard]] LinkFaults usual_way_to_origin(const FleetNode& node) const;
  [[nodiscard]] LedgerFaults usual_way_to_ledger(const FleetNode& node) const;
  [[nodiscard]] origins::InProcessOrigin& origin(uint32_t region) { return *origins_[region]; }
  [[nodiscard]] WatchedLedger& ledger() { return *ledger_; }

  // The longest that an admission whose time has come takes to be known everywhere.
  [[nodiscard]] Millis longest_delay() const;

 private:
  static constexpr Millis kTurn{10};
  // Where there are more processes, the delays of so many, and of one in each region, stand for
  // those of all.
  static constexpr uint32_t kListeners = 64;

  class OriginWatcher;
  class AbroadWatcher;

  [[nodiscard]] FleetNode* any_of(uint32_t region);
  void tick();
  void take_turn(FleetNode& node);
  void go_on_draining(FleetNode& node, const WorkReport& acked);
  void end(FleetNode& node);
  void beat(FleetNode& node);
  [[nodiscard]] bool has_room(const FleetAnswer& answer);
  void answer(const FleetAnswer& answer);
  void mix(uint64_t number) { fingerprint_ = (fingerprint_ ^ number) * 0x100000001b3ULL; }

  const FleetOptions options_;
  const std::vector<RegionPlan>& plans_;
  Timeline timeline_;
  Random random_;
  std::unique_ptr<WatchedLedger> ledger_;
  std::vector<std::shared_ptr<origins::InProcessOrigin>> origins_;
  std::vector<std::unique_ptr<FleetNode>> nodes_;
  std::vector<std::vector<uint32_t>> of_region_;  // nodes
  std::map<std::string, uint32_t> by_region_name_;
  // Of all lives: what was sent still arrives.
  std::vector<std::shared_ptr<LossyLink>> links_;
  std::vector<std::shared_ptr<LedgerLink>> ledger_links_;
  // Knows every admission at once.
  std::shared_ptr<decide::Engine> exact_;
  Account account_;
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

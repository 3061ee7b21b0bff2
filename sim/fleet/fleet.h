// Many processes in many regions that share limits through one ledger, under a virtual clock.
//
// The limiters are the ones in production, each with an origin that it shares with its region
// and a ledger that all share, at distances. The fleet knows every request and so what was admitted
// in truth, which no process does: that is what sharing is held against.
//
// One thread at a time.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ledgers/memory_ledger.h"
#include "sim/fleet/links.h"
#include "sim/random.h"
#include "sim/timeline.h"
#include "weir/limiter.h"

namespace weir::sim {

// What the RFC that this is compared with does: from half of the limit on, every 10 s, by every
// process, as many rows as there are.
[[nodiscard]] SharingRules floor_rules();

struct FleetOptions {
  uint64_t seed = 1;
  uint32_t regions = 10;
  uint32_t processes = 10;  // in all; dealt to the regions in turn
  SharingRules rules{};
  Millis to_origin{1};                // one way
  Millis to_ledger_least{20};         // one way; the first region's
  Millis to_ledger_most{80};          // the last region's, the others in between
  size_t capacity = size_t{1} << 13;  // tuples of a process
  // Processor time used so far, if somebody wants to know what sharing takes.
  std::function<Nanos()> processor_time = {};
};

struct FleetKey {
  std::string name_space;
  std::string identifier;  // unlike any other's
  Count limit = 0;
  std::vector<uint32_t> regions = {};  // where it is used; more than one: it is watched
  Millis duration{60'000};
  Algorithm algorithm = Algorithm::kSlidingWindow;
};

// A window of a key, as it was in truth.
struct FleetCell {
  size_t key = 0;
  int64_t sequence = 0;
  Count limit = 0;
  Count admitted = 0;
  Count refused = 0;
  // Of what was admitted, by the last admission: what came within twice the longest delay before
  // it. The bound excuses this much.
  Count recent = 0;
  // The most that was ever admitted without that excuse, at any admission.
  Count unexcused = 0;

  [[nodiscard]] double share() const {
    return static_cast<double>(admitted) / static_cast<double>(limit);
  }
};

// How long it took until another region knew, in ms.
struct FleetDelays {
  std::vector<float> travel;  // of a row, since it was sent
  std::vector<float> age;     // of every admission in it, since it was admitted
};

class Fleet {
 public:
  explicit Fleet(const FleetOptions& options);
  ~Fleet();

  size_t add(FleetKey key);
  // A request of cost 1, to any process of the region.
  void ask(size_t key, uint32_t region);
  // The same for a key that nobody will ask for again; its verdict is not looked at.
  void ask_once(const FleetKey& key, uint32_t region);

  // Lets time pass, in steps of a millisecond; `each` is called in each of them.
  void run_for(
      Millis span, const std::function<void()>& each = [] {});
  [[nodiscard]] Millis elapsed() const { return elapsed_; }
  [[nodiscard]] Instant now() const { return timeline_.now(); }

  // From here on cells, delays and the processor's time are kept.
  void begin_measuring();
  // Cells that were watched and began since then, those that are not over included.
  [[nodiscard]] std::vector<FleetCell> cells() const;
  [[nodiscard]] const FleetDelays& delays() const { return delays_; }
  [[nodiscard]] LedgerLoad load() const;  // of all regions
  [[nodiscard]] LedgerLoad load_of(uint32_t region) const { return loads_[region]; }
  [[nodiscard]] uint64_t admitted() const { return admitted_; }
  [[nodiscard]] uint64_t refused() const { return refused_; }
  // Rows that told no more of their cell than an earlier one of the same region.
  [[nodiscard]] uint64_t repeated() const { return repeated_; }
  [[nodiscard]] Nanos sharing_time() const { return sharing_time_; }
  [[nodiscard]] size_t ledger_rows() const { return ledger_->everything().rows.size(); }

  // What a key has in its current window, in truth.
  [[nodiscard]] Count admitted_now(size_t key) const;
  [[nodiscard]] SharingStats sharing_stats(uint32_t process) const;
  [[nodiscard]] uint32_t processes() const { return options_.processes; }
  [[nodiscard]] uint32_t region_of(uint32_t process) const { return process % options_.regions; }

  // The longest that an admission whose time has come takes to be known everywhere.
  [[nodiscard]] Millis longest_delay() const;

 private:
  static constexpr Millis kTurn{10};

  struct Process {
    std::shared_ptr<NearOrigin> origin;
    std::shared_ptr<FarLedger> ledger;
    std::unique_ptr<Limiter> limiter;
  };
  // One window of a key.
  struct Log {
    int64_t sequence = -1;
    Count admitted = 0;
    Count refused = 0;
    std::vector<std::vector<MonoTime>> when;               // by region; only what is watched
    std::map<uint32_t, Count> told;                        // by region, the most
    std::map<std::pair<uint32_t, Count>, MonoTime> sent;   // by region and count; what is watched
    std::map<std::pair<uint32_t, uint32_t>, Count> heard;  // by process and region
  };
  struct Key {
    FleetKey is;
    std::array<Log, 2> logs;
  };

  [[nodiscard]] Limiter& any_of(uint32_t region);
  void tick();
  void take_turn(uint32_t process);
  void note(size_t key, uint32_t region, Instant asked, const Verdict& verdict);
  void send(uint32_t region, const LedgerNews& news);
  void hear(uint32_t process, const LedgerNews& news);
  // That of a row, unless it is forgotten.
  [[nodiscard]] Log* log_of(const LedgerRow& row);
  [[nodiscard]] Log& log_at(Key& key, int64_t sequence);
  [[nodiscard]] FleetCell cell_of(size_t key, const Log& log) const;
  void keep(size_t key, const Log& log);
  [[nodiscard]] static std::string region_name(uint32_t region);

  const FleetOptions options_;
  Timeline timeline_;
  Random random_;
  std::shared_ptr<ledgers::MemoryLedger> ledger_;
  std::vector<Process> processes_;
  std::vector<std::vector<uint32_t>> of_region_;  // processes
  std::vector<LedgerLoad> loads_;                 // by region
  std::vector<Key> keys_;
  std::unordered_map<std::string, size_t> by_identifier_;
  std::unordered_map<std::string, uint32_t> by_region_name_;
  const std::function<void()>* each_ = nullptr;
  Millis elapsed_{0};
  bool measuring_ = false;
  WallTime measured_from_{};
  std::vector<FleetCell> cells_;
  FleetDelays delays_;
  uint64_t admitted_ = 0, refused_ = 0, repeated_ = 0;
  Nanos sharing_time_{0};
};

}  // namespace weir::sim

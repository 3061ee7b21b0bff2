// The admissions of all regions, which no node knows: every key with its last two windows, and how
// long other regions took to learn of each admission.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/ledger.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::sim {

struct FleetKey {
  std::string ns = "api";
  std::string identifier = {};  // the log names its keys itself
  Count limit = 0;
  std::vector<uint32_t> regions = {};  // that use it
  Millis duration{60'000};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  std::optional<Count> burst = {};
};
[[nodiscard]] Request request_for(const FleetKey& key, Count cost);

// A window of a key, over all regions.
struct FleetCell {
  size_t key = 0;
  int64_t sequence = 0;
  Count limit = 0;
  Count admitted = 0;
  Count refused = 0;
  // Of the admitted cost, the part admitted within twice the longest delay before the last
  // admission. The bound excuses this much.
  Count recent = 0;
  // The largest admitted cost without that excuse, at any admission.
  Count unexcused = 0;
  // The most, in limits, by which an admission exceeded the bound that its node exported. Excused:
  // recent admissions, and those since a change of the bound can have arrived.
  double beyond_bound = 0;
  // The most in any span of a window's length that ends in this window.
  Count trailing = 0;

  [[nodiscard]] double share() const { return in_limits(admitted); }
  [[nodiscard]] double in_limits(Count count) const {
    return static_cast<double>(count) / static_cast<double>(limit);
  }
};

// The time until another region knew, in ms.
struct FleetDelays {
  std::vector<float> travel;  // of a row, since it was sent
  std::vector<float> age;     // of every admission in it, since it was admitted
};

// One thread at a time.
class AdmissionLog {
 public:
  explicit AdmissionLog(Millis longest_delay) : excused_(2 * Nanos(longest_delay)) {}

  size_t add(FleetKey key);
  [[nodiscard]] const FleetKey& key(size_t number) const { return keys_[number].is; }
  [[nodiscard]] size_t keys() const { return keys_.size(); }
  // The key of an identifier, if it is one of the log's.
  [[nodiscard]] std::optional<size_t> find(const std::string& identifier) const;

  struct Moment {
    uint32_t region = 0;
    WallTime requested_at{};  // by the clock of the node, which decides the window
    MonoTime now{};
    double bound = 0;  // as the node exports it, in limits
  };
  void admit(size_t key, const Moment& moment, Count cost);
  void refuse(size_t key, const Moment& moment, Count cost);

  // A row left a process of the region, or reached one that uses it from `usable_at` on.
  void send(uint32_t region, const LedgerRow& row, MonoTime now);
  struct Receiver {
    uint32_t process = 0;
    uint32_t region = 0;
    MonoTime usable_at{};
  };
  void receive(const Receiver& receiver, uint32_t from, const LedgerRow& row);

  // From here on cells and delays are recorded.
  void begin_measuring(WallTime now);
  [[nodiscard]] bool measuring() const { return measured_from_.has_value(); }
  // Cells that began since then, including those that are not over.
  [[nodiscard]] std::vector<FleetCell> cells() const;
  [[nodiscard]] const FleetDelays& delays() const { return delays_; }
  // Rows that carried no more than an earlier one of the same region.
  [[nodiscard]] uint64_t repeated() const { return repeated_; }

 private:
  struct Admission {
    MonoTime when{};
    Count cost = 0;
    Count total = 0;  // of its region in its window, this one included
    float bound = 0;
  };
  struct Local {
    uint32_t region = 0;
    std::vector<Admission> admitted;
    Count published = 0;             // the largest count of its rows
    std::map<Count, MonoTime> sent;  // rows by their count
    std::vector<std::pair<uint32_t, Count>>
        received_by;  // processes of other regions, and the largest count they received
  };
  struct Log {
    int64_t sequence = -1;
    Count admitted = 0;
    Count refused = 0;
    Count trailing = 0;
    MonoTime used{};               // last
    std::vector<Local> by_region;  // that admitted or published something

    [[nodiscard]] Local& of(uint32_t region);
    [[nodiscard]] std::vector<Admission> all() const;  // in the order they happened
  };
  struct Key {
    FleetKey is;
    std::vector<Log> logs;  // two; more if clocks disagree

    [[nodiscard]] Log* find(int64_t sequence);
  };

  [[nodiscard]] Log& log_at(Key& key, const Moment& moment);
  [[nodiscard]] Log* log_of(const LedgerRow& row);
  [[nodiscard]] FleetCell cell_of(size_t key, const Log& log) const;
  [[nodiscard]] bool counts(const Key& key, const Log& log) const;
  static void update_trailing(const FleetKey& key, Log& log, const Log* before);

  const Nanos excused_;
  std::vector<Key> keys_;
  std::optional<WallTime> measured_from_;
  std::vector<FleetCell> cells_;
  FleetDelays delays_;
  uint64_t repeated_ = 0;
};

}  // namespace weir::sim

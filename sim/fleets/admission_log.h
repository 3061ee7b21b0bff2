// What was admitted in truth, which no node knows: every key with its last two windows, and how
// long it took until others heard of what was admitted.

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
  std::string identifier = {};  // the account gives its keys names of its own
  Count limit = 0;
  std::vector<uint32_t> regions = {};  // where it is used
  Millis duration{60'000};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  std::optional<Count> burst = {};
};
[[nodiscard]] Request request_for(const FleetKey& key, Count cost);

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
  // The most, in limits, that was ever admitted beyond the bound that the node exported that
  // admitted: what is recent, or came since a change of the bound can have been heard, is excused.
  double beyond_bound = 0;
  // The most in any window that ends in this one, wherever it begins.
  Count trailing = 0;

  [[nodiscard]] double share() const { return in_limits(admitted); }
  [[nodiscard]] double in_limits(Count count) const {
    return static_cast<double>(count) / static_cast<double>(limit);
  }
};

// How long it took until another region knew, in ms.
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
  // The key of an identifier, if it is one of the account's.
  [[nodiscard]] std::optional<size_t> find(const std::string& identifier) const;

  struct Moment {
    uint32_t region = 0;
    WallTime asked{};  // by the clock of who was asked: the window of a request is that one's
    MonoTime now{};
    double bound = 0;  // as the node that was asked exports it, in limits
  };
  void admit(size_t key, const Moment& moment, Count cost);
  void refuse(size_t key, const Moment& moment, Count cost);

  // A row left a process of the region, or reached one that uses it from `used` on.
  void send(uint32_t region, const LedgerRow& row, MonoTime now);
  struct Receiver {
    uint32_t process = 0;
    uint32_t region = 0;
    MonoTime usable_at{};
  };
  void receive(const Receiver& receiver, uint32_t from, const LedgerRow& row);

  // From here on cells and delays are kept.
  void begin_measuring(WallTime now);
  [[nodiscard]] bool measuring() const { return measured_from_.has_value(); }
  // Those that began since then, those that are not over included.
  [[nodiscard]] std::vector<FleetCell> cells() const;
  [[nodiscard]] const FleetDelays& delays() const { return delays_; }
  // Rows that told no more of their cell than an earlier one of the same region.
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
    Count published = 0;                                  // the most that a row of it said
    std::map<Count, MonoTime> sent;                       // rows by what they said
    std::vector<std::pair<uint32_t, Count>> received_by;  // processes elsewhere, and the most
  };
  struct Log {
    int64_t sequence = -1;
    Count admitted = 0;
    Count refused = 0;
    Count trailing = 0;
    MonoTime used{};               // last
    std::vector<Local> by_region;  // of those that admitted something or told of it

    [[nodiscard]] Local& of(uint32_t region);
    [[nodiscard]] std::vector<Admission> all() const;  // in the order they happened
  };
  struct Key {
    FleetKey is;
    std::vector<Log> logs;  // two; more where clocks disagree

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

// The tuples that an in-process origin decides whole: their states, and the last calls of their
// writers. A copy is a snapshot.
//
// One thread at a time.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>

#include "origins/exact_rule.h"
#include "weir/origin.h"

namespace weir::origins {

class ExactTuples {
 public:
  // See ExactStore.
  [[nodiscard]] ExactAnswer decide(const ExactCall& call, WallTime now);
  // Forgets the states that are empty, and have been for kRemembered.
  void delete_expired(WallTime now);
  void erase(const std::string& tuple) { tuples_.erase(tuple); }
  [[nodiscard]] size_t size() const { return tuples_.size(); }
  // Until when a tuple must be remembered; none: nothing is known of it.
  [[nodiscard]] std::optional<WallTime> kept_until(const std::string& tuple) const {
    const auto found = tuples_.find(tuple);
    if (found == tuples_.end()) return std::nullopt;
    return found->second.kept_until;
  }

  // A call may be repeated for so long.
  static constexpr Millis kRemembered{5000};

 private:
  struct LastCall {
    uint64_t number = 0;
    Count own = 0;  // charged up to there
    ExactAnswer answer{};
  };
  struct Tuple {
    std::variant<std::monostate, BacklogState, RingState, LogState> state;
    std::map<Component, LastCall> writers{};
    std::optional<WallTime> refused{};           // the last refusal that was marked
    std::map<Millis, ForeignCharged> foreign{};  // by the width of windows
    WallTime kept_until{};
  };

  void remember(Tuple& tuple, const ExactCall& call, const ExactAnswer& answer);

  std::unordered_map<std::string, Tuple> tuples_;
  std::multimap<WallTime, std::string> by_expiry_;  // an entry may be too early
};

}  // namespace weir::origins

// Random calls to an ExactStore, for histories that check_history() replays.

#pragma once

#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "tests/contracts/exact_model.h"
#include "weir/origin.h"

namespace weir::contracts {

using ExactHistory = std::map<std::string, std::vector<ExactEvent>>;  // by tuple

// One client: it makes calls, repeats some of them, and notes what changed the tuples. One thread.
class ExactClient {
 public:
  ExactClient(ExactStore& store, Algorithm algorithm, uint64_t seed)
      : store_(store), algorithm_(algorithm), random_(seed), writer_{.incarnation = seed} {}

  // Makes one round of calls.
  void run() {
    std::vector<ExactCall> calls;
    const uint64_t count = 1 + draw(3);
    for (uint64_t i = 0; i < count; ++i) {
      ExactCall call = next_call();
      // One call on a tuple at a time.
      const bool known = std::any_of(calls.begin(), calls.end(), [&](const ExactCall& each) {
        return each.tuple == call.tuple;
      });
      if (!known) calls.push_back(std::move(call));
    }
    const auto answers = decide(calls);
    ASSERT_EQ(answers.size(), calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(answers[i].decisions.size(), calls[i].asks.size());
      events_[calls[i].tuple].push_back({.call = calls[i], .answer = answers[i]});
    }
    // Only the last call on a tuple can be repeated. One that changed nothing is decided anew.
    const ExactEvent last = events_[calls.back().tuple].back();
    if (draw(4) != 0) return;
    const ExactAnswer repeated = decide({last.call}).at(0);
    if (last.answer.changed) {
      EXPECT_EQ(repeated.decisions, last.answer.decisions);
      EXPECT_EQ(repeated.version, last.answer.version);
      EXPECT_EQ(repeated.at, last.answer.at);
    } else {
      events_[last.call.tuple].push_back({.call = last.call, .answer = repeated});
    }
  }

  [[nodiscard]] const ExactHistory& events() const { return events_; }

 private:
  uint64_t draw(uint64_t below) { return base::split_mix(random_) % below; }

  ExactCall next_call() {
    constexpr Count kLimits[] = {3, 10, 10, 10, 70};
    constexpr Millis kDurations[] = {Millis(100), Millis(130), Millis(1000), Millis(60'000)};
    constexpr Count kCosts[] = {0, 1, 1, 1, 1, 2, 5, 12, 1'000'000'000'000};
    const uint64_t which = draw(std::size(kDurations) + 1);
    const bool across = which == std::size(kDurations);
    const bool is_backlog = algorithm_ == Algorithm::kGcra || algorithm_ == Algorithm::kTokenBucket;
    ExactCall call{.tuple = std::to_string(which),
                   .algorithm = algorithm_,
                   .limit = kLimits[draw(std::size(kLimits))],
                   .duration = kDurations[across ? 0 : which],
                   .across_durations = across && is_backlog,
                   .writer = writer_,
                   .number = ++number_,
                   .asks = {}};
    if (call.across_durations) call.duration = kDurations[draw(std::size(kDurations))];
    const uint64_t asks = 1 + draw(4);
    for (uint64_t i = 0; i < asks; ++i) {
      const Count limit = is_backlog ? 1 + draw(20) : kLimits[draw(std::size(kLimits))];
      call.asks.push_back({.cost = kCosts[draw(std::size(kCosts))], .capacity = limit});
    }
    return call;
  }

  std::vector<ExactAnswer> decide(std::vector<ExactCall> calls) {
    std::promise<std::vector<ExactAnswer>> received;
    store_.decide(std::move(calls),
                  [&](auto answers) { received.set_value(std::move(answers.value())); });
    return received.get_future().get();
  }

  ExactStore& store_;
  const Algorithm algorithm_;
  uint64_t random_;
  const Component writer_;
  uint64_t number_ = 0;
  ExactHistory events_;
};

// Replays the histories of all clients together. Returns how many calls changed a state.
inline uint64_t check_histories(const std::vector<const ExactClient*>& clients) {
  ExactHistory all;
  for (const ExactClient* client : clients) {
    for (const auto& [tuple, events] : client->events()) {
      all[tuple].insert(all[tuple].end(), events.begin(), events.end());
    }
  }
  uint64_t changes = 0;
  for (const auto& [tuple, events] : all) {
    SCOPED_TRACE("tuple " + tuple);
    changes += check_history(events);
  }
  return changes;
}

}  // namespace weir::contracts

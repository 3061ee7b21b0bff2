#include "origins/exact_rule.h"

#include <deque>

#include "origins/in_process_origin.h"
#include "tests/contracts/exact_history.h"
#include "tests/doubles/manual_clock.h"
#include "tests/effort.h"

namespace weir::origins {
namespace {

constexpr Algorithm kAlgorithms[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                     Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};

ExactCall call_of(Algorithm algorithm, Count cost, uint64_t number = 1) {
  return {.tuple = "tuple",
          .algorithm = algorithm,
          .limit = 10,
          .duration = Millis(1000),
          .writer = {.incarnation = 1},
          .number = number,
          .asks = {{.cost = cost, .capacity = 10}}};
}

ExactAnswer decide(InProcessOrigin& origin, const ExactCall& call) {
  ExactAnswer received;
  origin.decide({call}, [&](auto answers) { received = answers->at(0); });
  return received;
}

// The state is deleted and begins again at version 0 if all has left and drained; no pause here is
// so long.
TEST(ExactRule, EqualsTheAlgorithmsOnRandomHistories) {
  for (const Algorithm algorithm : kAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    std::deque<contracts::ExactClient> clients;
    std::vector<const contracts::ExactClient*> all;
    for (uint64_t i = 0; i < 3; ++i) {
      all.push_back(&clients.emplace_back(*origin.exact_store(), algorithm, i + 1));
    }
    uint64_t random = 1;
    const uint64_t rounds = generated_cases(6000);
    for (uint64_t i = 0; i < rounds; ++i) {
      clients[base::split_mix(random) % 3].run();
      const uint64_t most = base::split_mix(random) % 50 == 0 ? 1500 : 20;
      clock.advance(Millis(static_cast<int64_t>(base::split_mix(random) % most)));
    }
    EXPECT_GT(contracts::check_histories(all), rounds / 10);
  }
}

TEST(ExactRule, ForgetsAStateThatIsEmpty) {
  for (const Algorithm algorithm : kAlgorithms) {
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    EXPECT_EQ(decide(origin, call_of(algorithm, 10)).version, 0u);
    clock.advance(Millis(4000));
    EXPECT_EQ(decide(origin, call_of(algorithm, 0, 2)).version, 1u);
    clock.advance(Millis(20'000));
    EXPECT_EQ(decide(origin, call_of(algorithm, 0, 3)).version, 0u);
    // The first call would be repeated too late.
    EXPECT_TRUE(decide(origin, call_of(algorithm, 1)).changed);
  }
}

TEST(ExactRule, ReleasesNothingIfTheClockStepsBackALittle) {
  for (const Algorithm algorithm : kAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    const WallTime at = decide(origin, call_of(algorithm, 10)).at;
    clock.step_wall(-Millis(900));
    const ExactAnswer answer = decide(origin, call_of(algorithm, 1, 2));
    EXPECT_EQ(answer.decisions[0].outcome, Outcome::kDenied);
    EXPECT_EQ(answer.at, at);
  }
}

TEST(ExactRule, DeniesForAFullBurstAtMostIfTheClockWasSetBackFar) {
  for (const Algorithm algorithm : kAlgorithms) {
    SCOPED_TRACE(to_string(algorithm));
    doubles::ManualClock clock;
    InProcessOrigin origin(clock);
    (void)decide(origin, call_of(algorithm, 10));
    clock.step_wall(-Millis(3'600'000));
    const bool is_backlog = exact_class(algorithm) == ExactClass::kBacklog;
    const ExactAnswer answer = decide(origin, call_of(algorithm, 1, 2));
    EXPECT_EQ(answer.decisions[0].outcome, is_backlog ? Outcome::kDenied : Outcome::kAdmitted);
    clock.advance(Millis(1000));
    EXPECT_EQ(decide(origin, call_of(algorithm, 9, 3)).decisions[0].outcome, Outcome::kAdmitted);
  }
}

}  // namespace
}  // namespace weir::origins

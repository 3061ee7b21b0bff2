// However many answers of the origin a call needs, it waits for one deadline.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "ledgers/memory_ledger.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/forwarding_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::decide {
namespace {

constexpr Millis kWait{300};
constexpr Millis kFormerDuration{60'000};
constexpr Millis kPresentDuration{6'000};

// Its answers arrive late; what it is asked takes effect at once.
class SlowOrigin final : public doubles::ForwardingOrigin {
 public:
  SlowOrigin(std::shared_ptr<RegionalOrigin> far_end, const Clock& clock, Executor& network)
      : ForwardingOrigin(std::move(far_end)), clock_(clock), network_(network) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    ForwardingOrigin::read(std::move(cells), later(std::move(reply)));
  }
  void step(std::vector<CellStep> steps, StepReply reply) override {
    ForwardingOrigin::step(std::move(steps), later(std::move(reply)));
  }
  void decide(std::vector<ExactCall> asked, ExactReply reply) override {
    ForwardingOrigin::decide(std::move(asked), later(std::move(reply)));
  }

  Millis delay{0};
  int calls = 0;

 private:
  template <typename Value>
  [[nodiscard]] std::function<void(Result<Value>)> later(std::function<void(Result<Value>)> reply) {
    ++calls;
    return [this, reply = std::move(reply)](Result<Value> answer) {
      network_.post_at(clock_.now().mono + delay,
                       [reply, answer = std::move(answer)]() mutable { reply(std::move(answer)); });
    };
  }

  const Clock& clock_;
  Executor& network_;
};

struct Answered {
  Millis after{0};
  bool refreshed = true;  // all of it
};

// With and without other regions.
class Deadline : public ::testing::TestWithParam<bool> {
 protected:
  Deadline() {
    origin_->delay = Millis(0);
    Options options{.origin = origin_,
                    .consistency = Consistency::kExact,
                    .read_deadline = kWait,
                    .capacity = 1 << 14,
                    .seed = 1};
    if (GetParam()) {
      options.ledger = std::make_shared<ledgers::MemoryLedger>(clock_);
      options.region = "here";
    }
    engine_ = Engine::make(clock_, options);
  }

  [[nodiscard]] static Request request(Algorithm algorithm, std::string_view identifier,
                                       Millis duration = kFormerDuration) {
    return {.ns = "api",
            .identifier = identifier,
            .limit = 100,
            .duration = duration,
            .cost = 1,
            .algorithm = algorithm};
  }
  [[nodiscard]] Request changed(Algorithm algorithm, std::string_view identifier) {
    past_ = {.changed = clock_.now().wall, .count = 1, .durations = {kFormerDuration}};
    Request result = request(algorithm, identifier, kPresentDuration);
    result.past = &past_;
    return result;
  }

  void advance() {
    clock_.advance(Millis(1));
    network_.run();
    home_.run();
  }
  // Calls, and waits until it has answered.
  template <typename Call>
  [[nodiscard]] Answered wait(const Call& call) {
    std::optional<bool> refreshed;
    const MonoTime began = clock_.now().mono;
    call([&](bool is_refreshed) { refreshed = is_refreshed; });
    home_.run();
    for (int i = 0; i < 5'000 && !refreshed; ++i) advance();
    EXPECT_TRUE(refreshed.has_value());
    return {.after = std::chrono::duration_cast<Millis>(clock_.now().mono - began),
            .refreshed = refreshed.value_or(false)};
  }
  [[nodiscard]] Answered check(const Request& request) {
    return wait([&](auto done) {
      engine_->check_async(clock_.now(), request, home_, [done](const Result<Verdict>& verdict) {
        done(verdict->basis == Basis::kRefreshed);
      });
    });
  }
  [[nodiscard]] Answered check_all(const std::vector<Request>& requests) {
    return wait([&](auto done) {
      engine_->check_all_async(clock_.now(), requests, home_,
                               [done](const Result<BatchVerdict>& verdict) {
                                 bool refreshed = true;
                                 for (const Verdict& each : verdict->items) {
                                   refreshed = refreshed && each.basis == Basis::kRefreshed;
                                 }
                                 done(refreshed);
                               });
    });
  }
  [[nodiscard]] Answered check_each(const std::vector<Request>& requests) {
    std::vector<Result<Verdict>> verdicts(requests.size());
    return wait([&](auto done) {
      const auto decided = [&verdicts, done] {
        bool refreshed = true;
        for (const auto& each : verdicts) {
          EXPECT_GT(each->limit, 0u);
          refreshed = refreshed && each->basis == Basis::kRefreshed;
        }
        done(refreshed);
      };
      if (engine_->check_each_async(clock_.now(), requests, verdicts, home_, decided)) decided();
    });
  }
  // All requests that wait for several answers.
  void expect_one_deadline(Millis delay) {
    std::vector<Request> all;
    for (const Algorithm algorithm : kAllAlgorithms) all.push_back(request(algorithm, "batch"));
    origin_->delay = Millis(0);
    for (const Algorithm algorithm : kAllAlgorithms) {
      (void)check(request(algorithm, "changes-" + std::string(to_string(algorithm))));
    }
    origin_->delay = delay;
    const auto within = [&](const Answered& answered, std::string_view what) {
      EXPECT_LE(answered.after, kWait) << what << ", answers after " << delay.count() << " ms";
    };
    for (const Algorithm algorithm : kAllAlgorithms) {
      const std::string name(to_string(algorithm));
      within(check(request(algorithm, "single")), name);
      const std::string identifier = "changes-" + name;
      within(check(changed(algorithm, identifier)), name + " with a changed duration");
      // Another algorithm, which takes the usage over.
      const Algorithm other =
          algorithm == Algorithm::kGcra ? Algorithm::kSlidingWindow : Algorithm::kGcra;
      within(check(request(other, identifier)), name + " with a changed algorithm");
      within(check_all({changed(algorithm, identifier + "-in-batch"), request(other, identifier)}),
             name + " in a batch");
      within(check_each({changed(algorithm, identifier + "-each"), request(other, "each")}),
             name + " of several");
    }
    within(check_all(all), "all algorithms in a batch");
  }

  doubles::ManualClock clock_;
  doubles::ManualExecutor network_{clock_};
  doubles::ManualExecutor home_{clock_};
  std::shared_ptr<SlowOrigin> origin_ = std::make_shared<SlowOrigin>(
      std::make_shared<origins::InProcessOrigin>(clock_), clock_, network_);
  std::shared_ptr<Engine> engine_;
  PastDurations past_;
};

INSTANTIATE_TEST_SUITE_P(Regions, Deadline, ::testing::Bool(), [](const auto& regions) {
  return regions.param ? std::string("WithOthers") : std::string("Alone");
});

TEST_P(Deadline, IsOneForAllAnswersThatAreJustInTime) {
  expect_one_deadline(Millis(290));
}

TEST_P(Deadline, IsOneForAllAnswersThatAreLate) {
  expect_one_deadline(Millis(2'000));
}

TEST_P(Deadline, IsEnoughForSeveralAnswersThatAreEarly) {
  origin_->delay = Millis(40);
  const Answered batch =
      check_all({request(Algorithm::kGcra, "batch"), request(Algorithm::kSlidingLog, "batch")});
  EXPECT_TRUE(batch.refreshed);
  EXPECT_GE(batch.after, 2 * origin_->delay);
  EXPECT_LE(batch.after, kWait);
}

// The counts of the former algorithm and those of the other regions are read at the same time.
TEST_P(Deadline, IsEnoughForAChangedAlgorithmByTwoAnswers) {
  (void)check(request(Algorithm::kSlidingWindow, "changes"));
  origin_->delay = Millis(100);
  const Answered answered = check(request(Algorithm::kGcra, "changes"));
  EXPECT_TRUE(answered.refreshed);
  EXPECT_EQ(answered.after, 2 * origin_->delay);
}

// An origin that needs more than half the deadline: one request reads, and the next ones profit.
TEST_P(Deadline, LetsAChangedDurationBeTakenOverByAnswersThatComeLate) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const std::string identifier = "changes-" + std::string(to_string(algorithm));
    Request former = request(algorithm, identifier, kFormerDuration);
    former.cost = 60;
    origin_->delay = Millis(0);
    (void)check(former);
    origin_->delay = Millis(160);
    const Request present = changed(algorithm, identifier);
    bool refreshed = false;
    for (int i = 0; i < 6 && !refreshed; ++i) {
      const Answered answered = check(present);
      EXPECT_LE(answered.after, kWait);
      refreshed = answered.refreshed;
      for (int pause = 0; pause < 400; ++pause) advance();
    }
    EXPECT_TRUE(refreshed) << to_string(algorithm);
  }
}

// A request that joins a read waits until its own deadline, not that of the first.
TEST_P(Deadline, IsThatOfTheRequestAlsoIfItJoinsARead) {
  origin_->delay = Millis(350);
  Request relaxed = request(Algorithm::kSlidingWindow, "joined");
  relaxed.consistency = Consistency::kRelaxed;
  std::optional<Basis> first;
  engine_->check_async(clock_.now(), relaxed, home_,
                       [&](const Result<Verdict>& verdict) { first = verdict->basis; });
  for (int i = 0; i < 100; ++i) advance();
  const int calls = origin_->calls;
  const Answered joined = check(relaxed);
  EXPECT_EQ(origin_->calls, calls);
  EXPECT_TRUE(joined.refreshed);
  EXPECT_EQ(joined.after, Millis(250));
  EXPECT_EQ(first, Basis::kDegraded);
}

}  // namespace
}  // namespace weir::decide

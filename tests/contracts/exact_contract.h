// The contract of ExactStore: each implementation passes this suite. Makers are those of
// origin_contract.h, with another(), which makes an origin with the same store.

#pragma once

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <utility>

#include "tests/contracts/exact_model.h"
#include "weir/origin.h"

namespace weir::contracts {

template <typename Maker>
class ExactContract : public ::testing::Test {
 protected:
  static constexpr Component kNode{.incarnation = 1};
  static constexpr Component kSibling{.incarnation = 2};
  static constexpr std::array<Algorithm, 4> kAlgorithms{Algorithm::kGcra, Algorithm::kTokenBucket,
                                                        Algorithm::kSlidingWindowStrict,
                                                        Algorithm::kSlidingLog};

  // Nothing leaves or drains during a test.
  ExactCall call(Algorithm algorithm, std::vector<ExactAsk> asks, Component writer = kNode) {
    return {.tuple = "tuple " + std::string(to_string(algorithm)),
            .algorithm = algorithm,
            .limit = 1,
            .duration = Millis(3'600'000),
            .writer = writer,
            .number = ++number_,
            .asks = std::move(asks)};
  }
  ExactAnswer decide(RegionalOrigin& origin, const ExactCall& call) {
    std::promise<ExactAnswer> received;
    origin.exact_store()->decide({call},
                                 [&](auto answers) { received.set_value(answers.value().at(0)); });
    return received.get_future().get();
  }
  ExactAnswer decide(const ExactCall& call) { return decide(*origin_, call); }
  static std::vector<int> outcomes(const ExactAnswer& answer) {
    std::vector<int> all;
    for (const ExactDecision& each : answer.decisions)
      all.push_back(static_cast<int>(each.outcome));
    return all;
  }
  static constexpr int kYes = static_cast<int>(Outcome::kAdmitted);
  static constexpr int kNo = static_cast<int>(Outcome::kDenied);
  static constexpr int kNever = static_cast<int>(Outcome::kNever);

  typename Maker::Clock clock_;
  Maker maker_{clock_};
  std::shared_ptr<RegionalOrigin> origin_ = maker_.make();
  uint64_t number_ = 0;
};
TYPED_TEST_SUITE_P(ExactContract);

TYPED_TEST_P(ExactContract, GrantsWhatFitsInOrder) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    const auto answer = this->decide(
        this->call(algorithm, {{3, 10}, {8, 10}, {0, 10}, {7, 10}, {11, 10}, {1, 10}}));
    EXPECT_EQ(this->outcomes(answer), (std::vector{this->kYes, this->kNo, this->kYes, this->kYes,
                                                   this->kNever, this->kNo}));
    const auto& decisions = answer.decisions;
    EXPECT_EQ(decisions[0].remaining, 7u);
    EXPECT_EQ(decisions[1].remaining, 7u);
    EXPECT_EQ(decisions[3].remaining, 0u);
    EXPECT_TRUE(decisions[1].retry_after.has_value());
    EXPECT_FALSE(decisions[4].retry_after.has_value());
  }
}

TYPED_TEST_P(ExactContract, DecidesTheCallsOfAllWritersOnOneState) {
  const auto second = this->maker_.another();
  for (const Algorithm algorithm : this->kAlgorithms) {
    EXPECT_EQ(this->outcomes(this->decide(this->call(algorithm, {{6, 10}}))),
              std::vector{this->kYes});
    const auto answer =
        this->decide(*second, this->call(algorithm, {{6, 10}, {4, 10}}, this->kSibling));
    EXPECT_EQ(this->outcomes(answer), (std::vector{this->kNo, this->kYes}));
    EXPECT_EQ(answer.version, 1u);
  }
}

TYPED_TEST_P(ExactContract, ChargesARepeatedCallOnce) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    const ExactCall call = this->call(algorithm, {{6, 10}, {6, 10}});
    const auto first = this->decide(call);
    EXPECT_EQ(this->outcomes(first), (std::vector{this->kYes, this->kNo}));
    // Another writer in between changes nothing about that.
    (void)this->decide(this->call(algorithm, {{1, 10}}, this->kSibling));
    const auto repeated = this->decide(call);
    EXPECT_EQ(repeated.decisions, first.decisions);
    EXPECT_EQ(repeated.at, first.at);
    EXPECT_EQ(repeated.version, first.version);
    EXPECT_EQ(this->decide(this->call(algorithm, {{0, 10}})).decisions[0].remaining, 3u);
  }
}

TYPED_TEST_P(ExactContract, IgnoresACallThatIsOlderThanTheLastOfItsWriter) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    const ExactCall old = this->call(algorithm, {{6, 10}});
    (void)this->decide(this->call(algorithm, {{1, 10}}));
    EXPECT_TRUE(this->decide(old).decisions.empty());
    EXPECT_EQ(this->decide(this->call(algorithm, {{0, 10}})).decisions[0].remaining, 9u);
  }
}

TYPED_TEST_P(ExactContract, ChangesNothingByAPeekOrADenial) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    (void)this->decide(this->call(algorithm, {{6, 10}}));
    (void)this->decide(this->call(algorithm, {{0, 10}, {5, 10}, {11, 10}}));
    const auto answer = this->decide(this->call(algorithm, {{4, 10}}));
    EXPECT_EQ(this->outcomes(answer), std::vector{this->kYes});
    EXPECT_EQ(answer.version, 1u);
  }
}

TYPED_TEST_P(ExactContract, KeepsTheWaitingUnitsWhenTheRateChanges) {
  ExactCall call = this->call(Algorithm::kGcra, {{6, 10}});
  (void)this->decide(call);
  call.limit = 3;
  call.asks = {{4, 10}, {5, 10}};
  call.number = ++this->number_;
  const auto answer = this->decide(call);
  EXPECT_EQ(this->outcomes(answer), (std::vector{this->kYes, this->kNo}));
  EXPECT_EQ(this->decide(call).decisions, answer.decisions);
  call.limit = 7;
  call.asks = {{0, 10}, {1, 10}};
  call.number = ++this->number_;
  EXPECT_EQ(this->outcomes(this->decide(call)), (std::vector{this->kYes, this->kNo}));
}

TYPED_TEST_P(ExactContract, RemembersTheLastCallsOfManyWriters) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    std::vector<ExactCall> calls;
    for (uint64_t i = 0; i < kExactWriters; ++i) {
      calls.push_back(this->call(algorithm, {{1, 1000}}, {.incarnation = 100 + i}));
      (void)this->decide(calls.back());
    }
    for (const ExactCall& each : calls) (void)this->decide(each);
    EXPECT_EQ(this->decide(this->call(algorithm, {{0, 1000}})).decisions[0].remaining,
              1000 - kExactWriters);
    // With more writers the state stays right.
    for (uint64_t i = 0; i < 20; ++i) {
      (void)this->decide(this->call(algorithm, {{1, 1000}}, {.incarnation = 1000 + i}));
    }
    EXPECT_EQ(this->decide(this->call(algorithm, {{0, 1000}})).decisions[0].remaining,
              980 - kExactWriters);
  }
}

TYPED_TEST_P(ExactContract, ChargesOnceWhatAWriterAdmittedByItself) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    const auto tell = [&](Count own, Count acked, Component writer) {
      ExactCall call = this->call(algorithm, {{0, 20}}, writer);
      call.own = own;
      call.acked = acked;
      return call;
    };
    const ExactCall first = tell(6, 0, this->kNode);
    EXPECT_EQ(this->decide(first).charged, 6u);
    EXPECT_EQ(this->decide(first).charged, 6u) << "the answer to a repeated call";
    // The answer was lost: the writer does not know that it was charged.
    const auto second = this->decide(tell(9, 0, this->kNode));
    EXPECT_EQ(second.charged, 3u);
    EXPECT_EQ(second.decisions[0].remaining, 11u);
    EXPECT_EQ(this->decide(tell(4, 0, this->kSibling)).charged, 4u);
    const auto third = this->decide(tell(9, 9, this->kNode));
    EXPECT_EQ(third.charged, 0u);
    EXPECT_FALSE(third.changed);
    EXPECT_EQ(third.decisions[0].remaining, 7u);
  }
}

TYPED_TEST_P(ExactContract, ChargesWhatAWriterAdmittedByItselfAlsoIfItDoesNotFit) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    ExactCall call = this->call(algorithm, {{1, 10}, {0, 10}});
    call.own = 14;
    const auto answer = this->decide(call);
    EXPECT_EQ(this->outcomes(answer), (std::vector{this->kNo, this->kNo}));
    EXPECT_EQ(answer.decisions[1].remaining, 0u);
    // All 14 count: a larger capacity has 6 left.
    const auto larger = this->decide(this->call(algorithm, {{0, 20}}));
    EXPECT_EQ(larger.decisions[0].remaining, 6u);
  }
}

// More would deny all requests for as long as the origin was lost.
TYPED_TEST_P(ExactContract, RaisesABacklogToAtMostAQuarterAboveTheCapacityByWhatItIsTold) {
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket}) {
    const auto charged = [&](Count own, Component writer, Count acked = 0) {
      ExactCall call = this->call(algorithm, {{0, 10}}, writer);
      call.own = own;
      call.acked = acked;
      call.capacity = 10;
      return this->decide(call).charged;
    };
    EXPECT_EQ(charged(4, this->kNode), 4u);
    EXPECT_EQ(charged(1'000'000'000'000, this->kSibling), 9u) << "13 wait";
    EXPECT_EQ(charged(1'000'000'000'001, this->kSibling), 0u);
    EXPECT_EQ(charged(9, this->kNode), 0u);
    ExactCall larger = this->call(algorithm, {{0, 20}});
    larger.own = 100;
    larger.capacity = 20;
    EXPECT_EQ(this->decide(larger).charged, 12u);
    EXPECT_EQ(this->decide(this->call(algorithm, {{0, 30}})).decisions[0].remaining, 5u);
  }
}

TYPED_TEST_P(ExactContract, TellsAllWritersOfARefusal) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    const auto ask = [&](Count cost, Component writer, Millis strict_for = Millis(60'000)) {
      ExactCall call = this->call(algorithm, {{cost, 10}}, writer);
      call.strict_for = strict_for;
      return this->decide(call).strict;
    };
    EXPECT_FALSE(ask(4, this->kNode));
    EXPECT_FALSE(ask(11, this->kNode)) << "more than the capacity says nothing";
    EXPECT_FALSE(ask(0, this->kSibling));
    EXPECT_TRUE(ask(7, this->kNode));
    EXPECT_TRUE(ask(0, this->kSibling));
    EXPECT_FALSE(ask(0, this->kSibling, Millis(0)));
  }
}

TYPED_TEST_P(ExactContract, ChargesOnceWhatOtherRegionsAdmitted) {
  for (const Algorithm algorithm : this->kAlgorithms) {
    const auto charged = [&](int64_t sequence, Count current, Count last, Component writer) {
      ExactCall call = this->call(algorithm, {{0, 1000}}, writer);
      call.foreign_sequence = sequence;
      call.foreign = current;
      call.foreign_last = last;
      call.foreign_width = Millis(65'537);
      call.foreign_at_first = current + last / 2;
      call.foreign_most = 100;
      return this->decide(call).charged;
    };
    EXPECT_EQ(charged(7, 30, 20, this->kNode), 40u) << "of what is unknown, what may still count";
    EXPECT_EQ(charged(7, 30, 20, this->kSibling), 0u) << "whoever tells it";
    EXPECT_EQ(charged(7, 25, 20, this->kSibling), 0u) << "less than known";
    EXPECT_EQ(charged(7, 33, 21, this->kNode), 4u);
    EXPECT_EQ(charged(8, 5, 34, this->kNode), 6u) << "the next window";
    EXPECT_EQ(charged(7, 90, 90, this->kSibling), 0u) << "a process that is behind";
    EXPECT_EQ(charged(8, 500, 34, this->kNode), 100u) << "at most so much";
    EXPECT_EQ(charged(30, 10, 10, this->kNode), 15u) << "after a long time";
    EXPECT_EQ(this->decide(this->call(algorithm, {{0, 1000}})).decisions[0].remaining, 835u);
  }
}

REGISTER_TYPED_TEST_SUITE_P(ExactContract, GrantsWhatFitsInOrder,
                            ChargesOnceWhatOtherRegionsAdmitted,
                            ChargesOnceWhatAWriterAdmittedByItself,
                            ChargesWhatAWriterAdmittedByItselfAlsoIfItDoesNotFit,
                            RaisesABacklogToAtMostAQuarterAboveTheCapacityByWhatItIsTold,
                            TellsAllWritersOfARefusal, DecidesTheCallsOfAllWritersOnOneState,
                            ChargesARepeatedCallOnce, IgnoresACallThatIsOlderThanTheLastOfItsWriter,
                            ChangesNothingByAPeekOrADenial, KeepsTheWaitingUnitsWhenTheRateChanges,
                            RemembersTheLastCallsOfManyWriters);

}  // namespace weir::contracts

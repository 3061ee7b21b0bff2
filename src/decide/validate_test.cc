#include "decide/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "decide/all_algorithms_test.h"
#include "decide/engine.h"
#include "tests/doubles/manual_clock.h"

namespace weir::decide {
namespace {

Request valid() {
  return {.ns = "api", .identifier = "alice", .limit = 10, .duration = Millis(1000)};
}

struct Bad {
  std::string field;
  std::string mentions;
  std::function<void(Request&)> spoil;
};

constexpr Count kLargest = ~Count{0};
const std::string kLargestText = "18446744073709551615";
const std::string kTooLong(513, 'x');
const std::string kLongest(512, 'x');

std::vector<Bad> all_bad() {
  return {
      {"workspace", "513", [](Request& r) { r.workspace = kTooLong; }},
      {"namespace", "0 bytes", [](Request& r) { r.ns = ""; }},
      {"namespace", "513", [](Request& r) { r.ns = kTooLong; }},
      {"identifier", "0 bytes", [](Request& r) { r.identifier = ""; }},
      {"identifier", "513", [](Request& r) { r.identifier = kTooLong; }},
      {"limit", "0", [](Request& r) { r.limit = 0; }},
      {"limit", kLargestText, [](Request& r) { r.limit = kLargest; }},
      {"limit", "1000000000001", [](Request& r) { r.limit = kMaxLimit + 1; }},
      {"limit", "10001",
       [](Request& r) { r.limit = 10'001, r.algorithm = Algorithm::kSlidingLog; }},
      {"duration", "99 ms", [](Request& r) { r.duration = Millis(99); }},
      {"duration", "2592000001 ms", [](Request& r) { r.duration = kMaxDuration + Millis(1); }},
      {"duration", "-1 ms", [](Request& r) { r.duration = Millis(-1); }},
      {"cost", kLargestText, [](Request& r) { r.cost = kLargest; }},
      {"cost", "1000000000001", [](Request& r) { r.cost = kMaxLimit + 1; }},
      {"burst", "sliding_window has none", [](Request& r) { r.burst = 5; }},
      {"burst", "0", [](Request& r) { r.burst = 0, r.algorithm = Algorithm::kGcra; }},
      {"burst", "0", [](Request& r) { r.burst = 0, r.algorithm = Algorithm::kTokenBucket; }},
      {"burst", kLargestText,
       [](Request& r) { r.burst = kLargest, r.algorithm = Algorithm::kGcra; }},
      {"burst", "1000000000001",
       [](Request& r) { r.burst = kMaxLimit + 1, r.algorithm = Algorithm::kGcra; }},
      {"algorithm", "99", [](Request& r) { r.algorithm = static_cast<Algorithm>(99); }},
      {"across_durations", "sliding_window has one count per duration",
       [](Request& r) { r.across_durations = true; }},
      {"across_durations", "sliding_log",
       [](Request& r) { r.across_durations = true, r.algorithm = Algorithm::kSlidingLog; }},
      {"limit", "cannot be represented exactly",
       [](Request& r) {
         r.limit = 999'999'999'989, r.duration = kMaxDuration, r.algorithm = Algorithm::kGcra;
       }},
  };
}

TEST(Validate, ReportsFieldValueAndFixAndChangesNothing) {
  doubles::ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 100, .seed = 1});
  for (const Bad& bad : all_bad()) {
    Request request = valid();
    bad.spoil(request);
    const auto result = engine->check(clock.now(), request);
    ASSERT_FALSE(result.ok()) << bad.field << " " << bad.mentions;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().retry, Retry::kPointless);
    EXPECT_EQ(result.error().field, bad.field);
    EXPECT_NE(result.error().detail.find(bad.mentions), std::string::npos) << result.error().detail;
    EXPECT_FALSE(result.error().fix.empty());
  }
  EXPECT_EQ(engine->stats().tuples, 0u);
  EXPECT_EQ(engine->stats().admitted + engine->stats().denied, 0u);
}

TEST(Validate, AcceptsBothEndsOfEveryRange) {
  Request request = valid();
  request.workspace = request.ns = request.identifier = kLongest;
  request.limit = kMaxLimit;
  request.cost = kMaxLimit;
  request.duration = kMaxDuration;
  EXPECT_EQ(validate(request), nullptr);
  request.ns = request.identifier = "x";
  request.workspace = "";
  request.limit = 1;
  request.cost = 0;
  request.duration = kMinDuration;
  EXPECT_EQ(validate(request), nullptr);
  request.algorithm = Algorithm::kGcra;
  request.burst = 1;
  EXPECT_EQ(validate(request), nullptr);
  request.algorithm = Algorithm::kSlidingLog;
  request.burst.reset();
  request.limit = kMaxLogLimit;
  EXPECT_EQ(validate(request), nullptr);
}

TEST(Validate, RefusesAcrossDurationsExactlyForWindowAlgorithms) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    Request request = valid();
    request.algorithm = static_cast<Algorithm>(i);
    request.across_durations = true;
    const bool paced =
        request.algorithm == Algorithm::kGcra || request.algorithm == Algorithm::kTokenBucket;
    EXPECT_EQ(validate(request) == nullptr, paced) << to_string(request.algorithm);
  }
}

TEST(Validate, AcceptsTenYearsExactlyWithAcrossDurations) {
  for (const Algorithm algorithm : {Algorithm::kGcra, Algorithm::kTokenBucket}) {
    Request request = valid();
    request.algorithm = algorithm;
    request.duration = kMaxAnyDuration;
    EXPECT_EQ(validate(request)->field, "duration");
    request.across_durations = true;
    EXPECT_EQ(validate(request), nullptr);
    request.duration += Millis(1);
    EXPECT_EQ(validate(request)->detail, "duration is 315619200001 ms");
    // A rate that exact arithmetic cannot represent is refused, however small its numbers are.
    request.duration = kMaxAnyDuration - Millis(1);
    request.limit = 16'777'213;
    request.burst = 1;
    EXPECT_EQ(validate(request)->field, "limit");
  }
}

TEST(Validate, HasAFastCheckThatAcceptsOnlyValidRequests) {
  for (const Bad& bad : all_bad()) {
    Request request = valid();
    bad.spoil(request);
    EXPECT_FALSE(is_common_and_valid(request)) << bad.field << " " << bad.mentions;
  }
  EXPECT_TRUE(is_common_and_valid(valid()));
}

TEST(Validate, ReportsTheItemOfABatch) {
  doubles::ManualClock clock;
  const auto engine = Engine::make(clock, Options{.capacity = 100, .seed = 1});
  std::vector<Request> requests(3, valid());
  requests[2].cost = kLargest;
  const auto result = engine->check_all(clock.now(), requests);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, "requests[2].cost");
  EXPECT_EQ(engine->stats().tuples, 0u);
  for (const size_t size : {size_t{0}, kMaxBatch + 1}) {
    const auto wrong_size = engine->check_all(clock.now(), std::vector<Request>(size, valid()));
    ASSERT_FALSE(wrong_size.ok());
    EXPECT_EQ(wrong_size.error().field, "requests");
  }
  EXPECT_TRUE(engine->check_all(clock.now(), std::vector<Request>(kMaxBatch, valid())).ok());
}

TEST(Names, ConvertInBothDirections) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    EXPECT_EQ(algorithm_from(to_string(algorithm)), algorithm);
  }
  EXPECT_EQ(algorithm_from("leaky"), std::nullopt);
}

TEST(ErrorIn, ReportsOptionValueAndRange) {
  EXPECT_EQ(error_in(Options{}), std::nullopt);
  const auto message_of = [](const Options& options) {
    const auto error = error_in(options);
    return error ? error->detail + "; " + error->fix : "";
  };
  EXPECT_EQ(message_of({.read_deadline = Millis(0)}),
            "read_deadline is 0 ms; choose a read_deadline from 1 to 10000 ms");
  EXPECT_EQ(message_of({.max_freshness = Millis(9)}),
            "max_freshness is 9 ms; choose a max_freshness from 10 to 60000 ms");
  EXPECT_EQ(message_of({.replay_within = Millis(10'001)}),
            "replay_within is 10001 ms; choose a replay_within from 0 to 10000 ms");
  EXPECT_EQ(message_of({.capacity = 63}), "capacity is 63; choose a capacity from 64 to 268435456");
}

// Shorter leases would cost a row per tuple and second.
TEST(ErrorIn, RefusesALeaseThatIsTooShort) {
  const auto message_of = [](const SyncRules& rules) {
    const Options options{.ledger = make_null_ledger(), .sync = rules};
    const auto error = error_in(options);
    return error ? error->field + ": " + error->detail + "; " + error->fix : "";
  };
  EXPECT_EQ(message_of({}), "");
  EXPECT_EQ(message_of({.lease = Millis(7000)}), "");
  EXPECT_EQ(message_of({.lease = Millis(6999)}),
            "sync.lease: sync.lease is 6999 ms; "
            "choose a sync.lease from 7000 to 86400000 ms");
  // A lease covers whole windows, so it may end before the others know of it.
  EXPECT_EQ(message_of({.lease = Millis(7000), .import_every = Millis(10'150)}), "");
  EXPECT_EQ(message_of({.lease = Millis(6999), .import_every = Millis(10'150)}),
            "sync.lease: sync.lease is 6999 ms; "
            "choose a sync.lease from 7000 to 86400000 ms");
  // Without a ledger there are no leases.
  EXPECT_EQ(error_in(Options{.sync = {.lease = Millis(1)}}), std::nullopt);
}

TEST(Validate, AcceptsExactAndItsLossPolicyForEveryAlgorithm) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    Request request{.ns = "api",
                    .identifier = "caller",
                    .limit = 10,
                    .duration = Millis(1000),
                    .algorithm = algorithm,
                    .on_origin_loss = OnOriginLoss::kShare,
                    .consistency = Consistency::kExact};
    EXPECT_EQ(validate(request), nullptr) << to_string(algorithm);
    request.consistency.reset();
    EXPECT_EQ(validate(request), nullptr) << to_string(algorithm);
    request.consistency = Consistency::kRelaxed;
    const bool is_window = memory::class_of(algorithm) == memory::CellClass::kWindow;
    EXPECT_EQ(validate(request) == nullptr, is_window) << to_string(algorithm);
  }
}

TEST(Validate, RefusesAnExactBurstThatDrainsTooLate) {
  Request request{.ns = "api",
                  .identifier = "caller",
                  .limit = 1,
                  .duration = Millis(1 << 21),
                  .algorithm = Algorithm::kGcra,
                  .consistency = Consistency::kExact,
                  .burst = Count{1} << 30};
  EXPECT_EQ(validate(request), nullptr);
  request.burst = (Count{1} << 30) + 1;
  const auto error = validate(request);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->field, "burst");
  EXPECT_NE(error->detail.find("1073741825"), std::string::npos);
  request.consistency = Consistency::kConverge;
  EXPECT_EQ(validate(request), nullptr);
}

}  // namespace
}  // namespace weir::decide

// The fast path must decide as the slow path does.

#include "decide/fast_path.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decide/engine.h"
#include "decide/validate.h"
#include "memory/table.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::decide {
namespace {

const base::KeyedHash kSecret(7);

std::string name(size_t least, size_t most) {
  const auto size = *rc::gen::inRange<size_t>(least, most + 1);
  return *rc::gen::container<std::string>(size, rc::gen::element('a', 'b', '\0'));
}

// One of the others in one of six cases.
template <typename T>
T seldom(T usual, const std::vector<T>& others) {
  return *rc::gen::inRange(0, 6) == 0 ? *rc::gen::elementOf(others) : usual;
}

const std::vector<int64_t> kDurations{99, 100, kMaxDuration.count(), kMaxDuration.count() + 1,
                                      int64_t{1} << 33};

struct Names {
  std::string workspace = name(0, 9);
  std::string ns = name(1, 16);
  std::string identifier = name(1, 30);

  [[nodiscard]] Request request() const {
    return {.workspace = workspace,
            .ns = ns,
            .identifier = identifier,
            .limit = seldom<Count>(10, {0, 1, kMaxLimit, kMaxLimit + 1}),
            .duration = Millis(seldom<int64_t>(60'000, kDurations)),
            .cost = seldom<Count>(1, {~Count{0}, 0, 2, 10, kMaxLimit, kMaxLimit + 1}),
            .algorithm = static_cast<Algorithm>(*rc::gen::inRange(0, kAlgorithmCount + 1)),
            .on_origin_loss = seldom<std::optional<OnOriginLoss>>(
                std::nullopt, {OnOriginLoss::kDeny, static_cast<OnOriginLoss>(9)}),
            .across_durations = *rc::gen::inRange(0, 6) == 0,
            .burst = seldom<std::optional<Count>>(
                std::nullopt, {~Count{0}, 0, 1, 1 << 29, (1 << 29) + 1, kMaxLimit})};
  }
};

RC_GTEST_PROP(FastPath, TakesOnlyValidRequests, ()) {
  const Names names;
  const Request request = names.request();
  FastKey fast_key;
  const Path path = classify(request, kSecret, fast_key);
  RC_CLASSIFY(path == Path::kWindow, "a window");
  RC_CLASSIFY(path == Path::kBacklog, "a backlog");
  const bool valid = validate(request) == nullptr;
  if (path != Path::kSlow) RC_ASSERT(valid);
}

RC_GTEST_PROP(FastPath, FindsTheTupleThatItsKeyWouldFind, ()) {
  const Names names;
  Request request = names.request();
  request.duration = Millis(60'000);
  request.limit = 10;
  request.cost = 1;
  request.burst = std::nullopt;
  request.on_origin_loss = std::nullopt;
  FastKey fast_key;
  classify(request, kSecret, fast_key);
  const bool valid = validate(request) == nullptr;
  RC_PRE(valid && fast_key.header != 0);
  const memory::TupleKey key(request, kSecret);
  RC_ASSERT(fast_key.header == key.header().word);
  RC_ASSERT(fast_key.hash == key.hash());

  memory::Table table(64, memory::Scope::kProcess);
  const memory::Query query = memory::query_of(WallTime(Millis(1'000'000)), request);
  RC_ASSERT(table.create(key, query) == memory::CreateResult::kCreated);
  const epoch::Guard guard;
  const memory::Tuple tuple = table.find(key);
  const auto same = [&](const memory::Slot& slot) { return is_of(slot, fast_key, request); };
  RC_ASSERT(table.find(fast_key.hash, same) == tuple.slot);
  RC_ASSERT(table.find(fast_key.hash, table.prefetch_slot<std::memory_order_seq_cst>(fast_key.hash),
                       same) == tuple.slot);
  RC_ASSERT(table.find(fast_key.hash, nullptr, same) == tuple.slot);

  const Names others;
  Request other = request;
  other.workspace = others.workspace;
  other.ns = others.ns;
  other.identifier = others.identifier;
  FastKey other_key;
  classify(other, kSecret, other_key);
  RC_ASSERT(is_of(*tuple.slot, other_key, other) == (memory::TupleKey(other, kSecret) == key));
}

TEST(FastPath, TakesOrdinaryRequests) {
  FastKey fast_key;
  const Request ordinary{
      .ns = "api", .identifier = "alice", .limit = 10, .duration = Millis(60'000)};
  EXPECT_EQ(classify(ordinary, kSecret, fast_key), Path::kWindow);
  Request fixed = ordinary;
  fixed.algorithm = Algorithm::kFixedWindow;
  EXPECT_EQ(classify(fixed, kSecret, fast_key), Path::kWindow);
  Request longest = ordinary;
  const std::string identifier(48, 'x');  // 8 bytes for "api", 56 in all
  longest.identifier = identifier;
  EXPECT_EQ(classify(longest, kSecret, fast_key), Path::kWindow);
  Request throttled = ordinary;
  throttled.algorithm = Algorithm::kGcra;
  EXPECT_EQ(classify(throttled, kSecret, fast_key), Path::kBacklog);
  throttled.burst = 1'000'000;
  throttled.across_durations = true;
  EXPECT_EQ(classify(throttled, kSecret, fast_key), Path::kBacklog);
}

void expect_equal(const Verdict& a, const Verdict& b) {
  RC_ASSERT(a.outcome == b.outcome);
  RC_ASSERT(a.basis == b.basis);
  RC_ASSERT(a.limit == b.limit);
  RC_ASSERT(a.remaining == b.remaining);
  RC_ASSERT(a.reset == b.reset);
  RC_ASSERT(a.retry_after == b.retry_after);
  RC_ASSERT(a.evidence.own == b.evidence.own);
  RC_ASSERT(a.evidence.previous == b.evidence.previous);
}

// Sends the same requests to three engines in three ways. A batch of one takes the slow path.
void compare_paths(const std::vector<int64_t>& steps, memory::Scope scope,
                   const std::function<Request()>& draw) {
  doubles::ManualClock clock;
  const auto make = [&] {
    Options options{.capacity = 64, .seed = 1};
    if (scope == memory::Scope::kRegion) {
      options.origin = std::make_shared<origins::InProcessOrigin>(clock);
    }
    return Engine::make(clock, options);
  };
  const auto one = make();
  const auto each = make();
  const auto all = make();
  const std::vector<std::string> users{"a", "bob", "caroline-of-the-long-name"};
  for (int step = 0; step < 60; ++step) {
    const Millis by(*rc::gen::elementOf(steps));
    if (by < Millis(0)) {
      clock.step_wall(by);
    } else {
      clock.advance(by);
    }
    Request request = draw();
    request.ns = "api";
    request.identifier = users[*rc::gen::inRange<size_t>(0, users.size())];
    const Verdict expected = all->check_all(clock.now(), std::vector{request})->items.at(0);
    expect_equal(*one->check(clock.now(), request), expected);
    std::vector<Result<Verdict>> verdicts(1);
    each->check_each(clock.now(), std::vector{request}, verdicts);
    expect_equal(*verdicts[0], expected);
  }
  for (const auto& engine : {one, each}) {
    RC_ASSERT(engine->stats().admitted == all->stats().admitted);
    RC_ASSERT(engine->stats().denied == all->stats().denied);
  }
}

RC_GTEST_PROP(FastPath, DecidesAWindowAsABatchOfOneDoes, ()) {
  compare_paths({0, 0, 1, 40, 99, 100, 250}, memory::Scope::kProcess, [] {
    return Request{
        .limit = *rc::gen::inRange<Count>(1, 12),
        .duration = Millis(100),
        .cost = *rc::gen::inRange<Count>(1, 4),
        .algorithm = *rc::gen::element(Algorithm::kSlidingWindow, Algorithm::kFixedWindow)};
  });
}

// Also when the rate changes, which rebuilds a backlog, and when the clock is set back; with and
// without an origin, which is not read for it.
RC_GTEST_PROP(FastPath, DecidesABacklogAsABatchOfOneDoes, ()) {
  const auto scope = *rc::gen::element(memory::Scope::kProcess, memory::Scope::kRegion);
  compare_paths({0, 0, 0, 1, 7, 40, 100, 250, -1, -90, -500}, scope, [] {
    return Request{.limit = *rc::gen::element<Count>(3, 3, 3, 3, 7),
                   .duration = Millis(*rc::gen::element(100, 100, 100, 300)),
                   .cost = *rc::gen::inRange<Count>(1, 4),
                   .algorithm = *rc::gen::element(Algorithm::kGcra, Algorithm::kTokenBucket),
                   .across_durations = *rc::gen::arbitrary<bool>(),
                   .burst = *rc::gen::element<std::optional<Count>>(std::nullopt, 1, 5, 5, 5)};
  });
}

// A rate so fine that pulses reach no further than a hundred days.
RC_GTEST_PROP(FastPath, DecidesABacklogAsABatchOfOneDoesAlsoLongAfterItsStart, ()) {
  constexpr int64_t kDay = 24 * 60 * 60 * 1000;
  constexpr Count kFine = (1 << 29) - 1;
  compare_paths({0, 0, 1, 1000, 40 * kDay, 120 * kDay}, memory::Scope::kProcess, [&] {
    return Request{.limit = kFine,
                   .duration = Millis(1000),
                   .cost = *rc::gen::element<Count>(1, kFine / 2, kFine),
                   .algorithm = Algorithm::kGcra};
  });
}

}  // namespace
}  // namespace weir::decide

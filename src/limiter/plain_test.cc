// The short way must come to the same end as the long one.

#include "limiter/plain.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "limiter/engine.h"
#include "limiter/validate.h"
#include "memory/table.h"
#include "tests/doubles/hand_clock.h"

namespace weir::limiter {
namespace {

const base::KeyedHash kSecret(7);

std::string name(size_t least, size_t most) {
  const auto size = *rc::gen::inRange<size_t>(least, most + 1);
  return *rc::gen::container<std::string>(size, rc::gen::element('a', 'b', '\0'));
}

struct Names {
  std::string workspace = name(0, 9);
  std::string name_space = name(1, 16);
  std::string identifier = name(1, 30);

  [[nodiscard]] Request request() const {
    return {.workspace = workspace,
            .name_space = name_space,
            .identifier = identifier,
            .limit = *rc::gen::element<int64_t>(0, 1, 10, kMaxLimit, kMaxLimit + 1),
            .duration = Millis(*rc::gen::element<int64_t>(
                99, 100, 60'000, kMaxDuration.count(), kMaxDuration.count() + 1, int64_t{1} << 33)),
            .cost = *rc::gen::element<int64_t>(-1, 0, 1, 2, 10, kMaxLimit, kMaxLimit + 1),
            .algorithm = static_cast<Algorithm>(*rc::gen::inRange(0, kAlgorithmCount))};
  }
};

RC_GTEST_PROP(Plain, IsAlwaysValid, ()) {
  const Names names;
  const Request request = names.request();
  Plain plain;
  const bool valid = validate(request) == nullptr;
  if (plain_of(request, kSecret, plain)) RC_ASSERT(valid);
}

RC_GTEST_PROP(Plain, FindsTheTupleThatItsKeyWouldFind, ()) {
  const Names names;
  Request request = names.request();
  request.duration = Millis(60'000);
  request.limit = 10;
  Plain plain;
  plain_of(request, kSecret, plain);
  const bool valid = validate(request) == nullptr;
  RC_PRE(valid && plain.header != 0);
  const memory::TupleKey key(request, kSecret);
  RC_ASSERT(plain.header == key.header().word);
  RC_ASSERT(plain.hash == key.hash());

  memory::Table table(64, memory::Company::kAlone);
  const memory::Query query = memory::query_of(WallTime(Millis(1'000'000)), request);
  RC_ASSERT(table.create(key, query) == memory::Created::kYes);
  const platform::Pin pin;
  const memory::Tuple tuple = table.find(key);
  const auto same = [&](const memory::Slot& slot) { return is_of(slot, plain, request); };
  RC_ASSERT(table.find(plain.hash, same) == tuple.slot);
  RC_ASSERT(table.find(plain.hash, table.prefetch_slot(plain.hash), same) == tuple.slot);
  RC_ASSERT(table.find(plain.hash, nullptr, same) == tuple.slot);

  const Names others;
  Request other = request;
  other.workspace = others.workspace;
  other.name_space = others.name_space;
  other.identifier = others.identifier;
  Plain other_plain;
  plain_of(other, kSecret, other_plain);
  RC_ASSERT(is_of(*tuple.slot, other_plain, other) == (memory::TupleKey(other, kSecret) == key));
}

TEST(Plain, IsTheOrdinaryRequest) {
  Plain plain;
  const Request ordinary{
      .name_space = "api", .identifier = "alice", .limit = 10, .duration = Millis(60'000)};
  EXPECT_TRUE(plain_of(ordinary, kSecret, plain));
  Request fixed = ordinary;
  fixed.algorithm = Algorithm::kFixedWindow;
  EXPECT_TRUE(plain_of(fixed, kSecret, plain));
  Request longest = ordinary;
  const std::string identifier(48, 'x');  // 8 bytes for "api", 56 in all
  longest.identifier = identifier;
  EXPECT_TRUE(plain_of(longest, kSecret, plain));
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

// A batch of one goes the long way.
RC_GTEST_PROP(Plain, DecidesAsABatchOfOneDoes, ()) {
  doubles::HandClock clock;
  const Options options{.capacity = 64, .seed = 1};
  const auto one = Engine::make(clock, options);
  const auto each = Engine::make(clock, options);
  const auto all = Engine::make(clock, options);
  const std::vector<std::string> users{"a", "bob", "caroline-of-the-long-name"};
  for (int step = 0; step < 60; ++step) {
    clock.advance(Millis(*rc::gen::element(0, 0, 1, 40, 99, 100, 250)));
    const Request request{
        .name_space = "api",
        .identifier = users[*rc::gen::inRange<size_t>(0, users.size())],
        .limit = *rc::gen::inRange<int64_t>(1, 12),
        .duration = Millis(100),
        .cost = *rc::gen::inRange<int64_t>(1, 4),
        .algorithm = *rc::gen::element(Algorithm::kSlidingWindow, Algorithm::kFixedWindow)};
    const Verdict expected = all->check_all(clock.now(), std::vector{request})->items.at(0);
    expect_equal(*one->check(clock.now(), request), expected);
    std::vector<Result<Verdict>> verdicts(1);
    each->check_each(clock.now(), std::vector{request}, verdicts);
    expect_equal(*verdicts[0], expected);
  }
}

}  // namespace
}  // namespace weir::limiter

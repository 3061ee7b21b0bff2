#include "regional/allowance.h"

#include <gtest/gtest.h>

namespace weir::regional {
namespace {

using std::chrono::seconds;

constexpr Nanos kLongest = seconds(5);

MonoTime at(Nanos since_start) {
  return MonoTime(seconds(1000) + since_start);
}

// A process that joined at 0 and hears of `nodes` nodes now.
Membership hears(uint32_t nodes, Nanos now, Nanos joined = Nanos(0)) {
  return {.nodes = nodes, .since = at(joined), .heard_at = at(now)};
}

TEST(Allowance, IsAQuarterOfTheShareOfTheRemainder) {
  const Allowance of_three{.parts = 12};
  EXPECT_TRUE(of_three.covers(8, 100));
  EXPECT_FALSE(of_three.covers(9, 100));
}

TEST(Allowance, BelowTwoIsNone) {
  const Allowance of_three{.parts = 12};
  EXPECT_TRUE(of_three.covers(1, 24));
  EXPECT_FALSE(of_three.covers(1, 23));
}

TEST(Allowance, WithoutPartsCoversEverything) {
  EXPECT_TRUE(Allowance{.parts = 0}.covers(1'000'000, 0));
}

// 16 times the parts is 0 in 64 bits.
TEST(Allowance, OfSoManyPartsThatTheirProductOverflowsCoversNothing) {
  const Allowance none{.parts = uint64_t{1} << 60};
  for (Count taken = 1; taken <= 64; ++taken) {
    EXPECT_FALSE(none.covers(taken, Count{1} << 46)) << taken;
  }
}

TEST(AllowanceTerm, BeginsWhenAllOthersHaveHeardOfTheProcess) {
  AllowanceTerm term;
  EXPECT_FALSE(term.at(at(seconds(0))));
  term.update(hears(1, seconds(5)), at(seconds(5)), kLongest);
  EXPECT_FALSE(term.at(at(seconds(5))));
  term.update(hears(1, seconds(6)), at(seconds(6)), kLongest);
  EXPECT_EQ(term.at(at(seconds(6)))->parts, 4u);
}

TEST(AllowanceTerm, EndsWithoutHeartbeats) {
  AllowanceTerm term;
  term.update(hears(2, seconds(10)), at(seconds(10)), kLongest);
  EXPECT_TRUE(term.at(at(seconds(11))));
  EXPECT_FALSE(term.at(at(seconds(12))));
  EXPECT_EQ(term.last().parts, 8u);
}

TEST(AllowanceTerm, BeginsAgainAfterAGapInTheHeartbeats) {
  AllowanceTerm term;
  term.update(hears(2, seconds(10)), at(seconds(10)), kLongest);
  term.update(hears(2, seconds(20), seconds(20)), at(seconds(20)), kLongest);
  EXPECT_FALSE(term.at(at(seconds(20))));
}

// Processes that die one after the other, each with counts that nobody else knows: if n fell with
// them, the last ones would get larger and larger allowances.
TEST(AllowanceTerm, KeepsTheLargestNumberOfNodesForAnHour) {
  AllowanceTerm term;
  term.update(hears(10, seconds(10)), at(seconds(10)), kLongest);
  term.update(hears(4, seconds(15)), at(seconds(15)), kLongest);
  EXPECT_EQ(term.at(at(seconds(15)))->parts, 40u);
  term.update(hears(2, seconds(3610)), at(seconds(3610)), kLongest);
  EXPECT_EQ(term.at(at(seconds(3610)))->parts, 40u);
  term.update(hears(2, seconds(3611)), at(seconds(3611)), kLongest);
  EXPECT_EQ(term.at(at(seconds(3611)))->parts, 16u);
  term.update(hears(2, seconds(3616)), at(seconds(3616)), kLongest);
  EXPECT_EQ(term.at(at(seconds(3616)))->parts, 8u);
}

TEST(AllowanceTerm, HearsOfANewNodeAtOnce) {
  AllowanceTerm term;
  term.update(hears(2, seconds(10)), at(seconds(10)), kLongest);
  term.update(hears(3, seconds(11)), at(seconds(11)), kLongest);
  EXPECT_EQ(term.at(at(seconds(11)))->parts, 12u);
}

}  // namespace
}  // namespace weir::regional

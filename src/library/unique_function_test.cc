#include "weir/unique_function.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

namespace weir {
namespace {

TEST(UniqueFunction, CallsWhatItHoldsAndReturnsItsResult) {
  const UniqueFunction<int(int, int)> sum = [](int a, int b) { return a + b; };
  EXPECT_EQ(sum(2, 3), 5);
}

TEST(UniqueFunction, HoldsACallableThatCannotBeCopied) {
  UniqueFunction<int()> function = [value = std::make_unique<int>(7)] { return *value; };
  const UniqueFunction<int()> moved = std::move(function);
  EXPECT_EQ(moved(), 7);
  EXPECT_FALSE(function);
}

TEST(UniqueFunction, PassesArgumentsThatCannotBeCopied) {
  const UniqueFunction<int(std::unique_ptr<int>)> read = [](std::unique_ptr<int> value) {
    return *value;
  };
  EXPECT_EQ(read(std::make_unique<int>(9)), 9);
}

TEST(UniqueFunction, DestroysItsCallableOnceWhateverItsSize) {
  const auto counted = std::make_shared<int>(0);
  {
    UniqueFunction<void()> small = [counted] { ++*counted; };
    UniqueFunction<void()> large = [counted, ballast = std::array<char, 200>{}] {
      *counted += 1 + ballast[0];
    };
    EXPECT_EQ(counted.use_count(), 3);
    UniqueFunction<void()> other = std::move(large);
    other();
    small();
    small = std::move(other);
    EXPECT_EQ(counted.use_count(), 2);
    small();
    small = nullptr;
    EXPECT_EQ(counted.use_count(), 1);
  }
  EXPECT_EQ(*counted, 3);
}

TEST(UniqueFunction, IsEmptyIfItIsMadeOfSomethingEmpty) {
  EXPECT_FALSE(UniqueFunction<void()>());
  EXPECT_FALSE(UniqueFunction<void()>(nullptr));
  EXPECT_FALSE(UniqueFunction<void()>(std::function<void()>()));
  EXPECT_TRUE(UniqueFunction<void()>([] {}));
  EXPECT_TRUE(UniqueFunction<void()>() == nullptr);
}

TEST(UniqueFunction, KeepsStateBetweenCalls) {
  const UniqueFunction<int()> next = [count = 0]() mutable { return ++count; };
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 2);
}

TEST(UniqueFunctionDeathTest, EndsTheProcessIfAnEmptyOneIsCalled) {
  const UniqueFunction<void()> empty = nullptr;
  EXPECT_DEATH(empty(), "");
}

}  // namespace
}  // namespace weir

#include "frontends/loop_executor.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::frontends {
namespace {

using boost::asio::io_context;

TEST(LoopExecutor, RunsEachTaskOnceInWhateverOrderTheirTimesArePosted) {
  io_context io(1);
  LoopExecutor executor(io, system_clock());
  const MonoTime now = system_clock().now().mono;
  std::vector<int> ran(6, 0);
  for (const int after : {3, 1, 5, 2, 0, 4}) {
    executor.post_at(now + Millis(after), [&ran, after] { ++ran[static_cast<size_t>(after)]; });
  }
  io.run();  // returns when no timer is left
  EXPECT_EQ(ran, std::vector<int>(6, 1));
}

TEST(LoopExecutor, RunsNoTaskBeforeItsTime) {
  io_context io(1);
  LoopExecutor executor(io, system_clock());
  const MonoTime due = system_clock().now().mono + Millis(20);
  MonoTime ran{};
  executor.post_at(due, [&] { ran = system_clock().now().mono; });
  executor.post_at(due - Millis(15), [] {});  // wakes it earlier
  io.run();
  EXPECT_GE(ran, due);
}

TEST(LoopExecutor, ATaskMayPostTheNext) {
  io_context io(1);
  LoopExecutor executor(io, system_clock());
  int ran = 0;
  const MonoTime now = system_clock().now().mono;
  executor.post_at(now, [&] {
    ++ran;
    executor.post_at(now, [&] { ++ran; });
    executor.post([&] { ++ran; });
  });
  io.run();
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace weir::frontends

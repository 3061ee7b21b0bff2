#include "server/state_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/doubles/manual_clock.h"
#include "tests/servers/temporary_folder.h"

namespace weir::server {
namespace {

namespace fs = std::filesystem;

class StateFileTest : public ::testing::Test {
 protected:
  static Request request(const std::string& identifier, Count cost) {
    return {.ns = "api",
            .identifier = identifier,
            .limit = 100,
            .duration = Millis(600'000),
            .cost = cost,
            .algorithm = Algorithm::kGcra};
  }
  static void spend(Limiter& limiter, const std::string& identifier, Count cost) {
    ASSERT_TRUE(limiter.check(request(identifier, cost))->admitted());
  }
  Count remaining_after_restart(const std::string& identifier) {
    Limiter limiter = Limiter::create(clock_, {.capacity = 1000}).value();
    StateFile(clock_, file_).restore(limiter);
    return limiter.check(request(identifier, 0))->remaining;
  }

  const servers::TemporaryFolder folder_{"state_file"};
  const std::string file_ = folder_.path() / "state.log";
  doubles::ManualClock clock_;
  Limiter limiter_ = Limiter::create(clock_, {.capacity = 1000}).value();
};

TEST_F(StateFileTest, HasTheLastSavedState) {
  StateFile state(clock_, file_);
  for (int i = 0; i < 5; ++i) {
    spend(limiter_, "a", 10);
    spend(limiter_, "b", 1);
    ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
  }
  EXPECT_EQ(remaining_after_restart("a"), 50u);
  EXPECT_EQ(remaining_after_restart("b"), 95u);
  EXPECT_EQ(remaining_after_restart("c"), 100u);
}

TEST_F(StateFileTest, AppendsChangesAndIsRewrittenWhenLarge) {
  StateFile state(clock_, file_);
  ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
  const auto empty = fs::file_size(file_);
  spend(limiter_, "a", 1);
  ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
  const auto one = fs::file_size(file_) - empty;
  ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
  EXPECT_EQ(fs::file_size(file_), empty + one);
  spend(limiter_, "a", 1);
  ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
  EXPECT_EQ(fs::file_size(file_), empty + 2 * one);
  ASSERT_TRUE(state.save(limiter_, Saving::kAll));
  EXPECT_EQ(fs::file_size(file_), empty + one);
  // 4 MiB and more of one tuple, whose record is large.
  Request log{.ns = "api",
              .identifier = "log",
              .limit = 5000,
              .duration = Millis(600'000),
              .algorithm = Algorithm::kSlidingLog};
  bool shrank = false;
  uint64_t largest = 0;
  for (int i = 0; i < 4000 && !shrank; ++i) {
    clock_.advance(Millis(1));
    ASSERT_TRUE(limiter_.check(log)->admitted());
    if (i < 2000) continue;
    ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
    shrank = fs::file_size(file_) < largest;
    largest = std::max<uint64_t>(largest, fs::file_size(file_));
  }
  EXPECT_TRUE(shrank);
  EXPECT_LT(largest, 5u << 20);
}

TEST_F(StateFileTest, IsReadUpToTheFirstIncompleteRecord) {
  {
    StateFile state(clock_, file_);
    spend(limiter_, "a", 10);
    ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
    spend(limiter_, "a", 10);
    ASSERT_TRUE(state.save(limiter_, Saving::kChanged));
  }
  const auto whole = fs::file_size(file_);
  fs::resize_file(file_, whole - 1);
  EXPECT_EQ(remaining_after_restart("a"), 90u);
  fs::resize_file(file_, 5);
  EXPECT_EQ(remaining_after_restart("a"), 100u);
  fs::remove(file_);
  EXPECT_EQ(remaining_after_restart("a"), 100u);
}

TEST_F(StateFileTest, ReportsWriteErrorsAndRewritesAfterwards) {
  const fs::path away = folder_.path() / "away";
  StateFile state(clock_, away / "state.log");
  spend(limiter_, "a", 10);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(state.save(limiter_, Saving::kChanged));
  EXPECT_FALSE(state.save(limiter_, Saving::kChanged));
  fs::create_directory(away);
  EXPECT_TRUE(state.save(limiter_, Saving::kChanged));
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("cannot write " + (away / "state.log").string() + ": No such file"),
            std::string::npos)
      << logged;
  EXPECT_EQ(logged.find("cannot write"), logged.rfind("cannot write"));
  EXPECT_NE(logged.find("works again"), std::string::npos);
  Limiter limiter = Limiter::create(clock_, {.capacity = 1000}).value();
  StateFile(clock_, away / "state.log").restore(limiter);
  EXPECT_EQ(limiter.check(request("a", 0))->remaining, 90u);
}

TEST_F(StateFileTest, IsAccessibleOnlyForItsOwnerAndWrittenByAThread) {
  Limiter limiter = Limiter::create(system_clock(), {.capacity = 1000}).value();
  StateFile state(system_clock(), file_);
  spend(limiter, "a", 10);
  state.start(limiter);
  spend(limiter, "a", 10);
  state.stop();
  struct stat status {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  Limiter again = Limiter::create(system_clock(), {.capacity = 1000}).value();
  StateFile(system_clock(), file_).restore(again);
  EXPECT_EQ(again.check(request("a", 0))->remaining, 80u);
}

}  // namespace
}  // namespace weir::server

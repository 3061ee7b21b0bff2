#include "server/kept_state.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/doubles/hand_clock.h"
#include "tests/servers/temporary_folder.h"

namespace weir::server {
namespace {

namespace fs = std::filesystem;

class KeptStateFile : public ::testing::Test {
 protected:
  static Request request(const std::string& who, int64_t cost) {
    return {.ns = "api",
            .identifier = who,
            .limit = 100,
            .duration = Millis(600'000),
            .cost = cost,
            .algorithm = Algorithm::kGcra};
  }
  static void spend(Limiter& limiter, const std::string& who, int64_t cost) {
    ASSERT_TRUE(limiter.check(request(who, cost))->admitted());
  }
  Count left_after_restart(const std::string& who) {
    Limiter limiter = Limiter::create(clock_, {.capacity = 1000}).value();
    KeptState(clock_, file_).restore(limiter);
    return limiter.check(request(who, 0))->remaining;
  }

  const servers::TemporaryFolder folder_{"kept_state"};
  const std::string file_ = folder_.path() / "state.log";
  doubles::HandClock clock_;
  Limiter limiter_ = Limiter::create(clock_, {.capacity = 1000}).value();
};

TEST_F(KeptStateFile, HoldsWhatWasSavedLast) {
  KeptState kept(clock_, file_);
  for (int i = 0; i < 5; ++i) {
    spend(limiter_, "a", 10);
    spend(limiter_, "b", 1);
    ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
  }
  EXPECT_EQ(left_after_restart("a"), 50u);
  EXPECT_EQ(left_after_restart("b"), 95u);
  EXPECT_EQ(left_after_restart("c"), 100u);
}

TEST_F(KeptStateFile, GrowsOnlyByWhatChangedAndIsWrittenAnewWhenItHasGrown) {
  KeptState kept(clock_, file_);
  ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
  const auto empty = fs::file_size(file_);
  spend(limiter_, "a", 1);
  ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
  const auto one = fs::file_size(file_) - empty;
  ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
  EXPECT_EQ(fs::file_size(file_), empty + one);
  spend(limiter_, "a", 1);
  ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
  EXPECT_EQ(fs::file_size(file_), empty + 2 * one);
  ASSERT_TRUE(kept.save(limiter_, Saving::kAll));
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
    ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
    shrank = fs::file_size(file_) < largest;
    largest = std::max<uint64_t>(largest, fs::file_size(file_));
  }
  EXPECT_TRUE(shrank);
  EXPECT_LT(largest, 5u << 20);
}

TEST_F(KeptStateFile, IsReadUpToTheRecordThatIsNotWhole) {
  {
    KeptState kept(clock_, file_);
    spend(limiter_, "a", 10);
    ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
    spend(limiter_, "a", 10);
    ASSERT_TRUE(kept.save(limiter_, Saving::kChanged));
  }
  const auto whole = fs::file_size(file_);
  fs::resize_file(file_, whole - 1);
  EXPECT_EQ(left_after_restart("a"), 90u);
  fs::resize_file(file_, 5);
  EXPECT_EQ(left_after_restart("a"), 100u);
  fs::remove(file_);
  EXPECT_EQ(left_after_restart("a"), 100u);
}

TEST_F(KeptStateFile, SaysThatItCannotBeWrittenAndWritesAllOnceItCan) {
  const fs::path away = folder_.path() / "away";
  KeptState kept(clock_, away / "state.log");
  spend(limiter_, "a", 10);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(kept.save(limiter_, Saving::kChanged));
  EXPECT_FALSE(kept.save(limiter_, Saving::kChanged));
  fs::create_directory(away);
  EXPECT_TRUE(kept.save(limiter_, Saving::kChanged));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cannot write " + (away / "state.log").string() + ": No such file"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("cannot write"), said.rfind("cannot write"));
  EXPECT_NE(said.find("is written again"), std::string::npos);
  Limiter limiter = Limiter::create(clock_, {.capacity = 1000}).value();
  KeptState(clock_, away / "state.log").restore(limiter);
  EXPECT_EQ(limiter.check(request("a", 0))->remaining, 90u);
}

TEST_F(KeptStateFile, IsForItsOwnerOnlyAndWrittenByAThread) {
  Limiter limiter = Limiter::create(system_clock(), {.capacity = 1000}).value();
  KeptState kept(system_clock(), file_);
  spend(limiter, "a", 10);
  kept.start(limiter);
  spend(limiter, "a", 10);
  kept.stop();
  struct stat status {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  Limiter again = Limiter::create(system_clock(), {.capacity = 1000}).value();
  KeptState(system_clock(), file_).restore(again);
  EXPECT_EQ(again.check(request("a", 0))->remaining, 80u);
}

}  // namespace
}  // namespace weir::server

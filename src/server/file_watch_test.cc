#include "server/file_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/servers/temporary_folder.h"

namespace weir::server {
namespace {

TEST(FileWatch, ReportsAChangeOnceItIsComplete) {
  const servers::TemporaryFolder folder("watch");
  const std::string path = folder.path() / "file";
  std::ofstream(path) << "a";
  FileWatch watch(path);
  EXPECT_FALSE(watch.has_changed());
  std::ofstream(path) << "ab";
  EXPECT_FALSE(watch.has_changed()) << "it may still be written";
  EXPECT_TRUE(watch.has_changed());
  EXPECT_FALSE(watch.has_changed());
  std::filesystem::remove(path);
  EXPECT_FALSE(watch.has_changed());
  EXPECT_TRUE(watch.has_changed());
  std::ofstream(path) << "ab";
  EXPECT_FALSE(watch.has_changed());
  EXPECT_TRUE(watch.has_changed());
}

TEST(FileWatch, WatchesNothingWithoutAPath) {
  FileWatch watch("");
  EXPECT_FALSE(watch.has_changed());
  EXPECT_FALSE(watch.has_changed());
}

}  // namespace
}  // namespace weir::server

#include "server/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace weir::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DataFolder : public ::testing::Test {
 protected:
  DataFolder() { fs::remove_all(base_); }
  ~DataFolder() override { fs::remove_all(base_); }

  // Tests run at the same time, each in a process of its own.
  const fs::path base_ =
      fs::path(testing::TempDir()) / ("weir_data_folder_" + std::to_string(getpid()));
  const std::string folder_ = base_ / "a" / "b";

  std::string load_error() {
    try {
      const RootKey key = open_root_key(folder_);
      return key.fresh ? "made a key" : "found a key";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
};

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(DataFolder, CreatesAKeyAndStoresOnlyItsHash) {
  const RootKey key = open_root_key(folder_);
  ASSERT_TRUE(key.fresh.has_value());
  EXPECT_EQ(key.hash, rules::hash_of(*key.fresh));
  EXPECT_EQ(content(root_key_path(folder_)), rules::to_hex(key.hash) + "\n");
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    ++files;
    EXPECT_EQ(content(entry.path()).find(*key.fresh), std::string::npos);
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(DataFolder, IsAccessibleOnlyForItsOwner) {
  ASSERT_TRUE(open_root_key(folder_).fresh);
  EXPECT_EQ(fs::status(root_key_path(folder_)).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

TEST_F(DataFolder, ReturnsTheSameHashAtTheSecondStartWithoutTheKey) {
  const RootKey first = open_root_key(folder_);
  const RootKey second = open_root_key(folder_);
  EXPECT_EQ(second.hash, first.hash);
  EXPECT_FALSE(second.fresh.has_value());
}

TEST_F(DataFolder, CreatesAnotherKeyAfterTheFileWasRemoved) {
  const RootKey first = open_root_key(folder_);
  fs::remove(root_key_path(folder_));
  const RootKey second = open_root_key(folder_);
  ASSERT_TRUE(second.fresh.has_value());
  EXPECT_NE(second.hash, first.hash);
}

TEST_F(DataFolder, KeepsThePermissionsOfAnExistingFolder) {
  fs::create_directories(folder_);
  const auto before = fs::status(folder_).permissions();
  ASSERT_TRUE(open_root_key(folder_).fresh);
  EXPECT_EQ(fs::status(folder_).permissions(), before);
}

TEST_F(DataFolder, RefusesAFileWithoutAHashAndKeepsIt) {
  ASSERT_TRUE(open_root_key(folder_).fresh);
  const std::string path = root_key_path(folder_);
  const std::string right = content(path);
  for (const std::string& invalid :
       {std::string(), std::string("not a hash"), right.substr(0, 63), "x" + right}) {
    std::ofstream(path) << invalid;
    EXPECT_THAT(load_error(), HasSubstr(path + " does not contain the hash of a key; remove it"));
    EXPECT_EQ(content(path), invalid);
  }
  std::ofstream(path) << right;
  EXPECT_EQ(load_error(), "found a key");
}

TEST_F(DataFolder, DoesNotReplaceAnUnreadableFile) {
  fs::create_directories(folder_);
  const std::string path = root_key_path(folder_);
  fs::create_symlink(base_ / "nowhere", path);
  EXPECT_THAT(load_error(), HasSubstr("cannot read " + path));
  EXPECT_TRUE(fs::is_symlink(path));
}

TEST_F(DataFolder, ReportsWhyItCannotBeCreated) {
  fs::create_directories(base_);
  std::ofstream(base_ / "a") << "a file where a folder should be";
  EXPECT_THAT(load_error(), HasSubstr("cannot create the folder " + folder_ +
                                      ": Not a directory; "
                                      "choose another folder with --data"));
}

TEST_F(DataFolder, CreatesOneKeyForConcurrentStarts) {
  constexpr int kStarts = 8;
  std::vector<RootKey> keys(kStarts);
  std::vector<std::thread> starts;
  for (RootKey& key : keys) starts.emplace_back([&] { key = open_root_key(folder_); });
  for (std::thread& start : starts) start.join();
  int fresh = 0;
  for (const RootKey& key : keys) {
    fresh += key.fresh.has_value() ? 1 : 0;
    EXPECT_EQ(key.hash, keys[0].hash);
  }
  EXPECT_EQ(fresh, 1);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);  // no temporary file is left
}

TEST_F(DataFolder, IsLockedByOneProcess) {
  ASSERT_EQ(make_folder(folder_), "");
  const auto refusal = [&]() -> std::string {
    try {
      const FolderLock lock(folder_);
      return {};
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  {
    const FolderLock first(folder_);
    EXPECT_EQ(refusal(), "data is '" + folder_ + "': process " + std::to_string(getpid()) +
                             " already uses it; stop it, or choose another folder with --data");
    std::ofstream(lock_path(folder_)) << "";
    EXPECT_THAT(refusal(), HasSubstr("another process already uses it"));
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(DataFolder, IsNotAFile) {
  fs::create_directories(base_);
  EXPECT_NO_THROW(expect_folder(base_));
  EXPECT_NO_THROW(expect_folder(base_ / "not made yet"));
  std::ofstream(base_ / "file") << "";
  EXPECT_THROW(expect_folder(base_ / "file"), std::runtime_error);
}

}  // namespace
}  // namespace weir::server

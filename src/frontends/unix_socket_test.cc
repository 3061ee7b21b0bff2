#include "frontends/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weir::frontends {
namespace {

class UnixSocketTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = ::testing::TempDir() + "weir-unix-" + std::to_string(getpid());
  std::string path_ = folder_ + "/resp.sock";
};

TEST_F(UnixSocketTest, IsForOwnerAndGroupAndRemovedWithItsObject) {
  {
    const auto socket = UnixSocket::open(path_);
    ASSERT_TRUE(socket.ok());
    struct stat file {};
    ASSERT_EQ(stat(path_.c_str(), &file), 0);
    EXPECT_TRUE(S_ISSOCK(file.st_mode));
    EXPECT_EQ(file.st_mode & 0777, 0660u);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketTest, IsNotReplacedWhileAnotherProcessListens) {
  const auto first = UnixSocket::open(path_);
  ASSERT_TRUE(first.ok());
  const auto second = UnixSocket::open(path_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().detail,
            "cannot listen at the Unix socket " + path_ + ": another process listens there");
  EXPECT_EQ(second.error().fix, "choose another path, or stop that process");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketTest, ReplacesAStaleSocket) {
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(left);
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(UnixSocket::open(path_).ok());
}

TEST_F(UnixSocketTest, DoesNotRemoveTheFileOfASuccessor) {
  auto first = UnixSocket::open(path_);
  ASSERT_TRUE(first.ok());
  (*first)->close_listener();  // no loop has a duplicate: connecting fails
  const auto second = UnixSocket::open(path_);
  ASSERT_TRUE(second.ok());
  first.value().reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketTest, DoesNotRemoveAFileThatIsNotASocket) {
  std::ofstream(path_) << "precious";
  const auto opened = UnixSocket::open(path_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().detail,
            "cannot listen at the Unix socket " + path_ + ": the file is not a socket");
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
}

TEST_F(UnixSocketTest, NamesTheRemedyForAnInvalidPath) {
  const auto nowhere = UnixSocket::open(folder_ + "/none/resp.sock");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().fix, "create its folder first");
  for (const size_t size : {size_t{0}, kMaxSocketPath + 1}) {
    const auto wrong = UnixSocket::open(std::string(size, 'x'));
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().fix, "give it 1 to 107");
  }
}

}  // namespace
}  // namespace weir::frontends

// The live demo on a pseudo-terminal. The demo must restore the terminal however it ends.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "weir/clock.h"

namespace weir::demo {
namespace {

using testing::HasSubstr;
using testing::Not;

// One demo on one terminal. The test holds both ends, so the terminal outlives the demo.
class LiveDemo {
 public:
  explicit LiveDemo(std::vector<std::string> options = {}) {
    winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    ::tcgetattr(slave_, &before_);
    options.insert(options.begin(), {WEIR_DEMO_BINARY});
    pid_ = ::fork();
    if (pid_ == 0) exec_demo(options);
  }

  ~LiveDemo() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(master_);
    ::close(slave_);
  }

  void type(std::string_view keys) {
    EXPECT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void send(int signal) { ::kill(pid_, signal); }

  // Reads until the text appears after the text of the last call; false after a timeout.
  [[nodiscard]] bool shows(std::string_view text) {
    const MonoTime deadline = system_clock().now().mono + kTimeout;
    while (shown_.find(text, seen_) == shown_.npos) {
      const bool more = read_more(kTimeout);
      if (!more || system_clock().now().mono > deadline) return false;
    }
    seen_ = shown_.find(text, seen_) + text.size();
    return true;
  }

  // Reads all output and returns the wait status.
  int wait() {
    int status = -1;
    // The buffer of the terminal is small: without a reader the demo would block.
    while (::waitpid(pid_, &status, WNOHANG) == 0) (void)read_more(Millis{10});
    ended_ = true;
    while (read_more(Millis{0})) {
    }
    return status;
  }

  [[nodiscard]] const std::string& shown() const { return shown_; }

  [[nodiscard]] bool is_raw() const { return (settings().c_lflag & (ECHO | ICANON | ISIG)) == 0; }
  [[nodiscard]] bool is_restored() const {
    const termios now = settings();
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag &&
           std::memcmp(now.c_cc, before_.c_cc, sizeof(now.c_cc)) == 0;
  }

 private:
  // Only reached if the demo is broken.
  static constexpr Millis kTimeout{20'000};

  [[noreturn]] void exec_demo(const std::vector<std::string>& options) const {
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
    ::close(master_);
    ::login_tty(slave_);
    std::vector<char*> arguments;
    for (const std::string& option : options)
      arguments.push_back(const_cast<char*>(option.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }

  bool read_more(Millis at_most) {
    pollfd screen = {.fd = master_, .events = POLLIN, .revents = 0};
    if (::poll(&screen, 1, static_cast<int>(at_most.count())) <= 0) return false;
    char chunk[4096];
    const ssize_t count = ::read(master_, chunk, sizeof(chunk));
    if (count <= 0) return false;
    shown_.append(chunk, static_cast<size_t>(count));
    return true;
  }

  [[nodiscard]] termios settings() const {
    termios now = {};
    ::tcgetattr(slave_, &now);
    return now;
  }

  int master_ = -1;
  int slave_ = -1;
  termios before_ = {};
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string shown_;
  size_t seen_ = 0;
};

constexpr std::string_view kLastLine = "q quit";

void expect_clean_end(LiveDemo& demo) {
  const int status = demo.wait();
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(demo.is_restored());
  EXPECT_THAT(demo.shown(), HasSubstr("\x1b[?25h\x1b[?1049l"));  // restores cursor and screen
}

TEST(LiveDemo, SetsRawModeAndShowsEveryAlgorithm) {
  LiveDemo demo;
  ASSERT_TRUE(demo.shows(kLastLine));
  EXPECT_TRUE(demo.is_raw());
  for (const char* name : {"sliding_window", "sliding_window_strict", "fixed_window", "sliding_log",
                           "gcra", "token_bucket"}) {
    EXPECT_THAT(demo.shown(), HasSubstr(name));
  }
}

TEST(LiveDemo, RestoresTheTerminalOnQAndPrintsTheTotals) {
  LiveDemo demo({"--rate", "0"});
  ASSERT_TRUE(demo.shows(kLastLine));
  demo.type("  ");
  ASSERT_TRUE(demo.shows("20 offered"));
  demo.type("q");
  expect_clean_end(demo);
  EXPECT_TRUE(demo.shows("20 requests offered"));
}

TEST(LiveDemo, RestoresTheTerminalOnCtrlC) {
  LiveDemo demo;
  ASSERT_TRUE(demo.shows(kLastLine));
  demo.type("\x03");
  expect_clean_end(demo);
}

TEST(LiveDemo, RestoresTheTerminalOnTerminationSignals) {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT}) {
    LiveDemo demo;
    ASSERT_TRUE(demo.shows(kLastLine));
    demo.send(signal);
    expect_clean_end(demo);
  }
}

TEST(LiveDemo, RestoresTheTerminalAfterACrash) {
  for (const int signal : {SIGABRT, SIGSEGV}) {
    LiveDemo demo;
    ASSERT_TRUE(demo.shows(kLastLine));
    demo.send(signal);
    const int status = demo.wait();
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_TRUE(demo.is_restored());
  }
}

TEST(LiveDemo, EndsAfterTheGivenSeconds) {
  LiveDemo demo({"--seconds", "1"});
  expect_clean_end(demo);
}

TEST(LiveDemo, ChangesLimitWindowAndRateWithKeys) {
  LiveDemo demo({"--limit", "10", "--rate", "0"});
  ASSERT_TRUE(demo.shows("limit 10 per 5 s"));
  demo.type("+");
  EXPECT_TRUE(demo.shows("limit 11 per 5 s"));
  demo.type("w");
  EXPECT_TRUE(demo.shows("limit 11 per 10 s"));
  demo.type("7");
  EXPECT_TRUE(demo.shows("7 requests per second"));
}

TEST(LiveDemo, IgnoresTheDigitsOfFunctionKeys) {
  LiveDemo demo({"--rate", "0"});
  ASSERT_TRUE(demo.shows(kLastLine));
  demo.type("\x1b[15~");  // F5
  demo.type("+");
  ASSERT_TRUE(demo.shows("limit 11"));
  EXPECT_THAT(demo.shown(), Not(HasSubstr("per second")));
}

}  // namespace
}  // namespace weir::demo

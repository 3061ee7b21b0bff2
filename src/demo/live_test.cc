// The live demo on a terminal of the test's own: however it ends, the terminal must be
// as it was.

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
    EXPECT_EQ(::openpty(&person_, &program_, nullptr, nullptr, &size), 0);
    ::tcgetattr(program_, &before_);
    options.insert(options.begin(), {WEIR_DEMO_BINARY});
    pid_ = ::fork();
    if (pid_ == 0) become(options);
  }

  ~LiveDemo() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(person_);
    ::close(program_);
  }

  void type(std::string_view keys) {
    EXPECT_EQ(::write(person_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void send(int signal) { ::kill(pid_, signal); }

  // Reads on until the words have been shown since the last call.
  [[nodiscard]] bool shows(std::string_view words) {
    const MonoTime give_up = system_clock().now().mono + kPatience;
    while (shown_.find(words, seen_) == shown_.npos) {
      const bool more = read_more(kPatience);
      if (!more || system_clock().now().mono > give_up) return false;
    }
    seen_ = shown_.find(words, seen_) + words.size();
    return true;
  }

  // The wait status of the ended demo, all it showed read.
  int wait() {
    int status = -1;
    // The terminal's buffer is small: a demo nobody reads would never end.
    while (::waitpid(pid_, &status, WNOHANG) == 0) (void)read_more(Millis{10});
    ended_ = true;
    while (read_more(Millis{0})) {
    }
    return status;
  }

  [[nodiscard]] const std::string& shown() const { return shown_; }

  [[nodiscard]] bool is_raw() const { return (settings().c_lflag & (ECHO | ICANON | ISIG)) == 0; }
  [[nodiscard]] bool is_as_before() const {
    const termios now = settings();
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag &&
           std::memcmp(now.c_cc, before_.c_cc, sizeof(now.c_cc)) == 0;
  }

 private:
  // Only a broken demo is waited for this long.
  static constexpr Millis kPatience{20'000};

  [[noreturn]] void become(const std::vector<std::string>& words) const {
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
    ::close(person_);
    ::login_tty(program_);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }

  bool read_more(Millis at_most) {
    pollfd screen = {.fd = person_, .events = POLLIN, .revents = 0};
    if (::poll(&screen, 1, static_cast<int>(at_most.count())) <= 0) return false;
    char chunk[4096];
    const ssize_t count = ::read(person_, chunk, sizeof(chunk));
    if (count <= 0) return false;
    shown_.append(chunk, static_cast<size_t>(count));
    return true;
  }

  [[nodiscard]] termios settings() const {
    termios now = {};
    ::tcgetattr(program_, &now);
    return now;
  }

  int person_ = -1;
  int program_ = -1;
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
  EXPECT_TRUE(demo.is_as_before());
  EXPECT_THAT(demo.shown(), HasSubstr("\x1b[?25h\x1b[?1049l"));  // cursor and screen are back
}

TEST(LiveDemo, TakesTheTerminalOverAndShowsEveryAlgorithm) {
  LiveDemo demo;
  ASSERT_TRUE(demo.shows(kLastLine));
  EXPECT_TRUE(demo.is_raw());
  for (const char* name : {"sliding_window", "sliding_window_strict", "fixed_window", "sliding_log",
                           "gcra", "token_bucket"}) {
    EXPECT_THAT(demo.shown(), HasSubstr(name));
  }
}

TEST(LiveDemo, GivesTheTerminalBackOnQAndLeavesTheTotals) {
  LiveDemo demo({"--rate", "0"});
  ASSERT_TRUE(demo.shows(kLastLine));
  demo.type("  ");
  ASSERT_TRUE(demo.shows("20 offered"));
  demo.type("q");
  expect_clean_end(demo);
  EXPECT_TRUE(demo.shows("20 requests offered"));
}

TEST(LiveDemo, GivesTheTerminalBackOnCtrlC) {
  LiveDemo demo;
  ASSERT_TRUE(demo.shows(kLastLine));
  demo.type("\x03");
  expect_clean_end(demo);
}

TEST(LiveDemo, GivesTheTerminalBackOnPoliteSignals) {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT}) {
    LiveDemo demo;
    ASSERT_TRUE(demo.shows(kLastLine));
    demo.send(signal);
    expect_clean_end(demo);
  }
}

TEST(LiveDemo, GivesTheTerminalBackWhenItCrashes) {
  for (const int signal : {SIGABRT, SIGSEGV}) {
    LiveDemo demo;
    ASSERT_TRUE(demo.shows(kLastLine));
    demo.send(signal);
    const int status = demo.wait();
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_TRUE(demo.is_as_before());
  }
}

TEST(LiveDemo, EndsByItselfAfterTheGivenSeconds) {
  LiveDemo demo({"--seconds", "1"});
  expect_clean_end(demo);
}

TEST(LiveDemo, ChangesLimitWindowAndRateOnKeys) {
  LiveDemo demo({"--limit", "10", "--rate", "0"});
  ASSERT_TRUE(demo.shows("limit 10 per 5 s"));
  demo.type("+");
  EXPECT_TRUE(demo.shows("limit 11 per 5 s"));
  demo.type("w");
  EXPECT_TRUE(demo.shows("limit 11 per 10 s"));
  demo.type("7");
  EXPECT_TRUE(demo.shows("7 requests a second"));
}

TEST(LiveDemo, TakesNoPartOfAFunctionKeyForADigit) {
  LiveDemo demo({"--rate", "0"});
  ASSERT_TRUE(demo.shows(kLastLine));
  demo.type("\x1b[15~");  // F5
  demo.type("+");
  ASSERT_TRUE(demo.shows("limit 11"));
  EXPECT_THAT(demo.shown(), Not(HasSubstr("a second")));
}

}  // namespace
}  // namespace weir::demo

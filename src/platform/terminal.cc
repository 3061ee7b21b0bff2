#include "platform/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/check.h"

namespace weir::platform {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";  // other screen, no cursor
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";
constexpr std::array kTermination = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
constexpr std::array kCrashes = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// For the signal handlers. `settings_before` is complete before `raw_mode` is set, and does
// not change while it is.
termios settings_before;
volatile std::sig_atomic_t raw_mode = 0;
volatile std::sig_atomic_t end_requested = 0;

std::array<struct sigaction, kTermination.size() + kCrashes.size()> actions_before;

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// Only what a signal handler may call.
void restore_terminal() {
  if (raw_mode == 0) return;
  raw_mode = 0;
  write_all(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings_before);
}

void on_termination(int) {
  end_requested = 1;
}

void on_crash(int signal) {
  restore_terminal();
  ::raise(signal);  // the default action by now: SA_RESETHAND
}

void catch_signals() {
  struct sigaction termination = {};
  termination.sa_handler = on_termination;  // without SA_RESTART: poll must wake up
  struct sigaction crash = {};
  crash.sa_handler = on_crash;
  crash.sa_flags = SA_RESETHAND;
  auto before = actions_before.begin();
  for (const int signal : kTermination) ::sigaction(signal, &termination, &*before++);
  for (const int signal : kCrashes) ::sigaction(signal, &crash, &*before++);
}

void release_signals() {
  auto before = actions_before.begin();
  for (const int signal : kTermination) ::sigaction(signal, &*before++, nullptr);
  for (const int signal : kCrashes) ::sigaction(signal, &*before++, nullptr);
}

// F5 sends escape [ 1 5 ~, and its digits must not be raw_mode for keys: escape [ goes on to
// the first byte from @ to ~, any other escape takes one byte along.
std::string single_keys(std::string_view bytes) {
  std::string keys;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\x1b') {
      keys += bytes[i];
    } else if (++i < bytes.size() && bytes[i] == '[') {
      do ++i;
      while (i < bytes.size() && (bytes[i] < '@' || bytes[i] > '~'));
    }
  }
  return keys;
}

bool cursor_moves() {
  const char* kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

}  // namespace

bool terminal_is_interactive() {
  return cursor_moves() && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

bool stderr_is_terminal() {
  return cursor_moves() && ::isatty(STDERR_FILENO) == 1;
}

RawTerminal::RawTerminal() {
  WEIR_CHECK(raw_mode == 0);
  if (::tcgetattr(STDIN_FILENO, &settings_before) != 0) return;
  end_requested = 0;
  catch_signals();
  raw_mode = 1;
  termios raw = settings_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
  write_all(kEnter);
}

RawTerminal::~RawTerminal() {
  if (raw_mode == 0) return;
  restore_terminal();
  release_signals();
}

std::optional<std::string> RawTerminal::read_keys(Millis at_most) {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&input, 1, static_cast<int>(at_most.count()));
  if (end_requested != 0 || (ready < 0 && errno != EINTR)) return std::nullopt;
  if (ready <= 0) return std::string();
  char bytes[64];
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  if (count <= 0) return std::nullopt;
  return single_keys({bytes, static_cast<size_t>(count)});
}

TerminalSize RawTerminal::size() const {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

void RawTerminal::draw(std::string_view lines) {
  std::string frame = "\x1b[H";
  for (const char c : lines) {
    if (c == '\n') {
      frame += "\x1b[K\r\n";
    } else {
      frame += c;
    }
  }
  write_all(frame + "\x1b[J");  // also what is left of the last line
}

}  // namespace weir::platform

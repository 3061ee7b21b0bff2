#include "sim/command/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "platform/terminal.h"

namespace weir::sim {
namespace {

constexpr Millis kBetween{100};
constexpr size_t kColumns = 79;
constexpr int kBar = 20;

double seconds(Nanos duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ProgressLine::ProgressLine()
    : shown_(platform::stderr_is_terminal()), began_(system_clock().now().mono), last_() {}

ProgressLine::~ProgressLine() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

bool ProgressLine::due() const {
  return shown_ && system_clock().now().mono - last_ >= kBetween;
}

void ProgressLine::show(std::string_view what, Millis passed, Millis all) {
  if (!due()) return;
  const double took = seconds(system_clock().now().mono - began_);
  const double share =
      all > Millis(0) ? std::clamp(double(passed.count()) / double(all.count()), 0.0, 1.0) : 0.0;
  const double speed = took > 0 ? seconds(passed) / took : 0;
  const int full = static_cast<int>(share * kBar);
  std::string line = fmt::format("[{:#<{}}{:.<{}}] {:3.0f}%  {:.0f} of {:.0f} s", "", full, "",
                                 kBar - full, 100 * share, seconds(passed), seconds(all));
  if (speed > 0 && took > 0.5) {
    line +=
        fmt::format("  {:.0f}x  {:.0f} s left", speed, std::ceil(seconds(all - passed) / speed));
  }
  if (!what.empty()) line += fmt::format("  {}", what);
  show(line);
}

void ProgressLine::show(std::string_view text) {
  if (!due()) return;
  last_ = system_clock().now().mono;
  fmt::print(stderr, "\r{}\x1b[K", text.substr(0, kColumns));
  std::fflush(stderr);
}

}  // namespace weir::sim

#include "sim/command/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "platform/terminal.h"

namespace weir::sim {
namespace {

constexpr Millis kUpdateInterval{100};
constexpr size_t kColumns = 79;
constexpr int kBarWidth = 20;

double seconds(Nanos duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ProgressLine::ProgressLine()
    : enabled_(platform::errors_go_to_a_terminal()),
      run_start_(system_clock().now().mono),
      last_update_() {}

ProgressLine::~ProgressLine() {
  if (!enabled_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

bool ProgressLine::due() const {
  return enabled_ && system_clock().now().mono - last_update_ >= kUpdateInterval;
}

void ProgressLine::show(std::string_view run, Millis elapsed, Millis total) {
  if (!due()) return;
  const double seconds_taken = seconds(system_clock().now().mono - run_start_);
  const double share = total > Millis(0)
                           ? std::clamp(double(elapsed.count()) / double(total.count()), 0.0, 1.0)
                           : 0.0;
  const double speed = seconds_taken > 0 ? seconds(elapsed) / seconds_taken : 0;
  const int filled = static_cast<int>(share * kBarWidth);
  std::string line = fmt::format("[{:#<{}}{:.<{}}] {:3.0f}%  {:.0f} of {:.0f} s", "", filled, "",
                                 kBarWidth - filled, 100 * share, seconds(elapsed), seconds(total));
  if (speed > 0 && seconds_taken > 0.5) {
    line +=
        fmt::format("  {:.0f}x  {:.0f} s left", speed, std::ceil(seconds(total - elapsed) / speed));
  }
  if (!run.empty()) line += fmt::format("  {}", run);
  show(line);
}

void ProgressLine::show(std::string_view text) {
  if (!due()) return;
  last_update_ = system_clock().now().mono;
  fmt::print(stderr, "\r{}\x1b[K", text.substr(0, kColumns));
  std::fflush(stderr);
}

}  // namespace weir::sim

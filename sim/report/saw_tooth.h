// Cumulative counts that restart with each window, as points of a plot.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/fleet/results.h"

namespace weir::sim {

// The count since the start of the window, at the end of each second; 0 at the start. With too many
// windows for one plot, the total of each window. A window shorter than a second counts as one
// second, because there is one value per second.
class SawTooth {
 public:
  SawTooth(const Spotlight& spotlight, size_t count)
      : window_(std::max(1.0, static_cast<double>(spotlight.duration.count()) / 1000)),
        count_(count),
        whole_windows_(static_cast<double>(count) / window_ > kMaxWindows) {}

  template <typename Values>
  [[nodiscard]] std::vector<double> cumulative(const Values& per_second) const {
    std::vector<double> out;
    walk(per_second, [&out](double, double value) { out.push_back(value); });
    return out;
  }

  [[nodiscard]] std::vector<double> x() const {
    std::vector<double> out;
    walk(std::vector<double>(count_, 0.0), [&out](double at, double) { out.push_back(at); });
    return out;
  }

  [[nodiscard]] bool whole_windows() const { return whole_windows_; }

 private:
  static constexpr double kMaxWindows = 120;

  [[nodiscard]] double begin_of(size_t second) const {
    return std::floor(static_cast<double>(second) / window_ + 1e-9) * window_;
  }

  template <typename Values, typename Visit>
  void walk(const Values& per_second, const Visit& visit) const {
    double began = -1;
    double sum = 0;
    for (size_t i = 0; i < count_; ++i) {
      const auto at = static_cast<double>(i);
      if (const double begin = begin_of(i); begin > began) {
        if (whole_windows_ && began >= 0) {
          visit(began, sum);
          visit(begin, sum);
        }
        sum = 0;
        began = begin;
        if (!whole_windows_) visit(at, 0.0);
      }
      if (i < per_second.size()) sum += static_cast<double>(per_second[i]);
      if (!whole_windows_) visit(at + 1, sum);
    }
    if (whole_windows_ && began >= 0) {
      visit(began, sum);
      visit(static_cast<double>(count_), sum);
    }
  }

  double window_;
  size_t count_;
  bool whole_windows_;
};

}  // namespace weir::sim

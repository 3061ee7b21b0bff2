// How many rows a process may write, and who waits if that is not enough.
//
// Cells that others count on or that are full go first. What remains is for regions that say
// that they are here, divided evenly among namespaces: where one floods, its tuples must count
// twice as much before they say so, and twice again, until its rows fit. So the bound on
// over-admission widens where the flood is, visibly, and nowhere else.
//
// One thread at a time.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "weir/time.h"

namespace weir::limiter {

class RowBudget {
 public:
  // As time passes. What is not used is kept for a second.
  void refill(MonoTime now, double rows_per_second) {
    const auto passed = static_cast<double>((now - refilled_).count()) / 1e9;
    const double most = std::max(1.0, rows_per_second);
    rows_ = refilled_ == MonoTime{} ? most : std::min(most, rows_ + passed * rows_per_second);
    per_second_ = rows_per_second;
    refilled_ = now;
  }

  [[nodiscard]] bool take() {
    if (rows_ < 1) return false;
    rows_ -= 1;
    return true;
  }

  // From 0 to 1: how much of it is in use.
  [[nodiscard]] double used() const {
    return per_second_ <= 0 ? 0 : std::clamp(1 - rows_ / std::max(1.0, per_second_), 0.0, 1.0);
  }

  // Presences of a namespace that had to wait this time. More than a second's worth of rows means
  // that they come faster than they can be written.
  void note_waiting(MonoTime now, const std::string& ns, size_t waiting) {
    if (waiting <= static_cast<size_t>(std::max(1.0, per_second_))) return;
    Flood& flood = floods_[ns];
    flood.last = now;
    if (flood.doubled >= kMostDoubled || now - flood.changed < kDoubleAfter) return;
    ++flood.doubled;
    flood.changed = now;
  }

  // Namespaces that fit again have it halved, step by step. Returns whether one had.
  bool relent(MonoTime now) {
    bool halved = false;
    for (auto it = floods_.begin(); it != floods_.end();) {
      Flood& flood = it->second;
      if (now - std::max(flood.last, flood.changed) >= kHalveAfter) {
        if (flood.doubled > 0) {
          --flood.doubled;
          halved = true;
        }
        flood.changed = now;
      }
      const bool over = flood.doubled == 0 && now - flood.last >= kHalveAfter;
      it = over ? floods_.erase(it) : std::next(it);
    }
    return halved;
  }

  [[nodiscard]] uint32_t doubled(const std::string& ns) const {
    if (floods_.empty()) return 0;
    const auto found = floods_.find(ns);
    return found == floods_.end() ? 0 : found->second.doubled;
  }
  [[nodiscard]] uint32_t most_doubled() const {
    uint32_t most = 0;
    for (const auto& [name, flood] : floods_) most = std::max(most, flood.doubled);
    return most;
  }

 private:
  static constexpr uint32_t kMostDoubled = 20;
  static constexpr Nanos kDoubleAfter = Millis(500);
  static constexpr Nanos kHalveAfter = Millis(10'000);
  struct Flood {
    uint32_t doubled = 0;
    MonoTime last{};
    MonoTime changed{};
  };

  double rows_ = 0;
  double per_second_ = 0;
  MonoTime refilled_{};
  std::map<std::string, Flood> floods_;
};

}  // namespace weir::limiter

// How many rows a process may write, and which rows wait if that is not enough.
//
// Contended and exhausted cells go first. The rest is for presences, divided evenly among
// namespaces. If one namespace floods, its tuples get twice the unpublished allowance, and twice
// again, until its rows fit. So the bound on over-admission widens for that namespace only, and
// visibly.
//
// One thread at a time.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "weir/time.h"

namespace weir::global {

class RowBudget {
 public:
  // Adds the rows of the time passed. Unused rows are kept for one second.
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

  // The fraction in use, 0 to 1.
  [[nodiscard]] double used() const {
    return per_second_ <= 0 ? 0 : std::clamp(1 - rows_ / std::max(1.0, per_second_), 0.0, 1.0);
  }

  // Presences of a namespace that wait in this round. More than a second's worth of rows means that
  // they come faster than the budget allows.
  void note_waiting(MonoTime now, const std::string& ns, size_t waiting) {
    if (waiting <= static_cast<size_t>(std::max(1.0, per_second_))) return;
    Flood& flood = floods_[ns];
    flood.last = now;
    if (flood.doublings >= kMaxDoublings || now - flood.changed < kDoubleAfter) return;
    ++flood.doublings;
    flood.changed = now;
  }

  // Halves the allowance of namespaces that fit again, step by step. Returns whether one changed.
  bool halve_idle(MonoTime now) {
    bool halved = false;
    for (auto it = floods_.begin(); it != floods_.end();) {
      Flood& flood = it->second;
      if (now - std::max(flood.last, flood.changed) >= kHalveAfter) {
        if (flood.doublings > 0) {
          --flood.doublings;
          halved = true;
        }
        flood.changed = now;
      }
      const bool over = flood.doublings == 0 && now - flood.last >= kHalveAfter;
      it = over ? floods_.erase(it) : std::next(it);
    }
    return halved;
  }

  [[nodiscard]] uint32_t doublings(const std::string& ns) const {
    if (floods_.empty()) return 0;
    const auto found = floods_.find(ns);
    return found == floods_.end() ? 0 : found->second.doublings;
  }
  [[nodiscard]] uint32_t max_doublings() const {
    uint32_t most = 0;
    for (const auto& [name, flood] : floods_) most = std::max(most, flood.doublings);
    return most;
  }

 private:
  static constexpr uint32_t kMaxDoublings = 20;
  static constexpr Nanos kDoubleAfter = Millis(500);
  static constexpr Nanos kHalveAfter = Millis(10'000);
  struct Flood {
    uint32_t doublings = 0;
    MonoTime last{};
    MonoTime changed{};
  };

  double rows_ = 0;
  double per_second_ = 0;
  MonoTime refilled_{};
  std::map<std::string, Flood> floods_;
};

}  // namespace weir::global

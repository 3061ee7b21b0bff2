// How many rows the bridge of a region may write, and which tenants have too few.
//
// If the rows of one tenant wait for too long, its allowance and its slack are doubled, and doubled
// again, until its rows fit. So the bound on over-admission widens for that tenant only, and
// visibly.
//
// One thread at a time.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "global/publish_rule.h"
#include "global/regions.h"
#include "weir/time.h"

namespace weir::global {

class RowBudget {
 public:
  // Rows that wait for longer do not fit.
  static constexpr Nanos kMaxWait = Millis(1000);

  // Adds the rows of the time passed. Unused rows are kept for one second.
  void refill(MonoTime now, double rows_per_second) {
    const auto passed = static_cast<double>((now - refilled_).count()) / 1e9;
    const double most = std::max(1.0, rows_per_second);
    rows_ = refilled_ == MonoTime{} ? most : std::min(most, rows_ + passed * rows_per_second);
    per_second_ = rows_per_second;
    refilled_ = now;
  }

  [[nodiscard]] bool has_rows(size_t rows) const { return rows_ >= static_cast<double>(rows); }
  // More than there are: the next refill pays for them first.
  void take(size_t rows) { rows_ -= static_cast<double>(rows); }

  // The fraction in use, 0 to 1.
  [[nodiscard]] double used() const {
    return per_second_ <= 0 ? 0 : std::clamp(1 - rows_ / std::max(1.0, per_second_), 0.0, 1.0);
  }

  // How long the oldest row of a tenant has waited.
  void note_wait(MonoTime now, const Tenant& tenant, Nanos wait) {
    if (wait <= kMaxWait) return;
    Flood& flood = floods_[tenant];
    flood.last = now;
    if (flood.doublings >= kMaxDoublings || now - flood.changed < kDoubleAfter) return;
    ++flood.doublings;
    flood.changed = now;
  }

  // Halves the allowance of tenants whose rows fit again, step by step. Returns whether one
  // changed.
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

  [[nodiscard]] std::map<Tenant, uint32_t> doublings() const {
    std::map<Tenant, uint32_t> doublings;
    for (const auto& [tenant, flood] : floods_) {
      if (flood.doublings > 0) doublings.emplace(tenant, flood.doublings);
    }
    return doublings;
  }

 private:
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
  std::map<Tenant, Flood> floods_;
};

}  // namespace weir::global

// What widened the bound, until the windows are over in which regions could admit more because of
// it. The excess stays in those windows when the cause is gone.
//
// One thread at a time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "global/regions.h"
#include "weir/time.h"

namespace weir::global {

// The largest of the values whose time is not over.
class HeldMaximum {
 public:
  void hold(uint64_t value, MonoTime until) {
    if (value == 0 || covers(value, until)) return;
    std::erase_if(values_,
                  [&](const Value& each) { return each.value <= value && each.until <= until; });
    values_.push_back({.value = value, .until = until});
  }
  [[nodiscard]] uint64_t at(MonoTime now) const {
    uint64_t largest = 0;
    for (const Value& each : values_) {
      if (each.until > now) largest = std::max(largest, each.value);
    }
    return largest;
  }

 private:
  struct Value {
    uint64_t value = 0;
    MonoTime until{};
  };
  [[nodiscard]] bool covers(uint64_t value, MonoTime until) const {
    return std::ranges::any_of(
        values_, [&](const Value& each) { return each.value >= value && each.until >= until; });
  }
  std::vector<Value> values_;  // none is covered by another one: few
};

// Of one namespace.
struct HeldCauses {
  MonoTime waited_until{};  // its counts waited too long to be published
  MonoTime missed_until{};  // this process could miss counts of other regions
  HeldMaximum diverging;    // processes of the region that admitted a limit of their own
  HeldMaximum doublings;    // of the allowance, by the row budget
  std::map<std::string, MonoTime> silent;  // regions that sent no heartbeat

  [[nodiscard]] bool waited(MonoTime now) const { return waited_until > now; }
  [[nodiscard]] bool missed(MonoTime now) const { return missed_until > now; }
  [[nodiscard]] bool was_silent(const std::string& region, MonoTime now) const {
    const auto found = silent.find(region);
    return found != silent.end() && found->second > now;
  }
  // Whether this process widened the bound: the bridge may not know.
  [[nodiscard]] bool by_this_process(MonoTime now) const {
    return waited(now) || missed(now) || diverging.at(now) > 0;
  }
  [[nodiscard]] bool is_over(MonoTime now) const {
    return !by_this_process(now) && doublings.at(now) == 0 &&
           std::ranges::none_of(silent, [&](const auto& each) { return each.second > now; });
  }
};

// The lengths of the windows in which this process has counted lately, by namespace.
class KnownWindows {
 public:
  static constexpr size_t kMaxTenants = 1024;
  static constexpr size_t kMaxLengths = 8;  // of a tenant

  // `outlasts`: an admission counts until a whole length after it, not only until the window ends.
  void note(Tenant tenant, Millis length, bool outlasts, WallTime now) {
    std::vector<Length>* lengths = &rest_;
    const auto found = tenants_.find(tenant);
    if (found != tenants_.end()) {
      lengths = &found->second;
    } else if (has_room(now)) {
      lengths = &tenants_[std::move(tenant)];
    }
    add(*lengths, {.length = length, .outlasts = outlasts, .last = now}, now);
  }

  // Visits each namespace with the time until its windows of the time `at` are over.
  template <typename Visit>
  void each(WallTime at, const Visit& visit) const {
    for (const auto& [tenant, lengths] : tenants_) {
      if (const Nanos left = left_of(lengths, at); left > Nanos(0)) visit(tenant, left);
    }
  }
  [[nodiscard]] Nanos left(const Tenant& tenant, WallTime at) const {
    const auto found = tenants_.find(tenant);
    return found == tenants_.end() ? rest_left(at) : left_of(found->second, at);
  }
  // The same of the namespaces for which there was no room.
  [[nodiscard]] Nanos rest_left(WallTime at) const { return left_of(rest_, at); }

 private:
  struct Length {
    Millis length{0};
    bool outlasts = false;
    WallTime last{};  // when it was noted
  };

  [[nodiscard]] static bool is_live(const Length& each, WallTime now) {
    return now - each.last < 2 * each.length;
  }
  [[nodiscard]] static Nanos left_of(const std::vector<Length>& lengths, WallTime at) {
    Nanos longest{0};
    for (const Length& each : lengths) {
      if (!is_live(each, at)) continue;
      const Millis since_start = at.time_since_epoch() % each.length;
      longest = std::max<Nanos>(longest, each.outlasts ? each.length : each.length - since_start);
    }
    return longest;
  }
  static void add(std::vector<Length>& lengths, const Length& noted, WallTime now) {
    for (Length& each : lengths) {
      if (each.length != noted.length || each.outlasts != noted.outlasts) continue;
      each.last = std::max(each.last, noted.last);
      return;
    }
    if (lengths.size() >= kMaxLengths) {
      std::erase_if(lengths, [&](const Length& each) { return !is_live(each, now); });
    }
    lengths.push_back(noted);
    if (lengths.size() <= kMaxLengths) return;
    // The two shortest become one that is as long as the longer, wherever its windows begin.
    std::ranges::sort(lengths, {}, &Length::length);
    lengths[1].outlasts = true;
    lengths[1].last = std::max(lengths[0].last, lengths[1].last);
    lengths.erase(lengths.begin());
  }
  [[nodiscard]] bool has_room(WallTime now) {
    if (tenants_.size() < kMaxTenants) return true;
    // Not for each tuple of a flood of namespaces.
    if (now < full_until_) return false;
    std::erase_if(tenants_, [&](const auto& each) {
      return std::ranges::none_of(each.second,
                                  [&](const Length& length) { return is_live(length, now); });
    });
    full_until_ = now + Millis(60'000);
    return tenants_.size() < kMaxTenants;
  }

  std::map<Tenant, std::vector<Length>> tenants_;
  std::vector<Length> rest_;
  WallTime full_until_{};
};

}  // namespace weir::global

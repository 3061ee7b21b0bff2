#include "origins/region_counts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

namespace weir::origins {
namespace {

WallTime at(int64_t ms) {
  return WallTime(Millis(ms));
}

TEST(RegionCounts, ReplacesTheEntryOfALeaseByItsFirstWindow) {
  RegionCounts counts;
  counts.merge({.region = "eu"});
  EXPECT_TRUE(counts.list().empty());
  counts.merge({.region = "eu", .leased_until = at(7)});
  EXPECT_EQ(counts.list(), (std::vector<RegionCount>{{.region = "eu", .leased_until = at(7)}}));
  counts.merge({.region = "eu", .sequence = 5, .count = 3});
  EXPECT_EQ(counts.list(),
            (std::vector<RegionCount>{
                {.region = "eu", .sequence = 5, .count = 3, .leased_until = at(7)}}));
}

TEST(RegionCounts, KeepsTheNewestWindowsInAnyOrderOfArrival) {
  RegionCounts counts;
  for (const int64_t sequence : {6, 4, 7, 3, 5}) {
    counts.merge({.region = "eu", .sequence = sequence, .count = 1});
  }
  std::vector<int64_t> kept;
  for (const RegionCount& each : counts.list()) kept.push_back(each.sequence);
  EXPECT_EQ(kept, (std::vector<int64_t>{5, 6, 7}));
}

// The same with nested maps.
class Model {
 public:
  void merge(const RegionCount& update) {
    Region& region = regions_[update.region];
    region.leased_until = std::max(region.leased_until, update.leased_until);
    if (update.count == 0 && update.limit_seen == 0) return;
    RegionCount& window = region.windows[update.sequence];
    window.count = std::max(window.count, update.count);
    window.limit_seen = smaller_limit(window.limit_seen, update.limit_seen);
    if (region.windows.size() > kWindowsPerRegion) region.windows.erase(region.windows.begin());
  }
  [[nodiscard]] std::vector<RegionCount> list() const {
    std::vector<RegionCount> all;
    for (const auto& [name, region] : regions_) {
      for (const auto& [sequence, window] : region.windows) {
        all.push_back({.region = name,
                       .sequence = sequence,
                       .count = window.count,
                       .limit_seen = window.limit_seen,
                       .leased_until = region.leased_until});
      }
      if (region.windows.empty() && region.leased_until > WallTime{}) {
        all.push_back({.region = name, .leased_until = region.leased_until});
      }
    }
    return all;
  }

 private:
  struct Region {
    std::map<int64_t, RegionCount> windows;
    WallTime leased_until{};
  };
  std::map<std::string, Region> regions_;
};

RC_GTEST_PROP(RegionCounts, EqualTheirModelAfterAnyUpdates, ()) {
  RegionCounts counts;
  Model model;
  const int updates = *rc::gen::inRange(0, 60);
  for (int i = 0; i < updates; ++i) {
    const RegionCount update{
        .region = *rc::gen::element<std::string>("ap", "eu", "us"),
        .sequence = *rc::gen::inRange<int64_t>(-1, 6),
        .count = *rc::gen::inRange<Count>(0, 4),
        .limit_seen = *rc::gen::inRange<Count>(0, 4),
        .leased_until = at(*rc::gen::inRange<int64_t>(0, 4)),
    };
    counts.merge(update);
    model.merge(update);
    RC_ASSERT(counts.list() == model.list());
  }
}

}  // namespace
}  // namespace weir::origins

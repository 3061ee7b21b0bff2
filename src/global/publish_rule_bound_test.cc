// The bound that the rule is for, on fleets of made-up regions that see each other late; and the
// ways in which it breaks if a part of the rule is left out.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/split_mix.h"
#include "global/publish_rule.h"
#include "tests/effort.h"

namespace weir::limiter {
namespace {

enum class Without : uint8_t {
  kNothing,
  kNewsAsATrigger,  // the rule is looked at on the way of a request only
  kEndOfLease,      // nor when our lease ends
  kAllRegions,      // the number of regions is underestimated
  kSmallestLimit,   // of two limits on one tuple the larger is used
};

using Tick = int64_t;
constexpr Tick kDelay = 10;
constexpr Tick kLease = 200;

// Regions that count in one fixed window.
class ModelFleet {
 public:
  ModelFleet(uint32_t regions, Count limit, Without without)
      : limit_(limit), without_(without), regions_(regions), rows_(regions) {
    for (uint32_t r = 0; r < regions; ++r) rows_[r].received.resize(regions);
  }

  // One admission if the region believes that there is room; the rule is looked at.
  void ask(uint32_t r, Count limit) {
    Region& region = rows_[r];
    region.limit = region.limit == 0                     ? limit
                   : without_ == Without::kSmallestLimit ? std::max(region.limit, limit)
                                                         : std::min(region.limit, limit);
    if (used(r) + 1 > limit) {
      region.refused = true;
    } else {
      ++region.counted;
      ++admitted_;
      recent_.push_back(now_);
      note_excess();
    }
    look(r);
  }
  void ask(uint32_t r) { ask(r, limit_); }

  // Time passes; news arrives, each within the delay.
  void pass(Tick ticks, uint64_t* random = nullptr) {
    random_ = random;
    for (Tick i = 0; i < ticks; ++i) {
      ++now_;
      for (uint32_t r = 0; r < regions_; ++r) hear(r);
      for (uint32_t r = 0; r < regions_; ++r) {
        const bool ends = now_ == rows_[r].leased_until;
        if (ends && without_ != Without::kEndOfLease && without_ != Without::kNewsAsATrigger) {
          look(r);
        }
      }
      while (!recent_.empty() && recent_.front() <= now_ - 2 * kDelay) recent_.pop_front();
    }
  }

  [[nodiscard]] Count admitted() const { return admitted_; }
  // By how much the bound was ever exceeded.
  [[nodiscard]] Count excess() const { return excess_; }
  // Whether some region should have told something and did not.
  [[nodiscard]] bool owes() const {
    for (uint32_t r = 0; r < regions_; ++r) {
      if (rule_of(holding(r), rules_) != Publish::kNothing) return true;
    }
    return false;
  }

 private:
  struct Received {
    Count count = 0;
    Tick present_until = 0;
  };
  struct Region {
    Count counted = 0, published = 0, limit = 0;
    Tick leased_until = 0;
    bool refused = false, refused_before = false;
    std::vector<Received> received;
  };
  struct Message {
    uint32_t from = 0;
    Received news;
  };

  [[nodiscard]] Count used(uint32_t r) const {
    Count sum = rows_[r].counted;
    for (const Received& received : rows_[r].received) sum += received.count;
    return sum;
  }

  [[nodiscard]] Holding holding(uint32_t r) const {
    const Region& region = rows_[r];
    const Count limit = region.limit == 0 ? limit_ : region.limit;
    uint32_t here = 1;
    for (const Received& received : region.received) {
      if (received.count > 0 || received.present_until > now_) ++here;
    }
    const uint32_t known = without_ == Without::kAllRegions ? 2 : regions_;
    return {.counted = region.counted,
            .published = region.published,
            .limit = limit,
            .remaining = base::saturating_sub(limit, used(r)),
            .hidden = hidden_of(limit, rules_, known),
            .regions = here,
            .leased = now_ < region.leased_until,
            .refused = region.refused,
            .refused_before = region.refused_before};
  }

  void look(uint32_t r) {
    Region& region = rows_[r];
    const Publish rule = rule_of(holding(r), rules_);
    region.refused_before = region.refused_before || region.refused;
    region.refused = false;
    if (rule == Publish::kNothing) return;
    Received news{.count = region.counted};
    if (rule == Publish::kPresence) {
      // Ours is over before the others believe so.
      news.present_until = now_ + kLease;
      region.leased_until = now_ + kLease - 2 * kDelay;
    }
    region.published = region.counted;
    for (uint32_t to = 0; to < regions_; ++to) {
      if (to == r) continue;
      const Tick delay =
          random_ == nullptr ? kDelay : 1 + static_cast<Tick>(base::split_mix(*random_) % kDelay);
      under_way_[to].emplace(now_ + delay, Message{.from = r, .news = news});
    }
  }

  void hear(uint32_t r) {
    auto& completions = under_way_[r];
    bool received = false;
    while (!completions.empty() && completions.begin()->first <= now_) {
      const Message& message = completions.begin()->second;
      Received& known = rows_[r].received[message.from];
      known.count = std::max(known.count, message.news.count);
      known.present_until = std::max(known.present_until, message.news.present_until);
      completions.erase(completions.begin());
      received = true;
    }
    if (received && without_ != Without::kNewsAsATrigger) look(r);
  }

  void note_excess() {
    const Count hidden = hidden_of(limit_, rules_, regions_);
    const Count bound = limit_ + part_of(limit_, rules_.slack_permille) +
                        (regions_ - 1) * (hidden - 1) + recent_.size();
    excess_ =
        std::max(excess_, base::saturating_sub(admitted_, std::min(bound, regions_ * limit_)));
  }

  const SyncRules rules_{};
  const Count limit_;
  const Without without_;
  const uint32_t regions_;
  Tick now_ = 0;
  Count admitted_ = 0, excess_ = 0;
  std::vector<Region> rows_;
  std::map<uint32_t, std::multimap<Tick, Message>> under_way_;
  std::deque<Tick> recent_;
  uint64_t* random_ = nullptr;
};

// Regions wake and fall asleep; who is awake asks at a pace of its own.
Count worst_excess(uint64_t seed, Without without, bool& owes) {
  uint64_t random = seed;
  const auto up_to = [&](uint64_t most) { return base::split_mix(random) % (most + 1); };
  const auto regions = static_cast<uint32_t>(2 + up_to(8));
  const Count limit = 1 + up_to(120);
  ModelFleet fleet(regions, limit, without);
  std::vector<uint64_t> pace(regions, 0);
  for (int turn = 0; turn < 700; ++turn) {
    if (up_to(12) == 0) pace[up_to(regions - 1)] = up_to(3) == 0 ? up_to(6) : up_to(1);
    for (uint32_t r = 0; r < regions; ++r) {
      for (uint64_t i = 0; i < pace[r]; ++i) fleet.ask(r);
    }
    fleet.pass(1 + static_cast<Tick>(up_to(2)), &random);
  }
  fleet.pass(3 * kDelay);
  owes = fleet.owes();
  return fleet.excess();
}

TEST(PublishRuleBound, HoldsForAnyNumberOfRegions) {
  for (uint64_t seed = 1; seed <= generated_cases(10'000); ++seed) {
    bool owes = false;
    ASSERT_EQ(worst_excess(seed, Without::kNothing, owes), 0U) << "seed " << seed;
    ASSERT_FALSE(owes) << "seed " << seed;
  }
}

// Nine regions count just less than they must tell, the tenth all that it believes is left.
TEST(PublishRuleBound, HoldsAgainstThoseWhoStayBelowTheFloor) {
  ModelFleet fleet(10, 1000, Without::kNothing);
  const Count hidden = hidden_of(1000, SyncRules{}, 10);
  for (uint32_t r = 1; r < 10; ++r) {
    for (Count i = 0; i + 1 < hidden; ++i) fleet.ask(r);
    fleet.pass(3 * kDelay);
  }
  for (int i = 0; i < 1500; ++i) {
    fleet.ask(0);
    fleet.pass(1);
  }
  EXPECT_EQ(fleet.excess(), 0U);
  EXPECT_LE(fleet.admitted(), 1350U);
}

// A lone region is known, fills up without telling, and falls silent; then another begins.
void fill_and_fall_silent(ModelFleet& fleet) {
  for (int i = 0; i < 99; ++i) fleet.ask(0);
  fleet.pass(3 * kDelay);
  for (int i = 0; i < 200; ++i) {
    fleet.ask(1);
    fleet.pass(1);
  }
  fleet.pass(3 * kDelay);
}

TEST(PublishRuleBound, BreaksIfTheRuleIsLookedAtOnTheWayOfARequestOnly) {
  ModelFleet whole(2, 100, Without::kNothing);
  fill_and_fall_silent(whole);
  EXPECT_EQ(whole.excess(), 0U);
  ModelFleet broken(2, 100, Without::kNewsAsATrigger);
  fill_and_fall_silent(broken);
  EXPECT_GT(broken.excess(), 0U);
  EXPECT_TRUE(broken.owes());
}

TEST(PublishRuleBound, BreaksIfNothingIsAckedAtTheEndOfALease) {
  for (const Without without : {Without::kNothing, Without::kEndOfLease}) {
    ModelFleet fleet(2, 100, without);
    for (int i = 0; i < 99; ++i) fleet.ask(0);
    fleet.pass(kLease + 1);
    // Nobody knows any more that the first is here, nor what it counted since.
    EXPECT_EQ(fleet.owes(), without == Without::kEndOfLease);
  }
}

TEST(PublishRuleBound, BreaksIfTheNumberOfRegionsIsUnderestimated) {
  for (const Without without : {Without::kNothing, Without::kAllRegions}) {
    ModelFleet fleet(10, 100, without);
    for (uint32_t r = 1; r < 10; ++r) {
      for (int i = 0; i < 24; ++i) fleet.ask(r);
      fleet.pass(3 * kDelay);
    }
    for (int i = 0; i < 200; ++i) {
      fleet.ask(0);
      fleet.pass(1);
    }
    EXPECT_EQ(fleet.excess() > 0, without == Without::kAllRegions);
  }
}

// Some ask with 1000, some with 100; it is 100 that must hold for those.
TEST(PublishRuleBound, BreaksIfTheLargerOfTwoLimitsIsUsed) {
  for (const Without without : {Without::kNothing, Without::kSmallestLimit}) {
    ModelFleet fleet(3, 100, without);
    for (uint32_t r = 0; r < 3; ++r) fleet.ask(r, 1000);
    for (uint32_t r = 0; r < 3; ++r) {
      for (int i = 0; i < 98; ++i) {
        fleet.ask(r, 100);
        fleet.pass(1);
      }
      fleet.pass(3 * kDelay);
    }
    EXPECT_EQ(fleet.excess() > 0, without == Without::kSmallestLimit);
  }
}

}  // namespace
}  // namespace weir::limiter

// The bound of the publish rule, on model fleets whose regions see each other's counts late; and
// how the bound breaks if a part of the rule is omitted.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/split_mix.h"
#include "global/publish_rule.h"
#include "tests/effort.h"

namespace weir::global {
namespace {

enum class Without : uint8_t {
  kNothing,
  kRemoteChanges,  // the rule is evaluated on requests only
  kEndOfLease,     // the rule is not evaluated when our lease ends
  kAllRegions,     // the number of regions is underestimated
  kSmallestLimit,  // the larger of two limits on one tuple is used
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

  // One admission if the region's known counts allow it; then evaluates the rule.
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
    evaluate(r);
  }
  void ask(uint32_t r) { ask(r, limit_); }

  // Time passes; published counts arrive, each within the delay.
  void pass(Tick ticks, uint64_t* random = nullptr) {
    random_ = random;
    for (Tick i = 0; i < ticks; ++i) {
      ++now_;
      for (uint32_t r = 0; r < regions_; ++r) receive(r);
      for (uint32_t r = 0; r < regions_; ++r) {
        const bool ends = now_ == rows_[r].leased_until;
        if (ends && without_ != Without::kEndOfLease && without_ != Without::kRemoteChanges) {
          evaluate(r);
        }
      }
      while (!recent_.empty() && recent_.front() <= now_ - 2 * kDelay) recent_.pop_front();
    }
  }

  [[nodiscard]] Count admitted() const { return admitted_; }
  // By how much the bound was ever exceeded.
  [[nodiscard]] Count excess() const { return excess_; }
  // Whether some region has a reason to publish and did not.
  [[nodiscard]] bool has_pending() const {
    for (uint32_t r = 0; r < regions_; ++r) {
      if (publish_reason(usage(r), rules_) != PublishReason::kNone) return true;
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
    bool refused = false, refusal_published = false;
    std::vector<Received> received;
  };
  struct Message {
    uint32_t from = 0;
    Received published;
  };

  [[nodiscard]] Count used(uint32_t r) const {
    Count sum = rows_[r].counted;
    for (const Received& received : rows_[r].received) sum += received.count;
    return sum;
  }

  [[nodiscard]] CellUsage usage(uint32_t r) const {
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
            .allowance = unpublished_allowance(limit, rules_, known),
            .regions = here,
            .leased = now_ < region.leased_until,
            .refused = region.refused,
            .refusal_published = region.refusal_published};
  }

  void evaluate(uint32_t r) {
    Region& region = rows_[r];
    const PublishReason rule = publish_reason(usage(r), rules_);
    region.refusal_published = region.refusal_published || region.refused;
    region.refused = false;
    if (rule == PublishReason::kNone) return;
    Received published{.count = region.counted};
    if (rule == PublishReason::kPresence) {
      // Our lease ends before the others see its end.
      published.present_until = now_ + kLease;
      region.leased_until = now_ + kLease - 2 * kDelay;
    }
    region.published = region.counted;
    for (uint32_t to = 0; to < regions_; ++to) {
      if (to == r) continue;
      const Tick delay =
          random_ == nullptr ? kDelay : 1 + static_cast<Tick>(base::split_mix(*random_) % kDelay);
      in_flight_[to].emplace(now_ + delay, Message{.from = r, .published = published});
    }
  }

  void receive(uint32_t r) {
    auto& completions = in_flight_[r];
    bool received = false;
    while (!completions.empty() && completions.begin()->first <= now_) {
      const Message& message = completions.begin()->second;
      Received& known = rows_[r].received[message.from];
      known.count = std::max(known.count, message.published.count);
      known.present_until = std::max(known.present_until, message.published.present_until);
      completions.erase(completions.begin());
      received = true;
    }
    if (received && without_ != Without::kRemoteChanges) evaluate(r);
  }

  void note_excess() {
    const Count hidden = unpublished_allowance(limit_, rules_, regions_);
    const Count bound = limit_ + permille_of(limit_, rules_.slack_permille) +
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
  std::map<uint32_t, std::multimap<Tick, Message>> in_flight_;
  std::deque<Tick> recent_;
  uint64_t* random_ = nullptr;
};

// Regions become active and idle; each active one has its own request rate.
Count worst_excess(uint64_t seed, Without without, bool& has_pending) {
  uint64_t random = seed;
  const auto up_to = [&](uint64_t most) { return base::split_mix(random) % (most + 1); };
  const auto regions = static_cast<uint32_t>(2 + up_to(8));
  const Count limit = 1 + up_to(120);
  ModelFleet fleet(regions, limit, without);
  std::vector<uint64_t> pace(regions, 0);
  for (int step = 0; step < 700; ++step) {
    if (up_to(12) == 0) pace[up_to(regions - 1)] = up_to(3) == 0 ? up_to(6) : up_to(1);
    for (uint32_t r = 0; r < regions; ++r) {
      for (uint64_t i = 0; i < pace[r]; ++i) fleet.ask(r);
    }
    fleet.pass(1 + static_cast<Tick>(up_to(2)), &random);
  }
  fleet.pass(3 * kDelay);
  has_pending = fleet.has_pending();
  return fleet.excess();
}

TEST(PublishRuleBound, HoldsForAnyNumberOfRegions) {
  for (uint64_t seed = 1; seed <= generated_cases(10'000); ++seed) {
    bool has_pending = false;
    ASSERT_EQ(worst_excess(seed, Without::kNothing, has_pending), 0U) << "seed " << seed;
    ASSERT_FALSE(has_pending) << "seed " << seed;
  }
}

// Nine regions stay just below their allowance; the tenth uses all that it sees as remaining.
TEST(PublishRuleBound, HoldsAgainstRegionsThatStayBelowTheirAllowance) {
  ModelFleet fleet(10, 1000, Without::kNothing);
  const Count hidden = unpublished_allowance(1000, SyncRules{}, 10);
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

// A lone region is known, uses its limit without publishing, and goes idle; then another begins.
void use_limit_and_go_idle(ModelFleet& fleet) {
  for (int i = 0; i < 99; ++i) fleet.ask(0);
  fleet.pass(3 * kDelay);
  for (int i = 0; i < 200; ++i) {
    fleet.ask(1);
    fleet.pass(1);
  }
  fleet.pass(3 * kDelay);
}

TEST(PublishRuleBound, BreaksIfTheRuleIsEvaluatedOnRequestsOnly) {
  ModelFleet whole(2, 100, Without::kNothing);
  use_limit_and_go_idle(whole);
  EXPECT_EQ(whole.excess(), 0U);
  ModelFleet broken(2, 100, Without::kRemoteChanges);
  use_limit_and_go_idle(broken);
  EXPECT_GT(broken.excess(), 0U);
  EXPECT_TRUE(broken.has_pending());
}

TEST(PublishRuleBound, BreaksIfTheEndOfALeaseIsIgnored) {
  for (const Without without : {Without::kNothing, Without::kEndOfLease}) {
    ModelFleet fleet(2, 100, without);
    for (int i = 0; i < 99; ++i) fleet.ask(0);
    fleet.pass(kLease + 1);
    // The second no longer knows of the first, nor of its counts.
    EXPECT_EQ(fleet.has_pending(), without == Without::kEndOfLease);
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

// Some requests have a limit of 1000, some of 100; the limit of 100 must hold for the latter.
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
}  // namespace weir::global

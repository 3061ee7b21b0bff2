#include "server/region_claim.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "base/mutex.h"
#include "platform/thread_group.h"

namespace weir::server {
namespace {

constexpr Millis kLookEvery{200};
constexpr Millis kHoldEvery{1000};
static_assert(3 * kHoldEvery < ledgers::kRegionHeld);

// All that share an origin hold under one name.
std::string holder_name(const RegionClaim::Claimant& claimant, uint64_t seed) {
  if (claimant.origin) return "processes with an origin";
  constexpr size_t kMostNode = 54;
  return fmt::format("{} {:08x}", claimant.node.substr(0, kMostNode), seed & 0xffffffff);
}

}  // namespace

RegionClaim::RegionClaim(const Clock& clock, std::unique_ptr<ledgers::LedgerStore> store,
                         Claimant claimant, uint64_t seed)
    : clock_(clock),
      store_(std::move(store)),
      claimant_(std::move(claimant)),
      holder_(holder_name(claimant_, seed)) {}

// One look, and what it says. A rival that has raised its hold since the last look is alive; one
// that has not, for as long as a hold lasts, is dead.
RegionClaim::Claim RegionClaim::claim() {
  const MonoTime now = clock_.now().mono;
  const bool dead = !rival_.holder.empty() && now - rival_since_ >= ledgers::kRegionHeld;
  const auto hold = store_->hold_region(claimant_.region, holder_,
                                        dead ? rival_ : ledgers::RegionHold{.holder = holder_});
  if (!hold) return Claim::kUnknown;
  if (hold->holder == holder_) {
    rival_ = {};
    return Claim::kHeld;
  }
  if (*hold == rival_) return Claim::kWaits;
  const bool seen = hold->holder == rival_.holder;
  rival_ = *hold;
  rival_since_ = now;
  return seen ? Claim::kTaken : Claim::kWaits;
}

std::string RegionClaim::complaint() const {
  return fmt::format(
      "region is '{}', for which another process counts already ({}) that does not share an origin "
      "with this one: each would lose the other's counts. Give this one another --region, or all "
      "processes of the region the same --origin",
      claimant_.region, rival_.holder);
}

void RegionClaim::take() {
  Claim claimed = claim();
  while (claimed == Claim::kWaits) {
    platform::ThreadGroup::sleep(kLookEvery);
    claimed = claim();
  }
  if (claimed == Claim::kTaken) throw std::runtime_error(complaint());
}

void RegionClaim::start() {
  running_ = true;
  keeper_.start();
  keeper_.post([this] { run(); });
}

void RegionClaim::run() {
  if (claim() == Claim::kTaken) {
    const base::MutexLock lock(mutex_);
    conflict_ = complaint();
    return;
  }
  keeper_.post_at(clock_.now().mono + kHoldEvery, [this] { run(); });
}

void RegionClaim::stop() {
  if (!std::exchange(running_, false)) return;
  // Others that share the origin go on holding it.
  if (!claimant_.origin) {
    keeper_.post([this] { store_->release_region(claimant_.region, holder_); });
  }
  keeper_.stop();
}

std::string RegionClaim::conflict() const {
  const base::MutexLock lock(mutex_);
  return conflict_;
}

}  // namespace weir::server

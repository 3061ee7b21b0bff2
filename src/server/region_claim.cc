#include "server/region_claim.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "base/mutex.h"
#include "platform/thread_group.h"

namespace weir::server {
namespace {

constexpr Millis kCheckEvery{200};
constexpr Millis kHoldEvery{1300};
static_assert(3 * kHoldEvery < ledgers::kRegionLeaseTime);
// Another process is the bridge 1.3 s after this one was killed, and renews the lease at once.
constexpr Millis kBridgeReplaced{1300};
static_assert(kHoldEvery + kBridgeReplaced + 2 * kCheckEvery < ledgers::kRegionLeaseTime);

// All processes that share an origin use one name.
std::string holder_name(const RegionClaim::Claimant& claimant, uint64_t seed) {
  if (claimant.origin) return "processes with an origin";
  constexpr size_t kMaxNode = 54;
  return fmt::format("{} {:08x}", claimant.node.substr(0, kMaxNode), seed & 0xffffffff);
}

}  // namespace

RegionClaim::RegionClaim(const Clock& clock, std::unique_ptr<ledgers::LedgerStore> store,
                         Claimant claimant, uint64_t seed)
    : clock_(clock),
      store_(std::move(store)),
      claimant_(std::move(claimant)),
      holder_(holder_name(claimant_, seed)),
      bridge_(!claimant_.origin) {}

// Checks the lease once. Another holder that has renewed it since the last check is alive; one that
// has not renewed it for its duration is dead.
RegionClaim::Claim RegionClaim::claim() {
  const MonoTime now = clock_.now().mono;
  const bool dead = !rival_.holder.empty() && now - rival_since_ >= ledgers::kRegionLeaseTime;
  const auto hold = store_->acquire_region(claimant_.region, holder_,
                                           dead ? rival_ : ledgers::RegionLease{.holder = holder_});
  if (!hold) return Claim::kUnknown;
  if (hold->holder == holder_) {
    rival_ = {};
    return Claim::kHeld;
  }
  if (*hold == rival_) return Claim::kWaits;
  const bool seen = hold->holder == rival_.holder;
  rival_ = *hold;
  rival_since_ = now;
  return seen ? Claim::kLocked : Claim::kWaits;
}

std::string RegionClaim::conflict_text() const {
  return fmt::format(
      "region is '{}', but another process without a common origin already counts for it ({}): "
      "each "
      "would lose the other's counts. Use another --region, or the same --origin for all processes "
      "of the region",
      claimant_.region, rival_.holder);
}

void RegionClaim::take() {
  Claim claimed = claim();
  while (claimed == Claim::kWaits) {
    platform::ThreadGroup::sleep(kCheckEvery);
    claimed = claim();
  }
  if (claimed == Claim::kLocked) throw std::runtime_error(conflict_text());
}

void RegionClaim::start() {
  running_ = true;
  keeper_.start();
  keeper_.post([this] { run(); });
}

void RegionClaim::run() {
  const MonoTime now = clock_.now().mono;
  const bool renews = bridge_.load(std::memory_order_relaxed) && now - renewed_at_ >= kHoldEvery;
  if (renews) {
    renewed_at_ = now;
    if (claim() == Claim::kLocked) {
      const base::MutexLock lock(mutex_);
      conflict_ = conflict_text();
      return;
    }
  }
  keeper_.post_at(clock_.now().mono + kCheckEvery, [this] { run(); });
}

void RegionClaim::stop() {
  if (!std::exchange(running_, false)) return;
  // Other processes that share the origin keep the lease.
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

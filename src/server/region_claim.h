// A lease on the region in a shared ledger.
//
// Two processes of one region without a common origin would write the same rows and lose each
// other's counts. So the ledger stores a lease per region: of one process, or, under one name, of
// all processes that share an origin. A process must not count while another one renews the lease.
// A lease that is not renewed for its duration is free.
//
// Of the processes that share an origin, only the bridge renews it: the load on the ledger must not
// grow with the processes.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "ledgers/sql/ledger_store.h"
#include "platform/thread_executor.h"
#include "weir/clock.h"

namespace weir::server {

class RegionClaim {
 public:
  // `origin`: the process shares an origin with others of its region.
  struct Claimant {
    std::string region;
    std::string node;
    bool origin = false;
  };
  RegionClaim(const Clock& clock, std::unique_ptr<ledgers::LedgerStore> store, Claimant claimant,
              uint64_t seed);
  ~RegionClaim() { stop(); }
  RegionClaim(const RegionClaim&) = delete;
  RegionClaim& operator=(const RegionClaim&) = delete;

  // Waits until this process has the lease. Throws std::runtime_error if another process renews it.
  // Returns at once if the ledger is not usable; start() tries again.
  void take();

  // Renews the lease until stop(), which releases it, while this process is the bridge of its
  // region.
  void start();
  void stop();

  // Whether this process is the bridge of its region. Safe from any thread.
  void set_bridge(bool bridge) { bridge_.store(bridge, std::memory_order_relaxed); }

  // The error if another process has taken the lease since start(); empty: none. Safe from any
  // thread.
  [[nodiscard]] std::string conflict() const;

 private:
  enum class Claim : uint8_t { kHeld, kUnknown, kWaits, kLocked };
  [[nodiscard]] Claim claim();
  void run();
  [[nodiscard]] std::string conflict_text() const;

  const Clock& clock_;
  const std::unique_ptr<ledgers::LedgerStore> store_;
  const Claimant claimant_;
  const std::string holder_;
  ledgers::RegionLease rival_;  // the other holder at the last check
  MonoTime rival_since_{};      // its last renewal
  MonoTime renewed_at_{};       // the last attempt
  bool running_ = false;
  std::atomic<bool> bridge_;  // independent of other data: relaxed

  mutable base::StdMutex mutex_;
  std::string conflict_ WEIR_GUARDED_BY(mutex_);

  platform::ThreadExecutor keeper_;
};

}  // namespace weir::server

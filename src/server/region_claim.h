// A lease on the region in a shared ledger.
//
// Two processes of one region without a common origin would write the same rows and lose each
// other's counts. So the ledger stores a lease per region: of one process, or, under one name, of
// all processes that share an origin. A process must not count while another one renews the lease.
// A lease that is not renewed for its duration is free.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

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

  // Renews the lease until stop(), which releases it.
  void start();
  void stop();

  // The error if another process has taken the lease since start(); empty: none. Safe from any
  // thread.
  [[nodiscard]] std::string conflict() const;

 private:
  enum class Claim : uint8_t { kHeld, kUnknown, kWaits, kTaken };
  [[nodiscard]] Claim claim();
  void run();
  [[nodiscard]] std::string conflict_text() const;

  const Clock& clock_;
  const std::unique_ptr<ledgers::LedgerStore> store_;
  const Claimant claimant_;
  const std::string holder_;
  ledgers::RegionLease rival_;  // the other holder at the last check
  MonoTime rival_since_{};     // its last renewal
  bool running_ = false;

  mutable std::mutex mutex_;
  std::string conflict_;  // guarded by mutex_

  platform::ThreadExecutor keeper_;
};

}  // namespace weir::server

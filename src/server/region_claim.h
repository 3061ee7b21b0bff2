// The claim of this process to count for its region, in a ledger that others can reach.
//
// Two processes of one region that do not share an origin would write the same rows and lose each
// other's counts. So a region is held in the ledger: by one process, or, under one name, by all
// that share an origin. Whoever finds it held by somebody who goes on holding it must not count. A
// holder that is silent for as long as a hold lasts is dead, and its region is free.

#pragma once

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
  // `origin`: the process shares its counts with others of its region.
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

  // Waits until the region is held, or until it is clear that somebody else holds it: then throws
  // std::runtime_error. Returns at once if the ledger cannot be used; start() tries again.
  void take();

  // Goes on holding, until stop(), which lets it go.
  void start();
  void stop();

  // What is wrong if somebody else has taken the region meanwhile; nothing otherwise. From any
  // thread.
  [[nodiscard]] std::string conflict() const;

 private:
  enum class Claim : uint8_t { kHeld, kUnknown, kWaits, kTaken };
  [[nodiscard]] Claim claim();
  void run();
  [[nodiscard]] std::string complaint() const;

  const Clock& clock_;
  const std::unique_ptr<ledgers::LedgerStore> store_;
  const Claimant claimant_;
  const std::string holder_;
  ledgers::RegionHold rival_;  // who held it when we last looked
  MonoTime rival_since_{};     // since when that has not changed
  bool running_ = false;

  mutable base::StdMutex mutex_;
  std::string conflict_ WEIR_GUARDED_BY(mutex_);

  platform::ThreadExecutor keeper_;
};

}  // namespace weir::server

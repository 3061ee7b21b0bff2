// Processes of the region "east" that share an origin, beside other regions.

#pragma once

#include <memory>
#include <vector>

#include "global/endpoint_test.h"
#include "global/region_sync_fixture_test.h"
#include "origins/in_process_origin.h"

namespace weir::global {

class SharedRegion : public RegionSyncTest {
 protected:
  // A process of the region "east", with its own connection to the origin.
  TestRegion& add_process(SyncRules rules = {}) {
    endpoints_.push_back(std::make_shared<Endpoint>(east_->another_endpoint()));
    return add("east", endpoints_.back(), rules);
  }
  Endpoint& endpoint(size_t index) { return *endpoints_[index]; }
  static bool is_bridge(const TestRegion& region) { return region.limiter->sync_stats().bridge; }
  // Without a warning to anybody.
  static void kill(TestRegion& region) {
    region.limiter = nullptr;
    region.origin = nullptr;
  }
  static Count siblings(const Verdict& verdict) { return verdict.evidence.siblings; }

  std::shared_ptr<origins::InProcessOrigin> east_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  std::vector<std::shared_ptr<Endpoint>> endpoints_;
};

}  // namespace weir::global

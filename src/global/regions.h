// What a process knows of its region and of the other regions as a whole.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "weir/ledger.h"

namespace weir::global {

// A namespace of one workspace: the unit that the row budget is divided among.
struct Tenant {
  std::string workspace;
  std::string ns;
  friend auto operator<=>(const Tenant&, const Tenant&) = default;
};

// The bridge learns it from the ledger and tells the other processes of the region.
struct Regions {
  SyncRules rules;
  uint32_t count = 0;            // in the ledger; 0: unknown yet
  bool complete = false;         // the region knows all rows: the known regions are all there are
  uint64_t unpublished_ppm = 0;  // of all others together, at most, in millionths of a limit
  uint64_t max_ppm = 0;          // that the others admit if no region knows of another
  FeedPosition own{};            // the last batch of our own feed that is known
  // How often the row budget has doubled the allowance of a namespace; 0 is left out.
  std::map<Tenant, uint32_t> doublings = {};
  friend bool operator==(const Regions&, const Regions&) = default;

  [[nodiscard]] uint32_t doublings_of(const Tenant& tenant) const {
    if (doublings.empty()) return 0;
    const auto found = doublings.find(tenant);
    return found == doublings.end() ? 0 : found->second;
  }
  [[nodiscard]] uint32_t max_doublings() const {
    uint32_t most = 0;
    for (const auto& [tenant, times] : doublings) most = std::max(most, times);
    return most;
  }
};

}  // namespace weir::global

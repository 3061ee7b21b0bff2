// What a process knows of its region and of the other regions as a whole.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "weir/ledger.h"

namespace weir::global {

// A namespace of one workspace: the unit that the row budget is divided among.
struct Tenant {
  std::string workspace;
  std::string ns;
  friend auto operator<=>(const Tenant&, const Tenant&) = default;
};

// What all other regions together may count before they publish it, in millionths of a limit.
struct Unpublished {
  uint64_t ppm = 0;
  uint64_t max_ppm = 0;  // if no region knows of another
  friend bool operator==(const Unpublished&, const Unpublished&) = default;
};

// The bridge learns it from the ledger and tells the other processes of the region.
struct Regions {
  SyncRules rules;
  uint32_t count = 0;         // in the ledger; 0: unknown yet
  bool complete = false;      // the region knows all rows: the known regions are all there are
  Unpublished unpublished{};  // in all namespaces that are not in `wider`
  std::map<Tenant, Unpublished> wider = {};
  FeedPosition own{};  // the last batch of our own feed that is known
  // How often the row budget has doubled the allowance of a namespace; 0 is left out.
  std::map<Tenant, uint32_t> doublings = {};
  std::set<std::string> silent = {};  // the other regions that send no heartbeat
  friend bool operator==(const Regions&, const Regions&) = default;

  [[nodiscard]] uint32_t doublings_of(const Tenant& tenant) const {
    if (doublings.empty()) return 0;
    const auto found = doublings.find(tenant);
    return found == doublings.end() ? 0 : found->second;
  }
};

}  // namespace weir::global

#include "sim/stores/ledger_history.h"

#include <algorithm>

namespace weir::sim {
namespace {

// The last entry up to that time; an empty one if there is none.
template <typename Key, typename Entry>
Entry last_by(const std::map<Key, std::vector<Entry>>& map, const Key& key, MonoTime by) {
  const auto found = map.find(key);
  if (found == map.end()) return {};
  for (auto it = found->second.rbegin(); it != found->second.rend(); ++it) {
    if (it->at <= by) return *it;
  }
  return {};
}

}  // namespace

void LedgerHistory::note(MonoTime at, const std::vector<LedgerRow>& rows) {
  for (const LedgerRow& row : rows) {
    std::vector<RowEntry>& entries = rows_[{cell_of(row), row.region}];
    const RowEntry before = entries.empty() ? RowEntry{.limit = row.limit_seen} : entries.back();
    entries.push_back({.at = at,
                       .count = std::max(before.count, row.count),
                       .limit = std::min(before.limit, row.limit_seen)});
    std::vector<LeaseEntry>& leases = leases_[{tuple_of(row.key), row.region}];
    if (leases.empty() || leases.back().until < row.leased_until) {
      leases.push_back({.at = at, .until = row.leased_until});
    }
  }
}

Count LedgerHistory::count_at(const RowId& id, MonoTime by) const {
  return last_by(rows_, id, by).count;
}

Count LedgerHistory::limit_at(const RowId& id, MonoTime by) const {
  return last_by(rows_, id, by).limit;
}

WallTime LedgerHistory::leased_until(const std::string& tuple, const std::string& region,
                                     MonoTime by) const {
  return last_by(leases_, std::pair(tuple, region), by).until;
}

}  // namespace weir::sim

#include "sim/ledger_history.h"

#include <algorithm>

namespace weir::sim {
namespace {

// The last of what was by then; the empty one if there was nothing.
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

void LedgerHistory::note(MonoTime at, const LedgerNews& news) {
  for (const LedgerRow& row : news.rows) {
    std::vector<Wrote>& wrote = wrote_[{cell_of(row), row.region}];
    const Wrote before = wrote.empty() ? Wrote{.limit = row.limit_seen} : wrote.back();
    wrote.push_back({.at = at,
                     .count = std::max(before.count, row.count),
                     .limit = std::min(before.limit, row.limit_seen)});
  }
  for (const LedgerPresence& presence : news.presences) {
    std::vector<Said>& said = said_[{tuple_of(presence.key), presence.region}];
    const WallTime before = said.empty() ? WallTime{} : said.back().until;
    said.push_back({.at = at, .until = std::max(before, presence.until)});
  }
}

Count LedgerHistory::had(const RowPlace& place, MonoTime by) const {
  return last_by(wrote_, place, by).count;
}

Count LedgerHistory::limit_acked(const RowPlace& place, MonoTime by) const {
  return last_by(wrote_, place, by).limit;
}

WallTime LedgerHistory::said_until(const std::string& tuple, const std::string& region,
                                   MonoTime by) const {
  return last_by(said_, std::pair(tuple, region), by).until;
}

}  // namespace weir::sim

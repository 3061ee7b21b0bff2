#include "origins/redis/redis_repairs.h"

#include <algorithm>

namespace weir::origins {

void RedisRepairs::add_expiry(const std::string& key, WallTime expires_at) {
  add({.key = key, .expires_at = expires_at});
}

void RedisRepairs::add(const Repair& repair) {
  if (pending_.size() >= max_cells_ && !pending_.contains(repair.key)) return;
  Cell& cell = pending_[repair.key];
  cell.expires_at = std::max(cell.expires_at, repair.expires_at);
  cell.departed = std::max(cell.departed, repair.departed);
}

void RedisRepairs::observe_departed(const std::string& key, Count departed, WallTime expires_at) {
  const auto found = departed_.find(key);
  if (found == departed_.end()) {
    if (departed == 0 || departed_.size() >= max_cells_) return;
    departed_.emplace(key, Cell{.expires_at = expires_at, .departed = departed});
  } else if (departed >= found->second.departed) {
    found->second.departed = departed;
  } else {
    add({.key = key, .expires_at = expires_at, .departed = found->second.departed});
  }
}

std::vector<RedisRepairs::Repair> RedisRepairs::take(size_t most) {
  std::vector<Repair> repairs;
  while (!pending_.empty() && repairs.size() < most) {
    auto node = pending_.extract(pending_.begin());
    repairs.push_back({.key = std::move(node.key()),
                       .expires_at = node.mapped().expires_at,
                       .departed = node.mapped().departed});
  }
  return repairs;
}

void RedisRepairs::drop_expired(WallTime now) {
  std::erase_if(departed_, [now](const auto& each) { return each.second.expires_at <= now; });
}

}  // namespace weir::origins

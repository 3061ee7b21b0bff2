#include "origins/redis/redis_upkeep.h"

#include <algorithm>

namespace weir::origins {

void RedisUpkeep::owe_expiry(const std::string& key, WallTime expires_at) {
  owe({.key = key, .expires_at = expires_at});
}

void RedisUpkeep::owe(const Task& task) {
  if (owed_.size() >= most_ && !owed_.contains(task.key)) return;
  Known& known = owed_[task.key];
  known.expires_at = std::max(known.expires_at, task.expires_at);
  known.departed = std::max(known.departed, task.departed);
}

void RedisUpkeep::see_departed(const std::string& key, Count departed, WallTime expires_at) {
  const auto found = departed_.find(key);
  if (found == departed_.end()) {
    if (departed == 0 || departed_.size() >= most_) return;
    departed_.emplace(key, Known{.expires_at = expires_at, .departed = departed});
  } else if (departed >= found->second.departed) {
    found->second.departed = departed;
  } else {
    owe({.key = key, .expires_at = expires_at, .departed = found->second.departed});
  }
}

std::vector<RedisUpkeep::Task> RedisUpkeep::take(size_t most) {
  std::vector<Task> tasks;
  while (!owed_.empty() && tasks.size() < most) {
    auto node = owed_.extract(owed_.begin());
    tasks.push_back({.key = std::move(node.key()),
                     .expires_at = node.mapped().expires_at,
                     .departed = node.mapped().departed});
  }
  return tasks;
}

void RedisUpkeep::forget_expired(WallTime now) {
  std::erase_if(departed_, [now](const auto& each) { return each.second.expires_at <= now; });
}

}  // namespace weir::origins

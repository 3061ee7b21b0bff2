#include "frontends/wrong_keys.h"

#include <algorithm>
#include <cstring>

namespace weir::frontends {

bool WrongKeys::delays(uint64_t address, const rules::KeyHash& key, MonoTime now) {
  Sent* const sent = find(address, now);
  if (sent == nullptr) return true;
  sent->last = now;
  uint64_t number = 0;
  std::memcpy(&number, key.data(), sizeof number);
  if (std::ranges::find(sent->keys, number) != sent->keys.end()) return false;
  sent->keys[sent->next] = number;
  sent->next = (sent->next + 1) % kKeys;
  const MonoTime used = std::max(sent->used_up_to, now) + kInterval;
  if (used - now > static_cast<int64_t>(kKeys) * kInterval) return true;
  sent->used_up_to = used;
  return false;
}

WrongKeys::Sent* WrongKeys::find(uint64_t address, MonoTime now) {
  if (const auto found = sent_.find(address); found != sent_.end()) return &found->second;
  if (sent_.size() >= kAddresses && now - forgot_ >= kInterval) {
    forgot_ = now;
    std::erase_if(sent_, [now](const auto& each) { return now - each.second.last > kRemembered; });
  }
  return sent_.size() < kAddresses ? &sent_[address] : nullptr;
}

}  // namespace weir::frontends

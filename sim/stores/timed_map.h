// A map that remembers the value of each key at every earlier time, and can go back to one.

#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "weir/time.h"

namespace weir::sim {

// Times never decrease from one call to the next. One thread at a time.
template <typename Key, typename Value>
class TimedMap {
 public:
  // The value from this time to that of the next entry; none: the key did not exist.
  struct Entry {
    MonoTime since{};
    std::optional<Value> value{};
  };

  [[nodiscard]] const Value* find(const Key& key) const {
    const auto found = keys_.find(key);
    if (found == keys_.end() || !found->second.back().value) return nullptr;
    return &*found->second.back().value;
  }

  [[nodiscard]] const Value* find_at(const Key& key, MonoTime when) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? nullptr : value_at(found->second, when);
  }

  void set(MonoTime now, const Key& key, Value value) {
    const Value* const before = find(key);
    if (before != nullptr && *before == value) return;
    keys_[key].push_back({.since = now, .value = std::move(value)});
  }

  void erase(MonoTime now, const Key& key) {
    if (find(key) != nullptr) keys_[key].push_back({.since = now, .value = std::nullopt});
  }

  // Each key has the value again that it had then.
  void go_back(MonoTime now, MonoTime then) {
    for (auto& [key, entries] : keys_) {
      const Value* const value = value_at(entries, then);
      const std::optional<Value>& present = entries.back().value;
      if (value == nullptr ? !present : present && *present == *value) continue;
      entries.push_back(
          {.since = now, .value = value == nullptr ? std::nullopt : std::optional<Value>(*value)});
    }
  }

  void clear(MonoTime now) {
    for (auto& [key, entries] : keys_) {
      if (entries.back().value) entries.push_back({.since = now, .value = std::nullopt});
    }
  }

  // In the order they happened.
  [[nodiscard]] const std::vector<Entry>& history(const Key& key) const {
    static const std::vector<Entry> kNever;
    const auto found = keys_.find(key);
    return found == keys_.end() ? kNever : found->second;
  }

  // Visits the present values.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [key, entries] : keys_) {
      if (entries.back().value) visit(key, *entries.back().value);
    }
  }

 private:
  using Entries = std::vector<Entry>;

  // The last entry up to that time was valid then.
  static const Value* value_at(const Entries& entries, MonoTime when) {
    const auto after =
        std::upper_bound(entries.begin(), entries.end(), when,
                         [](MonoTime at, const Entry& entry) { return at < entry.since; });
    if (after == entries.begin() || !(after - 1)->value) return nullptr;
    return &*(after - 1)->value;
  }

  std::map<Key, Entries> keys_;  // none is empty
};

}  // namespace weir::sim

// A map of few elements, sorted by key, in one piece of memory. An element is inserted and erased
// in linear time, and its address changes when another one is.

#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace weir::base {

template <typename Key, typename Value>
class FlatMap {
 public:
  using Element = std::pair<Key, Value>;
  using const_iterator = typename std::vector<Element>::const_iterator;

  [[nodiscard]] const_iterator begin() const { return elements_.begin(); }
  [[nodiscard]] const_iterator end() const { return elements_.end(); }
  [[nodiscard]] size_t size() const { return elements_.size(); }
  [[nodiscard]] bool empty() const { return elements_.empty(); }

  // Null: there is none.
  [[nodiscard]] const Value* find(const Key& key) const {
    const auto at = position_of(elements_, key);
    return at != elements_.end() && at->first == key ? &at->second : nullptr;
  }
  [[nodiscard]] Value* find(const Key& key) {
    return const_cast<Value*>(std::as_const(*this).find(key));
  }
  // The value, and whether it is new.
  std::pair<Value&, bool> obtain(const Key& key) {
    const auto at = position_of(elements_, key);
    if (at != elements_.end() && at->first == key) return {at->second, false};
    return {elements_.emplace(at, key, Value())->second, true};
  }
  Value& operator[](const Key& key) { return obtain(key).first; }

  void erase(const Key& key) {
    const auto at = position_of(elements_, key);
    if (at != elements_.end() && at->first == key) elements_.erase(at);
  }

 private:
  template <typename Elements>
  [[nodiscard]] static auto position_of(Elements& elements, const Key& key) {
    return std::lower_bound(elements.begin(), elements.end(), key,
                            [](const Element& element, const Key& k) { return element.first < k; });
  }

  std::vector<Element> elements_;
};

}  // namespace weir::base

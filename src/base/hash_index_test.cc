#include "base/hash_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace weir::base {
namespace {

struct Named {
  uint32_t name = 0;
};

class Indexed {
 public:
  Named* find(uint64_t hash, uint32_t name) const {
    return index_.find(hash, [name](const Named& named) { return named.name == name; });
  }
  void toggle(uint64_t hash, uint32_t name) {
    if (Named* const found = find(hash, name)) {
      index_.erase(hash, *found);
    } else {
      index_.add(hash, std::make_unique<Named>(Named{name}));
    }
  }
  HashIndex<Named>& index() { return index_; }

 private:
  HashIndex<Named> index_;
};

TEST(HashIndex, FindsNothingWhenEmpty) {
  EXPECT_EQ(Indexed().find(7, 7), nullptr);
}

// Few hash values, so that many collide and wrap around the end of the array.
RC_GTEST_PROP(HashIndex, ContainsTheAddedEntriesThatWereNotErased, ()) {
  const auto toggles = *rc::gen::container<std::vector<std::pair<uint8_t, uint8_t>>>(
      rc::gen::pair(rc::gen::inRange<uint8_t>(0, 24), rc::gen::inRange<uint8_t>(0, 6)));
  Indexed indexed;
  std::map<std::pair<uint64_t, uint32_t>, bool> present;
  for (const auto& [hash, name] : toggles) {
    const uint64_t wide = hash < 12 ? hash : ~uint64_t{0} - hash;
    indexed.toggle(wide, name);
    present[{wide, name}] = !present[{wide, name}];
    size_t count = 0;
    for (const auto& [id, is_present] : present) {
      RC_ASSERT((indexed.find(id.first, id.second) != nullptr) == is_present);
      count += is_present;
    }
    RC_ASSERT(indexed.index().size() == count);
    indexed.index().for_each([&](const Named&) { --count; });
    RC_ASSERT(count == 0U);
  }
}

TEST(HashIndex, DoesNotMoveEntriesWhileItGrows) {
  HashIndex<Named> index;
  const Named& first = index.add(1, std::make_unique<Named>(Named{1}));
  for (uint32_t i = 2; i < 1000; ++i) index.add(i, std::make_unique<Named>(Named{i}));
  EXPECT_EQ(index.find(1, [](const Named&) { return true; }), &first);
  EXPECT_EQ(index.size(), 999U);
}

}  // namespace
}  // namespace weir::base

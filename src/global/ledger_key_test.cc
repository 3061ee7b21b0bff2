#include "global/ledger_key.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "decide/validate.h"
#include "memory/tuple_key.h"

namespace weir::global {
namespace {

// Keys at and beyond both bounds of every field.
std::vector<LedgerKey> keys_around_the_bounds() {
  std::vector<LedgerKey> keys;
  for (const size_t workspace : {size_t{0}, kMaxNameBytes, kMaxNameBytes + 1}) {
    for (const size_t ns : {size_t{0}, size_t{1}, kMaxNameBytes, kMaxNameBytes + 1}) {
      for (const size_t identifier : {size_t{0}, size_t{1}, kMaxNameBytes, kMaxNameBytes + 1}) {
        for (const Millis duration : {Millis(-1), Millis(0), kMinDuration - Millis(1), kMinDuration,
                                      kMaxDuration, kMaxDuration + Millis(1)}) {
          keys.push_back({.workspace = std::string(workspace, 'w'),
                          .ns = std::string(ns, 'n'),
                          .identifier = std::string(identifier, 'i'),
                          .duration = duration});
        }
      }
    }
  }
  return keys;
}

TEST(LedgerKey, IsValidExactlyIfARequestWithItIs) {
  size_t valid = 0;
  for (const LedgerKey& key : keys_around_the_bounds()) {
    EXPECT_EQ(is_valid(key), decide::validate(request_of(key)) == nullptr)
        << key.workspace.size() << " " << key.ns.size() << " " << key.identifier.size() << " "
        << key.duration.count();
    valid += is_valid(key) ? 1 : 0;
  }
  EXPECT_EQ(valid, 2u * 2 * 2 * 2);
}

TEST(LedgerKey, ConvertsToATupleAndBack) {
  const base::KeyedHash hash(1);
  for (const LedgerKey& key : keys_around_the_bounds()) {
    if (!is_valid(key)) continue;
    EXPECT_EQ(ledger_key_of(memory::TupleKey(request_of(key), hash).encoded()), key);
  }
}

}  // namespace
}  // namespace weir::global

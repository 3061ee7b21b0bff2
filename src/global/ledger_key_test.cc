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

TEST(LedgerKey, TellsWindowTuplesFromOtherBytes) {
  const base::KeyedHash hash(1);
  for (const LedgerKey& key : keys_around_the_bounds()) {
    if (!is_valid(key)) continue;
    const std::string tuple = memory::TupleKey(request_of(key), hash).encoded();
    EXPECT_TRUE(is_window_tuple(tuple));
    for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, tuple.size() - 1}) {
      EXPECT_FALSE(is_window_tuple(tuple.substr(0, size))) << size;
    }
    EXPECT_FALSE(is_window_tuple(tuple + '\0'));
    Request bucket = request_of(key);
    bucket.algorithm = Algorithm::kTokenBucket;
    EXPECT_FALSE(is_window_tuple(memory::TupleKey(bucket, hash).encoded()));
  }
  // Names that are too long, and no duration.
  EXPECT_FALSE(is_window_tuple(std::string(8 + 3 * 1024, '\xff')));
  EXPECT_FALSE(is_window_tuple(std::string(8, '\0')));
}

}  // namespace
}  // namespace weir::global

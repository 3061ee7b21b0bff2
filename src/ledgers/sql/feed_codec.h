// The rows of one batch of a feed, as the bytes that a store keeps.
//
//   batch: version, number of rows, rows
//   row:   workspace, namespace, identifier, duration in ms, sequence, count, limit, lease in ms
//
// A name that the batch already has is written as its index. The region is that of the feed.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/ledger.h"

namespace weir::ledgers {

[[nodiscard]] std::string encode_batch(const std::vector<LedgerRow>& rows);

struct DecodedBatch {
  std::vector<LedgerRow> rows;
  uint64_t invalid = 0;  // rows with impossible values, left out
};
// None if encode_batch() of this version did not produce the bytes.
[[nodiscard]] std::optional<DecodedBatch> decode_batch(const std::string& region,
                                                       std::string_view bytes);

}  // namespace weir::ledgers

// A batch of a feed that decodes has valid rows only, and they encode to a batch with the same
// rows.

#include <string>

#include "fuzz/input.h"
#include "ledgers/rows.h"
#include "ledgers/sql/feed_codec.h"

using weir::fuzz::Exact;
using weir::fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Exact bytes({reinterpret_cast<const char*>(data), size});
  const auto batch = weir::ledgers::decode_batch("east", bytes.view());
  if (!batch) return 0;
  for (const weir::LedgerRow& row : batch->rows) {
    must(row.region == "east", "a row has the region of the feed");
    must(weir::ledgers::is_valid(row), "a row is valid");
  }
  const auto again = weir::ledgers::decode_batch("east", weir::ledgers::encode_batch(batch->rows));
  must(again && again->rows == batch->rows && again->invalid == 0, "the rows survive a round trip");
  return 0;
}

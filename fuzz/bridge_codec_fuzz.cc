// A message, a record or a state of the bridge that decodes encodes to one with the same contents.
// Tuples in it may be any bytes: only those of valid tuples are used.

#include <string>

#include "fuzz/input.h"
#include "global/bridge_codec.h"
#include "global/ledger_key.h"

using weir::fuzz::Exact;
using weir::fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Exact bytes({reinterpret_cast<const char*>(data), size});
  if (const auto notice = weir::global::decode_notice(bytes.view())) {
    must(weir::global::decode_notice(weir::global::encode(*notice)) == *notice,
         "a notice survives a round trip");
    must(notice->import_age >= weir::Millis(0), "an import is not in the future");
    for (const weir::global::TupleChange& change : notice->changes) {
      if (!weir::global::is_window_tuple(change.tuple)) continue;
      must(weir::global::is_valid(weir::global::ledger_key_of(change.tuple)),
           "a window tuple has a valid key");
    }
  }
  if (const auto state = weir::global::decode_state(bytes.view())) {
    must(weir::global::decode_state(weir::global::encode(*state)) == *state,
         "a state survives a round trip");
  }
  if (const auto record = weir::global::decode_reservation(bytes.view())) {
    must(weir::global::decode_reservation(weir::global::encode(*record))->at == record->at,
         "a reservation survives a round trip");
  }
  // As one tuple.
  const std::string tuple(bytes.view());
  if (weir::global::is_window_tuple(tuple)) {
    must(weir::global::is_valid(weir::global::ledger_key_of(tuple)), "a tuple has a valid key");
  }
  return 0;
}

// What can be chosen when a Limiter is built. Each option says its meaning, unit,
// default and range, and what too little and too much cost.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weir/error.h"
#include "weir/ledger.h"
#include "weir/origin.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

struct Options {
  // --- changes behaviour ---

  // The store shared with the other processes of the region. None: this process is
  // alone, its memory is the truth, and nothing is ever read before a decision.
  std::shared_ptr<RegionalOrigin> origin = nullptr;

  // The store shared with other regions, and the name of this one. None: there are no others.
  // With one, call run_sharing() every 10 ms or so from any thread.
  std::shared_ptr<GlobalLedger> ledger = nullptr;
  std::string region = "local";

  // What regions agree on, if this process is the first that the ledger ever sees; else what the
  // ledger has counts. A lease is at least shortest_lease(), or it is taken to be that: it would be
  // over before it is known.
  SyncRules sync{};

  // What holds while the origin is lost, unless a request says otherwise. Default: go on alone.
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;

  // How long a request waits for the origin before it is decided on what is known.
  // Default 300 ms, 1 ms to 10 s. Shorter: more degraded verdicts while the origin is
  // slow. Longer: callers wait longer when it is down.
  Millis read_deadline{300};

  // The longest time a count read from the origin is trusted; the tenth part of the
  // window if that is less, and less again where the others could have used what remains.
  // Default 5 s, 10 ms to 60 s. Shorter: more reads. Longer: siblings are seen later.
  Millis max_freshness{5000};

  // How long what was accepted may wait to be told to the origin, unless it is so much of
  // what remains that the others should know at once. Default 250 ms, 0 to 10 s; with 0
  // every run_replay() tells everything. Shorter: more messages. Longer: siblings know later,
  // and a process that dies takes more with it.
  Millis replay_within{250};

  // --- changes performance ---

  // Tuples held in memory; a hard bound. Each takes some 480 bytes of `memory` at the start,
  // occupied as it fills. Default 0: memory / 1 KiB, with a ledger memory / 2 KiB, or 2^17 if
  // memory is not given either; 64 to 2^28. Too small: live tuples are counted together in a sketch
  // that errs on the strict side. Too large: less of `memory` is left for what tuples own besides.
  size_t capacity = 0;

  // Bytes that all counts together may take; a hard bound. What `capacity` does not take at the
  // start is for rings (272 bytes a tuple), logs (8 to 16 bytes for each unit of the limit), names
  // of more than 56 bytes, and counts of other regions. Default 0: 1 KiB for each tuple of
  // `capacity`, with a ledger 2 KiB, at least 1 MiB. Too small for what is asked: such tuples are
  // counted in the sketch, too, and their verdicts say degraded. Too small for `capacity`: see
  // error_in().
  uint64_t memory = 0;

  // Tuples that only other regions use of which their counts are held; a hard bound. Default 0: a
  // quarter of the capacity, at least 1024. Too small: what has no room is read again later, and
  // the exported bound is wider until then.
  size_t remote_tuples = 0;

  // --- for tests and simulation ---

  // Seeds the hash of keys and the name of this incarnation. Absent: both from the system's
  // entropy, each from its own, so that no outsider can aim keys at one bucket.
  std::optional<uint64_t> seed = std::nullopt;
};

// The first option that is outside of its range, with its value and what would be right; none if
// all is well. A Limiter does not ask, and ends the process where memory is too small for the
// capacity: who takes options from others asks before it builds one.
[[nodiscard]] std::optional<Error> error_in(const Options& options);

}  // namespace weir

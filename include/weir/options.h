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
  SharingRules sharing{};

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

  // Tuples held in memory; a hard bound, about 250 bytes each, reserved at the start
  // and touched as it fills. Default 2^17, 64 to 2^28. Too small: live tuples are
  // counted together in a sketch that errs on the strict side. Too large: memory.
  size_t capacity = size_t{1} << 17;

  // --- for tests and simulation ---

  // Seeds the hash of keys and the name of this incarnation. Absent: both from the system's
  // entropy, each from its own, so that no outsider can aim keys at one bucket.
  std::optional<uint64_t> seed = std::nullopt;
};

// The first option that is outside of its range, with its value and what would be right; none if
// all is well. A Limiter does not ask: who takes options from others does so before it builds one.
[[nodiscard]] std::optional<Error> error_in(const Options& options);

}  // namespace weir

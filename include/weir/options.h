// The options of a Limiter. Each comment has the meaning, unit, default and range, and the cost of
// too small and too large values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weir/error.h"
#include "weir/export.h"
#include "weir/ledger.h"
#include "weir/origin.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

struct Options {
  // --- behaviour ---

  // The store shared with the other processes of the region. None: the counts in memory are
  // complete, and no decision waits. An origin needs run_replay(): see Runner.
  std::shared_ptr<RegionalOrigin> origin = nullptr;

  // The store shared with other regions, and the name of this region, 1 to 64 bytes. None: there
  // are no other regions. A ledger needs run_sync(): see Runner.
  std::shared_ptr<GlobalLedger> ledger = nullptr;
  std::string region = "local";
  // Whether other regions may use the ledger. Default: true. False: it only keeps windows over a
  // restart, and requests of the other algorithms are faster.
  bool other_regions = true;

  // The settings that all regions share, if this process is the first that uses the ledger;
  // otherwise those in the ledger apply. The lease is kMinLease to 1 day, the three permille
  // values 0 to 1000, both intervals 1 ms to 1 day, and rows_per_second at least 1.
  SyncRules sync{};

  // Whether this process deletes expired rows of the ledger while it is the bridge of its region.
  // Default: true. False: a job of yours must run `weir ledger clean`, or the tables grow.
  bool clean_ledger = true;

  // The policy while the origin is lost, unless a request sets one. Default: kLocal.
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;

  // How far the processes of a region agree before they admit a request, unless the request says
  // so itself. Default: kConverge.
  Consistency consistency = Consistency::kConverge;

  // How long a request waits for the origin before it is decided on the counts in memory, however
  // many answers it needs (docs/origin.md).
  // Default 300 ms, 1 ms to 10 s. Shorter: more degraded verdicts while the origin is slow.
  // Longer: callers wait longer while it is down.
  Millis read_deadline{300};

  // How long a count that was read from the origin is fresh, at most. It is also at most a tenth of
  // the window, and less if other processes could use the remaining capacity sooner.
  // Default 5 s, 10 ms to 60 s. Shorter: more reads. Longer: counts of siblings arrive later.
  Millis max_freshness{5000};

  // How long an admission may wait until it is sent to the origin; a large part of the remaining
  // capacity is sent at once. Default 250 ms, 0 to 10 s; with 0 each run_replay() sends all.
  // Shorter: more messages. Longer: siblings see it later, and a crash loses more.
  Millis replay_within{250};

  // --- performance ---

  // Tuples in memory; a hard limit. Each takes about 480 bytes of `memory` at the start, which
  // become resident as the table fills. Default 0: memory / 1 KiB, with a ledger memory / 2 KiB, or
  // 2^17 if `memory` is 0, too; 64 to 2^28. Too small: live tuples are counted together in a sketch
  // that denies too early rather than too late. Too large: less of `memory` is left for the other
  // uses below.
  size_t capacity = 0;

  // Bytes for all counts together; a hard limit. The part that `capacity` does not take is for
  // rings (272 bytes a tuple), logs (8 to 16 bytes for each unit of the limit), names of more than
  // 56 bytes, and counts of other regions. Default 0: 1 KiB for each tuple of `capacity`, with a
  // ledger 2 KiB, at least 1 MiB. Too small for a request: it is counted in the sketch, and its
  // verdict is degraded. Too small for `capacity`: an error.
  uint64_t memory = 0;

  // Tuples whose counts of other regions are kept while this process is its own bridge: without an
  // origin, or while it is lost; a hard limit. Each takes about 400 bytes. Default 0: a quarter of
  // the capacity, at least 1024; 1 to 2^28. Too small: counts of tuples beyond it are missing, and
  // the bound on over-admission is wider until then.
  size_t remote_tuples = 0;

  // --- tests and simulation ---

  // Seeds the hash of keys and the incarnation of this process. Absent: both are random, so that
  // no client can choose keys of one bucket.
  std::optional<uint64_t> seed = std::nullopt;
};

// The first option outside of its range, with its value and the range; none if all are valid.
// Limiter::create() returns the same error.
[[nodiscard]] WEIR_EXPORT std::optional<Error> error_in(const Options& options);

}  // namespace weir

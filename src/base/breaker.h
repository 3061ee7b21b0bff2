// A circuit breaker that opens by the share of failed calls, not by their number: a fixed number
// would be reached by healthy traffic, too.
//
// Closed, all calls are made. Open, no calls are made until a background probe succeeds; a request
// is never used as a probe. Pure: the caller passes the time. One thread at a time.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "weir/time.h"

namespace weir::base {

struct BreakerOptions {
  Nanos window = std::chrono::seconds(5);  // calls older than this do not count
  uint64_t least = 20;                     // calls in the window before the breaker may open
  uint64_t percent = 50;                   // share of failures that opens the breaker
  Nanos pause = std::chrono::seconds(1);   // before the first probe, and the second
  // The pause between failing probes doubles up to this.
  Nanos longest_pause = std::chrono::seconds(1);
};

class Breaker {
 public:
  explicit Breaker(BreakerOptions options = {}) : options_(options) {}

  [[nodiscard]] bool closed() const { return closed_; }

  void record(MonoTime now, bool succeeded) {
    Slice& slice = slice_at(now);
    ++slice.calls;
    slice.failures += succeeded ? 0 : 1;
    if (!closed_ || succeeded) return;
    uint64_t calls = 0;
    uint64_t failures = 0;
    for (const Slice& each : slices_) {
      if (slice.number - each.number >= static_cast<int64_t>(kSlices)) continue;
      calls += each.calls;
      failures += each.failures;
    }
    if (calls >= options_.least && failures * 100 >= calls * options_.percent) {
      closed_ = false;
      pause_ = options_.pause;
      probe_at_ = now + pause_;
    }
  }

  // Whether a probe is due. If so, the next one is due after another pause.
  [[nodiscard]] bool probe_due(MonoTime now) {
    if (closed_ || now < probe_at_) return false;
    probe_at_ = now + pause_;
    pause_ = std::min(2 * pause_, std::max(options_.pause, options_.longest_pause));
    return true;
  }

  // Call when a probe succeeded: earlier failures no longer count.
  void close() {
    closed_ = true;
    slices_ = {};
  }

 private:
  static constexpr size_t kSlices = 5;
  struct Slice {
    int64_t number = -static_cast<int64_t>(kSlices);
    uint64_t calls = 0;
    uint64_t failures = 0;
  };
  Slice& slice_at(MonoTime now) {
    const int64_t number =
        now.time_since_epoch() / (options_.window / static_cast<int64_t>(kSlices));
    Slice& slice = slices_[static_cast<size_t>(number) % kSlices];
    if (slice.number != number) slice = {.number = number};
    return slice;
  }

  BreakerOptions options_;
  std::array<Slice, kSlices> slices_{};
  bool closed_ = true;
  Nanos pause_{};
  MonoTime probe_at_{};
};

}  // namespace weir::base

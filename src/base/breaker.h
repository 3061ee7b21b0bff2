// Stops asking what mostly fails, by the share of failures, not their number: a
// count would trip on healthy traffic.
//
// Closed, everything is asked. Open, nothing is, until a probe in the background succeeds;
// no request ever is the probe. Pure: time is handed in. One thread at a time.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "weir/time.h"

namespace weir::base {

struct BreakerOptions {
  Nanos window = std::chrono::seconds(5);  // of calls that count
  uint64_t least = 20;                     // calls before anything is concluded
  uint64_t percent = 50;                   // of failures that open it
  Nanos pause = std::chrono::seconds(1);   // before the first probe, and the second
  // Between probes that go on failing: each pause is twice the last, up to this.
  Nanos longest_pause = std::chrono::seconds(1);
};

class Breaker {
 public:
  explicit Breaker(BreakerOptions options = {}) : options_(options) {}

  [[nodiscard]] bool closed() const { return closed_; }

  void note(MonoTime now, bool succeeded) {
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

  // Whether it is time for a probe; then the next is a pause away.
  [[nodiscard]] bool probe_due(MonoTime now) {
    if (closed_ || now < probe_at_) return false;
    probe_at_ = now + pause_;
    pause_ = std::min(2 * pause_, std::max(options_.pause, options_.longest_pause));
    return true;
  }

  // A probe succeeded: what failed before does not count any more.
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

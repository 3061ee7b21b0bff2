// The requests of all benchmarks: one million identifiers of 28 bytes, and four million requests
// drawn from them with a uniform distribution.
//
// The identifiers are contiguous in memory in the order of the requests, as in the buffer of a
// connection: reading a request is sequential, so that the limiter dominates the time. All
// benchmarks use the same array.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/clock.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::bench {

inline constexpr size_t kKeys = 1'000'000;
inline constexpr size_t kRequests = 4'000'000;
inline constexpr size_t kIdentifierBytes = 28;
inline constexpr int kMaxThreads = 2;

// High enough to admit everything.
inline constexpr Count kLimit = kMaxLimit;
inline constexpr Millis kDuration{60'000};
inline constexpr std::string_view kNamespace = "api";

// The middle of a window. Time is constant: callers pass it, and two threads need no common clock.
// Half of the counts charged at kBefore still weigh.
inline constexpr WallTime kWindowStart{Millis(28'000'000 * kDuration.count())};
inline constexpr Instant kNow{.wall = kWindowStart + kDuration / 2,
                              .mono = MonoTime(std::chrono::hours(1))};
inline constexpr Instant kBefore{.wall = kNow.wall - kDuration, .mono = kNow.mono - kDuration};

// A clock that only tick() advances.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return now_; }
  void tick() {
    now_.wall += Millis(1);
    now_.mono += Millis(1);
  }

 private:
  Instant now_ = kNow;
};

[[nodiscard]] inline Request request_for(std::string_view identifier) {
  return {.ns = kNamespace, .identifier = identifier, .limit = kLimit, .duration = kDuration};
}

// The n-th identifier with a length of `bytes` (at least 16); it looks random.
[[nodiscard]] std::string identifier_number(uint64_t n, size_t bytes);

// One thread at a time, except that threads with different numbers may call resume and pause.
class Requests {
 public:
  [[nodiscard]] static Requests& shared();  // created on first use

  [[nodiscard]] std::string_view identifier(size_t at) const {
    return {&bytes_[at * kIdentifierBytes], kIdentifierBytes};
  }
  // The index of the key, 0 to kKeys - 1.
  [[nodiscard]] uint32_t key(size_t at) const { return keys_[at]; }

  // A run continues where the previous run of the thread ended, so that its first requests are not
  // in the cache.
  [[nodiscard]] size_t resume(int thread) const { return position_[static_cast<size_t>(thread)]; }
  void pause(int thread, size_t at) { position_[static_cast<size_t>(thread)] = at; }

  // `at`, or 0 if fewer than `more` requests follow.
  [[nodiscard]] size_t wrapped(size_t at, size_t more) const {
    return at + more > kRequests ? 0 : at;
  }

 private:
  Requests();

  std::vector<char> bytes_;
  std::vector<uint32_t> keys_;
  std::array<size_t, kMaxThreads> position_{0, kRequests / 2};
};

}  // namespace weir::bench

// What is asked, in which order, and at what time: one million identifiers of 28 bytes,
// four million requests drawn from them uniformly.
//
// The identifiers lie in memory one behind the other in the order asked, as they would in
// a connection's buffer: reading the request itself is a stream, and what is measured is
// the limiter. Every contestant walks the same array.

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

// So high that everything is admitted.
inline constexpr int64_t kLimit = kMaxLimit;
inline constexpr Millis kDuration{60'000};
inline constexpr std::string_view kNamespace = "api";

// The middle of a window. Time stands still there: time handed in is what is measured,
// and two threads need no common clock. Half of what kBefore charged still weighs.
inline constexpr WallTime kWindowStart{Millis(28'000'000 * kDuration.count())};
inline constexpr Instant kNow{.wall = kWindowStart + kDuration / 2,
                              .mono = MonoTime(std::chrono::hours(1))};
inline constexpr Instant kBefore{.wall = kNow.wall - kDuration, .mono = kNow.mono - kDuration};

// The clock of the limiters that are handed a time: what they are handed is what it shows.
class HandedClock final : public Clock {
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

// The n-th identifier: `bytes` long (16 at least), as different from the others as a
// random one would be.
[[nodiscard]] std::string identifier_number(uint64_t n, size_t bytes);

// One thread at a time, but for threads that use different numbers in resume and pause.
class Requests {
 public:
  [[nodiscard]] static Requests& shared();  // made when first asked for

  [[nodiscard]] std::string_view identifier(size_t at) const {
    return {&bytes_[at * kIdentifierBytes], kIdentifierBytes};
  }
  // Which of the keys, 0 to kKeys - 1.
  [[nodiscard]] uint32_t key(size_t at) const { return keys_[at]; }

  // Each run goes on where the thread's last one ended, so that no run finds in the cache
  // what it left there.
  [[nodiscard]] size_t resume(int thread) const { return position_[static_cast<size_t>(thread)]; }
  void pause(int thread, size_t at) { position_[static_cast<size_t>(thread)] = at; }

  // `at`, or the start if fewer than `more` requests follow it.
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

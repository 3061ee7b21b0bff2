// A latency histogram.
//
// Safe from any thread.

#pragma once

#include <array>
#include <cstdint>

#include "telemetry/counters.h"
#include "weir/time.h"

namespace weir::telemetry {

// Upper bounds in microseconds; the last bucket has none.
inline constexpr std::array<int64_t, 17> kLatencyEnds{
    1,    2,    5,    10,     20,     50,      100,     200,      500,
    1000, 2000, 5000, 10'000, 50'000, 100'000, 300'000, 1'000'000};

class Latency {
 public:
  void add(Nanos each, uint64_t times = 1) {
    size_t bucket = 0;
    while (bucket < kLatencyEnds.size() && each.count() > kLatencyEnds[bucket] * 1000) ++bucket;
    buckets_.add(static_cast<Bucket>(bucket), times);
    buckets_.add(Bucket::kNanos, static_cast<uint64_t>(each.count()) * times);
  }

  // The number of values in a bucket.
  [[nodiscard]] uint64_t in_bucket(size_t bucket) const {
    return buckets_.total(static_cast<Bucket>(bucket));
  }
  // The sum of all values.
  [[nodiscard]] Nanos sum() const {
    return Nanos(static_cast<int64_t>(buckets_.total(Bucket::kNanos)));
  }

 private:
  enum class Bucket : uint8_t { kNanos = kLatencyEnds.size() + 1, kCount };
  Counters<Bucket> buckets_;
};

}  // namespace weir::telemetry

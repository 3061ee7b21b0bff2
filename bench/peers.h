// Two common designs of a rate limiter, written in C++ so that the design is compared and not the
// language.
//
// Both use the identifier alone as the key and one limit for all keys, which is less than Weir
// does. A lookup copies nothing. Keys never expire.

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bench/harness.h"
#include "weir/time.h"

namespace weir::bench {

// Looks up std::string keys by a view, without a temporary string.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

struct PeerOptions {
  size_t keys = 0;  // capacity reserved at the start
  Count limit = 0;
  Millis duration{0};
};

// A map under one mutex with the counts of two adjacent windows per key: the same sliding window as
// Weir. Safe from any thread.
class MapPeer {
 public:
  explicit MapPeer(const PeerOptions& options);
  [[nodiscard]] Answer check(Instant now, std::string_view identifier);

 private:
  struct Cells {
    int64_t sequence = 0;
    Count current = 0;
    Count previous = 0;
  };
  const Count limit_;
  const Millis duration_;
  std::mutex mutex_;
  StringMap<Cells> cells_;
};

// The design of Go's golang.org/x/time/rate with one limiter per key: a map under a mutex; each
// limiter is a token bucket in floating point under its own mutex. Safe from any thread.
class RatePeer {
 public:
  explicit RatePeer(const PeerOptions& options);
  ~RatePeer();
  [[nodiscard]] Answer check(Instant now, std::string_view identifier);

 private:
  class Bucket;
  [[nodiscard]] Bucket& bucket(std::string_view identifier);

  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  StringMap<std::unique_ptr<Bucket>> buckets_;
};

}  // namespace weir::bench

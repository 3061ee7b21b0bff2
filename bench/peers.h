// What one would write instead: two limiters as found in many programs, in C++, so that
// the idea is compared and not the language.
//
// Both are keyed by the identifier alone and have one limit for all keys, which is less
// than Weir does. A look-up copies nothing. They never forget a key.

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bench/harness.h"
#include "weir/time.h"

namespace weir::bench {

// Finds std::string keys by a view, without making a string.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

struct PeerOptions {
  size_t keys = 0;  // room is made for so many at the start
  int64_t limit = 0;
  Millis duration{0};
};

// A map under one mutex, to the counts of two neighbouring windows: the same sliding
// window as Weir's. Safe from any thread.
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

// The idea of Go's golang.org/x/time/rate, as used per key: a map under a mutex to
// limiters, each a bucket of tokens in floating point under its own mutex. Safe from any
// thread.
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

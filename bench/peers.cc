#include "bench/peers.h"

#include <algorithm>
#include <chrono>

namespace weir::bench {

MapPeer::MapPeer(const PeerOptions& options) : limit_(options.limit), duration_(options.duration) {
  cells_.reserve(options.keys);
}

Answer MapPeer::check(Instant now, std::string_view identifier) {
  const int64_t tick = now.wall.time_since_epoch().count();
  const int64_t sequence = tick / duration_.count();
  const auto left = static_cast<Count>(duration_.count() - tick % duration_.count());

  const std::lock_guard lock(mutex_);
  auto found = cells_.find(identifier);
  if (found == cells_.end()) found = cells_.emplace(std::string(identifier), Cells{}).first;
  Cells& cells = found->second;
  if (cells.sequence != sequence) {
    cells.previous = cells.sequence == sequence - 1 ? cells.current : 0;
    cells.current = 0;
    cells.sequence = sequence;
  }
  const Count used = cells.current + cells.previous * left / static_cast<Count>(duration_.count());
  if (used + 1 > limit_) return {.admitted = false, .remaining = 0};
  ++cells.current;
  return {.admitted = true, .remaining = limit_ - used - 1};
}

class RatePeer::Bucket {
 public:
  explicit Bucket(double burst) : tokens_(burst) {}

  Answer take(MonoTime now, double per_second, double burst) {
    const std::lock_guard lock(mutex_);
    const double elapsed = now > last_ ? std::chrono::duration<double>(now - last_).count() : 0.0;
    const double tokens = std::min(burst, tokens_ + elapsed * per_second) - 1;
    if (tokens < 0) return {.admitted = false, .remaining = 0};
    tokens_ = tokens;
    last_ = now;
    return {.admitted = true, .remaining = static_cast<Count>(tokens)};
  }

 private:
  std::mutex mutex_;
  double tokens_;
  MonoTime last_{};
};

RatePeer::RatePeer(const PeerOptions& options)
    : per_second_(static_cast<double>(options.limit) * 1000 /
                  static_cast<double>(options.duration.count())),
      burst_(static_cast<double>(options.limit)) {
  buckets_.reserve(options.keys);
}

RatePeer::~RatePeer() = default;

RatePeer::Bucket& RatePeer::bucket(std::string_view identifier) {
  const std::lock_guard lock(mutex_);
  const auto found = buckets_.find(identifier);
  if (found != buckets_.end()) return *found->second;
  return *buckets_.emplace(std::string(identifier), std::make_unique<Bucket>(burst_)).first->second;
}

Answer RatePeer::check(Instant now, std::string_view identifier) {
  return bucket(identifier).take(now.mono, per_second_, burst_);
}

}  // namespace weir::bench

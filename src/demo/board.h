// The model of the demo: one stream of requests, offered to every algorithm.
//
// Callers pass the time, so the same board runs live on the system clock, in virtual time and in
// tests. It draws nothing.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "weir/limiter.h"

namespace weir::demo {

struct DemoSettings {
  Count limit = 10;
  Millis window{5000};
  int64_t requests_per_second = 4;  // 0: paused

  static constexpr Count kMaxLimit = kMaxLogLimit;  // supported by every algorithm
  static constexpr Millis kMaxWindow{3'600'000};    // enough for a demo
  static constexpr int64_t kMaxRequestsPerSecond = 1000;
};

// The results of one algorithm.
struct DemoRow {
  Algorithm algorithm = Algorithm::kSlidingWindow;
  uint64_t admitted = 0;
  uint64_t denied = 0;
  Count remaining = 0;
  std::deque<Outcome> recent = {};                  // newest last
  std::optional<MonoTime> retry_at = std::nullopt;  // if the latest request was denied
};

// One thread at a time.
class DemoBoard {
 public:
  static constexpr size_t kRecent = 200;  // outcomes stored for each row
  static constexpr int kBurst = 10;       // requests that arrive at the same instant
  // After a longer gap in the live demo the machine was suspended: the board drops the requests
  // that were due in it.
  static constexpr Nanos kMaxGap = std::chrono::seconds(1);

  DemoBoard(Instant now, const DemoSettings& settings);

  // Offers the steady requests that are due, then updates the remaining counts.
  void step(Instant now);

  // Handles a key: space, 0 to 9, +, -, w or r. Ignores other keys.
  void press(Instant now, char key);

  void burst(Instant now);

  [[nodiscard]] const DemoSettings& settings() const { return settings_; }
  [[nodiscard]] const std::array<DemoRow, kAlgorithmCount>& rows() const { return rows_; }
  [[nodiscard]] uint64_t offered() const { return offered_; }

 private:
  void offer(Instant now);
  void update_remaining(Instant now);
  void reset(Instant now);
  void set_rate(Instant now, int64_t requests_per_second);
  void set_limit(Count limit);
  void set_next_window();
  void clear_retries();
  [[nodiscard]] Nanos interval() const;
  [[nodiscard]] Request request_for(const DemoRow& row, Count cost) const;

  DemoSettings settings_;
  Limiter limiter_;
  std::array<DemoRow, kAlgorithmCount> rows_;
  uint64_t offered_ = 0;
  MonoTime next_due_;  // of the steady requests
};

}  // namespace weir::demo

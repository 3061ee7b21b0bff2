// Sends the requests of a scenario's traffic, each at its time.

#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "sim/fleets/fleet.h"
#include "sim/random.h"
#include "sim/scenario/scenario.h"

namespace weir::sim {

// One thread at a time.
class Traffic {
 public:
  Traffic(const Scenario& scenario, Fleet& fleet);

  // Sends all requests of this millisecond.
  void send_due();

  // Keys to record by the second: the first two of each stream.
  [[nodiscard]] const std::vector<size_t>& spotlights() const { return spotlights_; }
  // Keys that get more than one request.
  [[nodiscard]] size_t keys() const { return sources_.size(); }

 private:
  struct Stream {
    const StreamPlan& plan;
    const LimitPlan& limit;
    std::vector<uint32_t> regions;
    double begins = 0;  // ms, like all times here
    double ends = 0;
    uint64_t keys = 0;
    uint64_t fresh = 0;  // keys created so far
  };
  // One key of a stream.
  struct KeySource {
    size_t stream = 0;
    size_t key = 0;
    double gap = 0;     // between two requests, on average
    double phase = 0;   // its start
    double last = 0;    // the time of its last request; for on_off, counted in time that it was on
    uint64_t sent = 0;  // requests so far
    std::vector<std::pair<double, uint32_t>> script =
        {};  // kHideThenRun: time and region of each request
  };
  struct Next {
    double when = 0;
    size_t source = 0;
    friend bool operator>(const Next& a, const Next& b) {
      return a.when != b.when ? a.when > b.when : a.source > b.source;
    }
  };

  void add_stream(const Scenario& scenario, const StreamPlan& plan);
  void add_key(size_t stream, Millis warm_up);
  [[nodiscard]] std::vector<uint32_t> draw_regions(const Stream& stream);
  [[nodiscard]] double draw(const Range<double>& range);
  void plan_next(size_t source);
  [[nodiscard]] double next_of(KeySource& source);
  [[nodiscard]] double exponential(double mean);
  [[nodiscard]] uint32_t region_of(const KeySource& source, double when);
  void send_fresh(Stream& stream, double now);
  void write_script(KeySource& source) const;

  Fleet& fleet_;
  const Millis began_;
  Random random_;
  std::vector<Stream> streams_;
  std::vector<KeySource> sources_;
  std::vector<size_t> spotlights_;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
};

}  // namespace weir::sim

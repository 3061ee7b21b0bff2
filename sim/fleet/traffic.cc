#include "sim/fleet/traffic.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace weir::sim {
namespace {

constexpr Millis kWindow{60'000};
constexpr Millis kBurstLasts = kWindow / 4;

class Traffic {
 public:
  Traffic(const TrafficOptions& options, Fleet& fleet)
      : options_(options), fleet_(fleet), random_(options.fleet.seed + 77) {
    for (size_t i = 0; i < options_.keys; ++i) add_key();
  }

  // All requests of this millisecond.
  void ask() {
    const Millis now = fleet_.elapsed();
    while (!next_.empty() && next_.top().when <= now) {
      const Next next = next_.top();
      next_.pop();
      const User& user = users_[next.user];
      fleet_.ask(next.user, user.regions[random_.next() % user.regions.size()]);
      plan(next.user, next.when);
    }
  }

 private:
  struct User {
    std::vector<uint32_t> regions;
    double per_window = 0;
    bool bursts = false;
    Millis burst_at{0};  // when the next one begins
  };
  struct Next {
    Millis when{0};
    size_t user = 0;
    friend bool operator>(const Next& a, const Next& b) {
      return a.when != b.when ? a.when > b.when : a.user > b.user;
    }
  };

  double uniform() { return static_cast<double>((random_.next() >> 11) + 1) * 0x1p-53; }
  bool permille(uint32_t part) { return random_.next() % 1000 < part; }

  void add_key() {
    User user;
    const Count limit = static_cast<Count>(std::llround(10 * std::pow(100, uniform())));
    const size_t regions = permille(options_.shared_permille) ? 2 + random_.next() % 2 : 1;
    while (user.regions.size() < std::min<size_t>(regions, options_.fleet.regions)) {
      const auto region = static_cast<uint32_t>(random_.next() % options_.fleet.regions);
      if (std::count(user.regions.begin(), user.regions.end(), region) == 0) {
        user.regions.push_back(region);
      }
    }
    const auto most = static_cast<double>(limit);
    if (!permille(options_.hot_permille)) {
      user.per_window = std::min(static_cast<double>(1 + random_.next() % 8), 0.4 * most);
    } else if (options_.mood == Mood::kBurst && permille(320)) {
      user.bursts = true;
      user.per_window = most * 0.5 * std::pow(8, uniform());
    } else {
      user.per_window = most * (0.5 + 0.7 * uniform());
    }
    const Millis begins(random_.between(0, std::max<int64_t>(0, options_.warm_up.count() - 1)));
    const size_t number =
        fleet_.add({.name_space = "api",
                    .identifier = std::string("k").append(std::to_string(users_.size())),
                    .limit = limit,
                    .regions = user.regions});
    users_.push_back(std::move(user));
    plan(number, begins);
  }

  // The next request, at a random distance from the last.
  void plan(size_t number, Millis last) {
    User& user = users_[number];
    const Millis over = user.bursts ? kBurstLasts : kWindow;
    const double mean = static_cast<double>(over.count()) / user.per_window;
    Millis when = last + Millis(std::llround(-std::log(uniform()) * mean));
    if (user.bursts && when >= user.burst_at + kBurstLasts) {
      // One in each window.
      const Millis window = (when / kWindow + (user.burst_at > Millis(0) ? 1 : 0)) * kWindow;
      user.burst_at = window + Millis(random_.between(1, (kWindow - kBurstLasts).count()));
      when = user.burst_at;
    }
    next_.push({when, number});
  }

  const TrafficOptions& options_;
  Fleet& fleet_;
  Random random_;
  std::vector<User> users_;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
};

void sum_up(const std::vector<FleetCell>& cells, TrafficReport& report) {
  double beyond = 0;
  for (const FleetCell& cell : cells) {
    const auto limit = static_cast<double>(cell.limit);
    report.worst_unexcused =
        std::max(report.worst_unexcused, static_cast<double>(cell.unexcused) / limit);
    if (cell.admitted < cell.limit) continue;
    ++report.full_cells;
    beyond += cell.share() - 1;
    if (report.worst.limit == 0 || cell.share() > report.worst.share()) report.worst = cell;
  }
  if (report.full_cells > 0) report.overshoot = beyond / static_cast<double>(report.full_cells);
}

// Rows written so far, by what they were written for.
SharingStats kinds_of(const Fleet& fleet) {
  SharingStats sum;
  for (uint32_t i = 0; i < fleet.processes(); ++i) {
    const SharingStats stats = fleet.sharing_stats(i);
    sum.presence += stats.presence;
    sum.contended += stats.contended;
    sum.exhaustion += stats.exhaustion;
    sum.roll_over += stats.roll_over;
  }
  return sum;
}

}  // namespace

TrafficReport run_traffic(const TrafficOptions& options) {
  Fleet fleet(options.fleet);
  Traffic traffic(options, fleet);
  const auto each = [&] { traffic.ask(); };
  fleet.run_for(options.warm_up, each);

  fleet.begin_measuring();
  const LedgerLoad before = fleet.load();
  const SharingStats kinds = kinds_of(fleet);
  const uint64_t repeated = fleet.repeated();
  const uint64_t admitted = fleet.admitted();
  const uint64_t refused = fleet.refused();
  TrafficReport report;
  constexpr Millis kSample{10'000};
  const Millis span = options.windows * kWindow;
  for (Millis passed{0}; passed < span; passed += kSample) {
    fleet.run_for(kSample, each);
    report.live_rows += static_cast<double>(fleet.ledger_rows()) * (kSample / Millis(1)) /
                        static_cast<double>(span.count());
  }
  report.seconds = static_cast<double>(span.count()) / 1e3;
  report.load = fleet.load() - before;
  report.kinds = kinds_of(fleet);
  report.kinds.presence -= kinds.presence;
  report.kinds.contended -= kinds.contended;
  report.kinds.exhaustion -= kinds.exhaustion;
  report.kinds.roll_over -= kinds.roll_over;
  report.repeated = fleet.repeated() - repeated;
  report.admitted = fleet.admitted() - admitted;
  report.refused = fleet.refused() - refused;
  report.delays = fleet.delays();
  report.longest_delay = fleet.longest_delay();
  report.sharing_share = static_cast<double>(fleet.sharing_time().count()) /
                         static_cast<double>(Nanos(span).count()) / fleet.processes();
  for (uint32_t i = 0; i < fleet.processes(); ++i) {
    report.bound = std::max(report.bound, fleet.sharing_stats(i).bound);
  }
  sum_up(fleet.cells(), report);
  return report;
}

float quantile(std::vector<float> values, double part) {
  if (values.empty()) return 0;
  const auto at =
      std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace weir::sim

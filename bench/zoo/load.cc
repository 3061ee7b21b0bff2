// Two loads: callers that wait for their answers, which measures the rate, and groups of requests
// at a given rate, which measures what is admitted. See Load.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/split_mix.h"
#include "bench/zoo/zoo.h"
#include "weir/clock.h"

namespace weir::bench {
namespace {

constexpr size_t kTurn = 256;         // requests before other tasks of the executor run
constexpr size_t kMaxPending = 4096;  // requests of a node

double seconds_of(Nanos span) {
  return std::chrono::duration<double>(span).count();
}
Nanos nanos_of(double seconds) {
  return Nanos(static_cast<int64_t>(seconds * 1e9));
}

// Draws keys with a Zipf distribution of exponent 1.
class Keys {
 public:
  explicit Keys(const Load& load) : random_(load.seed) {
    double sum = 0;
    for (size_t i = 0; i < load.keys; ++i) {
      names_.push_back(fmt::format("zoo:{{{}-{}}}", load.prefix, i));
      cumulative_.push_back(sum += 1.0 / static_cast<double>(i + 1));
    }
  }

  [[nodiscard]] size_t draw() {
    const double uniform = static_cast<double>(base::split_mix(random_) >> 11) * 0x1p-53;
    const auto found =
        std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * cumulative_.back());
    return std::min(static_cast<size_t>(found - cumulative_.begin()), names_.size() - 1);
  }
  [[nodiscard]] const std::string& name(size_t key) const { return names_[key]; }

 private:
  uint64_t random_;
  std::vector<std::string> names_;
  std::vector<double> cumulative_;
};

struct Counters {
  uint64_t calls = 0;
  uint64_t allowed = 0;
  uint64_t rejected = 0;
  uint64_t errors = 0;

  void add(Answer answer) {
    switch (answer) {
      case Answer::kAllowed: ++allowed; return;
      case Answer::kRejected: ++rejected; return;
      case Answer::kError: ++errors; return;
    }
  }
};

// What both loads have in common. Everything but run() is on the executor of the limiter.
class Run {
 public:
  Run(RateLimiter& limiter, const Load& load) : limiter_(limiter), load_(load), keys_(load) {}
  virtual ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void run() {
    const Instant now = clock_.now();
    begin_ = now.mono + (load_.begin - now.wall);
    limiter_.executor().post_at(begin_, [this] {
      begin_ = clock_.now().mono;
      begin();
    });
    ended_.get_future().wait();
  }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] double seconds() const { return seconds_of(end_ - begin_); }

 protected:
  virtual void begin() = 0;
  // The run is over: the object may be destroyed from now on.
  void end() {
    end_ = clock_.now().mono;
    ended_.set_value();
  }

  const Clock& clock_ = system_clock();
  RateLimiter& limiter_;
  const Load& load_;
  Keys keys_;
  Counters counters_;
  MonoTime begin_{};

 private:
  MonoTime end_{};
  std::promise<void> ended_;
};

// Callers that ask again when they have their answer.
class ClosedLoop final : public Run {
 public:
  using Run::Run;

 private:
  void begin() override {
    ready_ = load_.callers;
    ask_ready();
  }

  // Asks for all callers that have their answers. Those that get another one at once take turns
  // with the other tasks of the executor.
  void ask_ready() {
    if (asking_) return;
    asking_ = true;
    for (size_t i = 0; ready_ > 0; ++i) {
      if (i == kTurn) {
        limiter_.executor().post([this] {
          asking_ = false;
          ask_ready();
        });
        return;
      }
      --ready_;
      ask();
    }
    asking_ = false;
    if (finished_ == load_.callers) end();
  }

  void ask() {
    const Instant now = clock_.now();
    if (now.mono - begin_ >= nanos_of(load_.seconds)) {
      ++finished_;
      return;
    }
    ++counters_.calls;
    limiter_.ask(now, keys_.name(keys_.draw()), load_.limits, [this](Answer answer) {
      counters_.add(answer);
      ++ready_;
      ask_ready();
    });
  }

  size_t ready_ = 0;     // callers that have their answers
  size_t finished_ = 0;  // callers that ask no more
  bool asking_ = false;
};

// Groups of requests at fixed times.
class OpenLoop final : public Run {
 public:
  using Run::Run;

  void write_trace() const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(load_.trace.c_str(), "w"),
                                                               &std::fclose);
    if (!file) throw std::runtime_error("cannot write " + load_.trace);
    for (const Request& each : requests_) {
      const WallTime answered = each.now.wall + std::chrono::floor<Millis>(each.took);
      fmt::print(file.get(), "{} {} {} {}\n", each.now.wall.time_since_epoch().count(),
                 answered.time_since_epoch().count(), each.key,
                 each.answer == Answer::kAllowed ? 1 : 0);
    }
  }

  // Requests that were errors because too many others had no answer.
  [[nodiscard]] uint64_t unsent() const { return unsent_; }

  // The time from asking to the answer, in ms; without the requests that were not sent.
  [[nodiscard]] double latency_quantile(double share) const {
    std::vector<Nanos> sorted;
    for (const Request& each : requests_) {
      if (each.took > Nanos(0)) sorted.push_back(each.took);
    }
    if (sorted.empty()) return 0;
    std::sort(sorted.begin(), sorted.end());
    const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
    return seconds_of(sorted[std::min(at, sorted.size() - 1)]) * 1e3;
  }

 private:
  struct Request {
    Instant now;
    size_t key = 0;
    Nanos took{0};
    Answer answer = Answer::kError;
  };

  void begin() override {
    groups_ = std::max(uint64_t{1}, static_cast<uint64_t>(load_.seconds / interval()));
    requests_.reserve(groups_ * load_.callers);
    ask_group();
  }

  [[nodiscard]] double interval() const { return static_cast<double>(load_.callers) / load_.rate; }

  void ask_group() {
    for (size_t i = 0; i < load_.callers; ++i) ask();
    if (++asked_groups_ == groups_) return end_if_answered();
    const double due = static_cast<double>(asked_groups_) * interval();
    limiter_.executor().post_at(begin_ + nanos_of(due), [this] { ask_group(); });
  }

  void ask() {
    const size_t at = requests_.size();
    const size_t key = keys_.draw();
    const Instant now = clock_.now();
    requests_.push_back({.now = now, .key = key});
    ++counters_.calls;
    if (pending_ == kMaxPending) {
      ++unsent_;
      return counters_.add(Answer::kError);
    }
    ++pending_;
    limiter_.ask(now, keys_.name(key), load_.limits, [this, at](Answer answer) {
      Request& request = requests_[at];
      request.answer = answer;
      request.took = clock_.now().mono - request.now.mono;
      counters_.add(answer);
      --pending_;
      end_if_answered();
    });
  }

  void end_if_answered() {
    if (pending_ == 0 && asked_groups_ == groups_) end();
  }

  std::vector<Request> requests_;
  size_t pending_ = 0;
  uint64_t unsent_ = 0;
  uint64_t groups_ = 0;
  uint64_t asked_groups_ = 0;
};

}  // namespace

std::string run_load(RateLimiter& limiter, const Load& load) {
  const uint64_t sent = limiter.sent();
  const uint64_t degraded = limiter.degraded();
  const auto to_json = [&](const Run& run, std::string_view more) {
    const Counters& counters = run.counters();
    return fmt::format(
        R"({{"calls":{},"allowed":{},"rejected":{},"errors":{},"degraded":{},"sent":{},)"
        R"("seconds":{:.6f}{}}})",
        counters.calls, counters.allowed, counters.rejected, counters.errors,
        limiter.degraded() - degraded, limiter.sent() - sent, run.seconds(), more);
  };
  if (load.rate == 0) {
    ClosedLoop run(limiter, load);
    run.run();
    return to_json(run, "");
  }
  OpenLoop run(limiter, load);
  run.run();
  if (!load.trace.empty()) run.write_trace();
  return to_json(run, fmt::format(R"(,"unsent":{},"p50":{:.4f},"p99":{:.4f})", run.unsent(),
                                  run.latency_quantile(0.5), run.latency_quantile(0.99)));
}

}  // namespace weir::bench

// How long a client waits for WEIR.LIMIT, asked at a steady rate.
//
// Requests go out at random distances whether or not earlier ones are answered, so that a
// server that stalls is seen by all who would have come meanwhile. Time runs from writing a
// request to having read its whole answer. One thread that sleeps in between: what waking up
// costs is in every figure.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/split_mix.h"
#include "bench/loopback.h"
#include "bench/region/region.h"
#include "bench/requests.h"
#include "origins/redis/redis_link.h"
#include "platform/entropy.h"
#include "weir/verdict.h"

namespace weir::bench {
namespace {

using Steady = std::chrono::steady_clock;
using origins::RedisReply;
using origins::ReplyStatus;

constexpr auto kPatience = std::chrono::seconds(5);  // for the last answer

// One connection to a server, with what was asked and is not answered.
class Line {
 public:
  explicit Line(uint16_t port) : socket_(connect_to(port)) {}
  ~Line() { close(socket_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  [[nodiscard]] int socket() const { return socket_; }

  void ask(const std::string& request) {
    sent_.push_back(Steady::now());
    if (write(socket_, request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
      throw std::runtime_error("the server takes no more");
    }
  }

  // Hands on how long each answer that is there took, and whether it was given from memory.
  template <typename Take>
  void hear(const Take& take) {
    char some[4096];
    const ssize_t count = read(socket_, some, sizeof some);
    if (count <= 0) throw std::runtime_error("the server hung up");
    const Steady::time_point now = Steady::now();
    in_.append(some, static_cast<size_t>(count));
    size_t at = 0;
    for (;;) {
      RedisReply reply;
      size_t bytes = 0;
      const ReplyStatus status = parse_reply(std::string_view(in_).substr(at), reply, bytes);
      if (status == ReplyStatus::kIncomplete) break;
      // success, 1, limit, ..., basis, local
      if (status == ReplyStatus::kBroken || reply.items.size() < 2 || reply.items[1].integer != 1) {
        throw std::runtime_error("a request was not admitted");
      }
      at += bytes;
      take(now - sent_.front(), reply.items.back().text == to_string(Basis::kLocal));
      sent_.pop_front();
    }
    in_.erase(0, at);
  }

 private:
  int socket_;
  std::string in_;
  std::deque<Steady::time_point> sent_;
};

std::vector<std::string> questions(size_t keys) {
  std::vector<std::string> all;
  for (size_t i = 0; i < keys; ++i) {
    std::string& text = all.emplace_back();
    origins::append_command(text, {"WEIR.LIMIT", kNamespace, identifier_number(i, kIdentifierBytes),
                                   std::to_string(kLimit), std::to_string(kDuration.count())});
  }
  return all;
}

struct Answers {
  std::vector<Nanos> times;
  size_t from_elsewhere = 0;  // answers that had to wait for Redis, or should have
};

class Client {
 public:
  explicit Client(const LatencyPlan& plan) : plan_(plan), questions_(questions(plan.keys)) {
    for (size_t i = 0; i < plan.connections; ++i) {
      lines_.push_back(std::make_unique<Line>(plan.port));
      polled_.push_back({.fd = lines_.back()->socket(), .events = POLLIN, .revents = 0});
    }
  }

  // `draw(n)` says which key the n-th request is for.
  template <typename Draw>
  Answers ask(double seconds, const Draw& draw) {
    const auto count = static_cast<size_t>(seconds * plan_.rate);
    Answers answers;
    Steady::time_point due = Steady::now();
    size_t asked = 0;
    while (answers.times.size() < count) {
      const Steady::time_point now = Steady::now();
      if (asked < count && now >= due) {
        lines_[asked % lines_.size()]->ask(questions_[draw(asked)]);
        ++asked;
        due += distance();
        continue;
      }
      if (now > due + kPatience) throw std::runtime_error("an answer did not come");
      const Steady::time_point until = asked < count ? due : due + kPatience;
      hear_until(until - now, answers);
    }
    return answers;
  }

  size_t any_key() { return base::split_mix(random_) % questions_.size(); }

 private:
  // Exponential: whoever comes knows nothing of who came before.
  Nanos distance() {
    const double uniform = static_cast<double>((base::split_mix(random_) >> 11) + 1) * 0x1p-53;
    return Nanos(static_cast<int64_t>(-std::log(uniform) * 1e9 / plan_.rate));
  }

  void hear_until(Nanos span, Answers& answers) {
    const timespec patience{.tv_sec = static_cast<time_t>(span.count() / 1'000'000'000),
                            .tv_nsec = static_cast<long>(span.count() % 1'000'000'000)};
    if (ppoll(polled_.data(), polled_.size(), &patience, nullptr) <= 0) return;
    for (size_t i = 0; i < polled_.size(); ++i) {
      if (polled_[i].revents == 0) continue;
      lines_[i]->hear([&](Nanos took, bool from_memory) {
        answers.times.push_back(took);
        answers.from_elsewhere += from_memory ? 0 : 1;
      });
    }
  }

  const LatencyPlan plan_;
  const std::vector<std::string> questions_;
  uint64_t random_ = platform::entropy();
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<pollfd> polled_;
};

}  // namespace

int measure_latency(const LatencyPlan& plan) try {
  Client client(plan);
  (void)client.ask(plan.warm_seconds, [&](size_t n) { return n % plan.keys; });
  Answers answers = client.ask(plan.seconds, [&](size_t) { return client.any_key(); });
  std::vector<Nanos>& times = answers.times;
  std::sort(times.begin(), times.end());
  const auto quantile = [&](double share) {
    const auto at = static_cast<size_t>(share * static_cast<double>(times.size()));
    return static_cast<double>(times[std::min(at, times.size() - 1)].count()) / 1e6;
  };
  fmt::print(R"({{"answers":{},"waited":{},"p50":{:.4f},"p99":{:.4f},"p999":{:.4f},"max":{:.4f}}})"
             "\n",
             times.size(), answers.from_elsewhere, quantile(0.5), quantile(0.99), quantile(0.999),
             quantile(1));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "weir_region_bench: {}\n", error.what());
  return 1;
}

}  // namespace weir::bench

// Measures the latency of WEIR.LIMIT at a steady request rate.
//
// Requests are sent at random intervals without waiting for earlier replies (open loop), so that a
// stalled server delays all requests of that time. The latency is the time from writing a request
// to having read its whole reply. One thread sleeps between requests, so every value includes a
// wake-up.

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

constexpr auto kReplyTimeout = std::chrono::seconds(5);

// A connection to a server, with the send times of its pending requests.
class Connection {
 public:
  explicit Connection(uint16_t port) : socket_(connect_to(port)) {}
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int socket() const { return socket_; }

  void send(const std::string& request) {
    send_times_.push_back(Steady::now());
    if (write(socket_, request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
      throw std::runtime_error("the server accepts no more data");
    }
  }

  // Calls `take` with the latency of each reply, and whether the decision came from memory alone.
  template <typename Take>
  void receive(const Take& take) {
    char buffer[4096];
    const ssize_t count = read(socket_, buffer, sizeof buffer);
    if (count <= 0) throw std::runtime_error("the server closed the connection");
    const Steady::time_point now = Steady::now();
    in_.append(buffer, static_cast<size_t>(count));
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
      take(now - send_times_.front(), reply.items.back().text == to_string(Basis::kLocal));
      send_times_.pop_front();
    }
    in_.erase(0, at);
  }

 private:
  int socket_;
  std::string in_;
  std::deque<Steady::time_point> send_times_;
};

std::vector<std::string> make_requests(size_t keys) {
  std::vector<std::string> all;
  for (size_t i = 0; i < keys; ++i) {
    std::string& text = all.emplace_back();
    origins::append_command(text, {"WEIR.LIMIT", kNamespace, identifier_number(i, kIdentifierBytes),
                                   std::to_string(kLimit), std::to_string(kDuration.count())});
  }
  return all;
}

struct Replies {
  std::vector<Nanos> latencies;
  size_t waited = 0;  // replies that needed Redis, or should have
};

class Client {
 public:
  explicit Client(const LatencyPlan& plan) : plan_(plan), requests_(make_requests(plan.keys)) {
    for (size_t i = 0; i < plan.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>(plan.port));
      polled_.push_back({.fd = connections_.back()->socket(), .events = POLLIN, .revents = 0});
    }
  }

  // `draw(n)` returns the key of the n-th request.
  template <typename Draw>
  Replies run(double seconds, const Draw& draw) {
    const auto count = static_cast<size_t>(seconds * plan_.rate);
    Replies replies;
    Steady::time_point due = Steady::now();
    size_t sent = 0;
    while (replies.latencies.size() < count) {
      const Steady::time_point now = Steady::now();
      if (sent < count && now >= due) {
        connections_[sent % connections_.size()]->send(requests_[draw(sent)]);
        ++sent;
        due += interval();
        continue;
      }
      if (now > due + kReplyTimeout) throw std::runtime_error("a reply is missing");
      const Steady::time_point until = sent < count ? due : due + kReplyTimeout;
      receive_until(until - now, replies);
    }
    return replies;
  }

  size_t random_key() { return base::split_mix(random_) % requests_.size(); }

 private:
  // Exponentially distributed: requests are independent.
  Nanos interval() {
    const double uniform = static_cast<double>((base::split_mix(random_) >> 11) + 1) * 0x1p-53;
    return Nanos(static_cast<int64_t>(-std::log(uniform) * 1e9 / plan_.rate));
  }

  void receive_until(Nanos span, Replies& replies) {
    const timespec timeout{.tv_sec = static_cast<time_t>(span.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(span.count() % 1'000'000'000)};
    if (ppoll(polled_.data(), polled_.size(), &timeout, nullptr) <= 0) return;
    for (size_t i = 0; i < polled_.size(); ++i) {
      if (polled_[i].revents == 0) continue;
      connections_[i]->receive([&](Nanos latency, bool is_local) {
        replies.latencies.push_back(latency);
        replies.waited += is_local ? 0 : 1;
      });
    }
  }

  const LatencyPlan plan_;
  const std::vector<std::string> requests_;
  uint64_t random_ = platform::entropy();
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> polled_;
};

}  // namespace

int measure_latency(const LatencyPlan& plan) try {
  Client client(plan);
  (void)client.run(plan.warm_seconds, [&](size_t n) { return n % plan.keys; });
  Replies replies = client.run(plan.seconds, [&](size_t) { return client.random_key(); });
  std::vector<Nanos>& latencies = replies.latencies;
  std::sort(latencies.begin(), latencies.end());
  const auto quantile = [&](double share) {
    const auto at = static_cast<size_t>(share * static_cast<double>(latencies.size()));
    return static_cast<double>(latencies[std::min(at, latencies.size() - 1)].count()) / 1e6;
  };
  fmt::print(R"({{"answers":{},"waited":{},"p50":{:.4f},"p99":{:.4f},"p999":{:.4f},"max":{:.4f}}})"
             "\n",
             latencies.size(), replies.waited, quantile(0.5), quantile(0.99), quantile(0.999),
             quantile(1));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "weir_region_bench: {}\n", error.what());
  return 1;
}

}  // namespace weir::bench

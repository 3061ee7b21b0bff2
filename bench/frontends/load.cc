// A load on a server of the Redis protocol that costs the one who makes it next to nothing.
//
// redis-benchmark makes objects of what it is answered: six for CL.THROTTLE, one for INCR. With
// one thread it is slower than a fast server, and two servers compared by it look alike. This
// sends what redis-benchmark sends, in pipelines of as many, on as many connections, and only
// counts the lines of the answers; so it is the server that is measured. Whether they are answers
// and not errors it looks at in the first pipeline of each connection.

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/split_mix.h"
#include "bench/loopback.h"
#include "origins/redis/redis_link.h"

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::string_view kDrawn = "__rand_int__";  // stands for a key's number, in as many digits
constexpr int kPatience = 5000;                      // ms, for any answer

struct Plan {
  uint16_t port = 0;
  size_t connections = 50;
  size_t pipeline = 1;
  size_t requests = 100'000;
  uint64_t keys = 100'000;
  size_t lines = 1;  // in an answer
  std::vector<std::string> words;
};

// What a call of the system gave, unless it failed.
int given(int result) {
  if (result < 0) throw std::runtime_error(std::strerror(errno));
  return result;
}

// With a pipeline that is on its way.
class Connection {
 public:
  Connection(const Plan& plan, const std::string& command)
      : plan_(plan), socket_(weir::bench::connect_to(plan.port)) {
    for (size_t i = 0; i < plan.pipeline; ++i) pipeline_ += command;
    for (size_t at = pipeline_.find(kDrawn); at != pipeline_.npos;
         at = pipeline_.find(kDrawn, at + kDrawn.size())) {
      drawn_.push_back(at);
    }
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int socket() const { return socket_; }

  void ask(uint64_t& chance) {
    for (const size_t at : drawn_) draw(at, chance);
    const auto size = static_cast<ssize_t>(pipeline_.size());
    if (::send(socket_, pipeline_.data(), pipeline_.size(), MSG_NOSIGNAL) != size) {
      throw std::runtime_error("the server takes no more");
    }
    missing_ = plan_.pipeline * plan_.lines;
  }

  // True when all of the pipeline is answered.
  bool hear(std::span<char> room) {
    const ssize_t count = ::recv(socket_, room.data(), room.size(), 0);
    if (count <= 0) throw std::runtime_error("the server hung up");
    const std::string_view text(room.data(), static_cast<size_t>(count));
    if (!looked_) look(text);
    const auto lines = static_cast<size_t>(std::ranges::count(text, '\n'));
    if (lines > missing_) throw std::runtime_error("an answer has more lines than it should");
    missing_ -= lines;
    looked_ = looked_ || missing_ == 0;
    return missing_ == 0;
  }

 private:
  static void look(std::string_view text) {
    const size_t error = text.front() == '-' ? 0 : text.find("\n-");
    if (error == text.npos) return;
    text.remove_prefix(error);
    throw std::runtime_error(fmt::format("the server says {}", text.substr(0, text.find('\r'))));
  }
  void draw(size_t at, uint64_t& chance) {
    uint64_t key = (weir::base::split_mix(chance) >> 32) * plan_.keys >> 32;
    for (size_t i = kDrawn.size(); i-- > 0; key /= 10) {
      pipeline_[at + i] = static_cast<char>('0' + key % 10);
    }
  }

  const Plan& plan_;
  const int socket_;
  std::string pipeline_;
  std::vector<size_t> drawn_;  // where the numbers of keys are in it
  size_t missing_ = 0;         // lines of answers
  bool looked_ = false;        // at what the lines say
};

// Requests answered per second.
double pump(const Plan& plan) {
  std::string command;
  const std::vector<std::string_view> words(plan.words.begin(), plan.words.end());
  weir::origins::append_command(command, words);
  const int poll = given(epoll_create1(EPOLL_CLOEXEC));
  std::vector<std::unique_ptr<Connection>> connections;
  for (size_t i = 0; i < plan.connections; ++i) {
    Connection& one = *connections.emplace_back(std::make_unique<Connection>(plan, command));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &one;
    given(epoll_ctl(poll, EPOLL_CTL_ADD, one.socket(), &event));
  }
  uint64_t chance = 1;
  size_t asked = 0;
  size_t answered = 0;
  const auto ask = [&](Connection& one) {
    if (asked >= plan.requests) return;
    asked += plan.pipeline;
    one.ask(chance);
  };
  std::vector<char> room(256 << 10);
  std::array<epoll_event, 256> events;
  const Steady::time_point began = Steady::now();
  for (const auto& each : connections) ask(*each);
  while (answered < asked) {
    const int count = epoll_wait(poll, events.data(), events.size(), kPatience);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::runtime_error("the server does not answer");
    for (int i = 0; i < count; ++i) {
      auto& one = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      if (!one.hear(room)) continue;
      answered += plan.pipeline;
      ask(one);
    }
  }
  const double seconds = std::chrono::duration<double>(Steady::now() - began).count();
  ::close(poll);
  return static_cast<double>(answered) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app("weir_pump: load for ./dev bench doors; prints requests answered per second");
  app.add_option("--port", plan.port, "of the server")->required();
  app.add_option("--connections", plan.connections)->check(CLI::Range(1, 1000));
  app.add_option("--pipeline", plan.pipeline)->check(CLI::Range(1, 1000));
  app.add_option("--requests", plan.requests)->check(CLI::Range(1, 100'000'000));
  app.add_option("--keys", plan.keys, "how many __rand_int__ stands for")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--lines", plan.lines, "in an answer")->check(CLI::Range(1, 100));
  app.add_option("command", plan.words)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{:.0f}\n", pump(plan));
  } catch (const std::exception& failure) {
    fmt::print(stderr, "weir_pump: {}\n", failure.what());
    return 1;
  }
}

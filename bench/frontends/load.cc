// A load generator for servers of the Redis protocol that needs little CPU time.
//
// redis-benchmark allocates objects for each reply: six for CL.THROTTLE, one for INCR. With one
// thread it is slower than a fast server, so two servers seem to be equally fast. This program
// sends the same requests in the same pipelines over as many connections, but only counts the lines
// of the replies, so that the server limits the rate. It checks for errors in the first pipeline of
// each connection. Prints the replies per second.

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

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
#include "bench/command_line.h"
#include "bench/loopback.h"
#include "origins/redis/redis_link.h"

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::string_view kPlaceholder = "__rand_int__";  // replaced by a number of equal length
constexpr int kReplyTimeoutMs = 5000;

struct Load {
  uint16_t port = 0;
  size_t connections = 50;
  size_t pipeline = 1;
  size_t requests = 100'000;
  uint64_t keys = 100'000;  // different values of the placeholder
  size_t lines = 1;         // per reply
  std::vector<std::string> command;
};

// Throws if a system call failed.
int checked(int result) {
  if (result < 0) throw std::runtime_error(std::strerror(errno));
  return result;
}

// A connection with at most one pipeline in flight.
class Connection {
 public:
  Connection(const Load& load, const std::string& request)
      : load_(load), socket_(weir::bench::connect_to(load.port)) {
    for (size_t i = 0; i < load.pipeline; ++i) pipeline_ += request;
    for (size_t at = pipeline_.find(kPlaceholder); at != pipeline_.npos;
         at = pipeline_.find(kPlaceholder, at + kPlaceholder.size())) {
      placeholders_.push_back(at);
    }
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int socket() const { return socket_; }

  void send_pipeline(uint64_t& random) {
    for (const size_t at : placeholders_) set_key(at, random);
    const auto size = static_cast<ssize_t>(pipeline_.size());
    if (::send(socket_, pipeline_.data(), pipeline_.size(), MSG_NOSIGNAL) != size) {
      throw std::runtime_error("the server accepts no more data");
    }
    pending_lines_ = load_.pipeline * load_.lines;
  }

  // Returns true when the whole pipeline has been answered.
  bool receive(std::span<char> buffer) {
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count <= 0) throw std::runtime_error("the server closed the connection");
    const std::string_view text(buffer.data(), static_cast<size_t>(count));
    if (!checked_) throw_on_error(text);
    const auto lines = static_cast<size_t>(std::ranges::count(text, '\n'));
    if (lines > pending_lines_) throw std::runtime_error("a reply has too many lines");
    pending_lines_ -= lines;
    checked_ = checked_ || pending_lines_ == 0;
    return pending_lines_ == 0;
  }

 private:
  static void throw_on_error(std::string_view text) {
    const size_t error = text.front() == '-' ? 0 : text.find("\n-");
    if (error == text.npos) return;
    text.remove_prefix(error);
    throw std::runtime_error(fmt::format("the server replied {}", text.substr(0, text.find('\r'))));
  }
  void set_key(size_t at, uint64_t& random) {
    uint64_t key = (weir::base::split_mix(random) >> 32) * load_.keys >> 32;
    for (size_t i = kPlaceholder.size(); i-- > 0; key /= 10) {
      pipeline_[at + i] = static_cast<char>('0' + key % 10);
    }
  }

  const Load& load_;
  const int socket_;
  std::string pipeline_;
  std::vector<size_t> placeholders_;  // offsets of the key numbers in the pipeline
  size_t pending_lines_ = 0;
  bool checked_ = false;  // the first pipeline for errors
};

// Returns the number of replies per second.
double run(const Load& load) {
  std::string request;
  const std::vector<std::string_view> words(load.command.begin(), load.command.end());
  weir::origins::append_command(request, words);
  const int poll = checked(epoll_create1(EPOLL_CLOEXEC));
  std::vector<std::unique_ptr<Connection>> connections;
  for (size_t i = 0; i < load.connections; ++i) {
    Connection& one = *connections.emplace_back(std::make_unique<Connection>(load, request));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &one;
    checked(epoll_ctl(poll, EPOLL_CTL_ADD, one.socket(), &event));
  }
  uint64_t random = 1;
  size_t sent = 0;
  size_t answered = 0;
  const auto send_next = [&](Connection& one) {
    if (sent >= load.requests) return;
    sent += load.pipeline;
    one.send_pipeline(random);
  };
  std::vector<char> buffer(256 << 10);
  std::array<epoll_event, 256> events;
  const Steady::time_point start = Steady::now();
  for (const auto& each : connections) send_next(*each);
  while (answered < sent) {
    const int count = epoll_wait(poll, events.data(), events.size(), kReplyTimeoutMs);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::runtime_error("the server does not reply");
    for (int i = 0; i < count; ++i) {
      auto& one = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      if (!one.receive(buffer)) continue;
      answered += load.pipeline;
      send_next(one);
    }
  }
  const double seconds = std::chrono::duration<double>(Steady::now() - start).count();
  ::close(poll);
  return static_cast<double>(answered) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  weir::bench::CommandLine options("weir_load");
  options.number<uint16_t>("--port", load.port, 1, 65'535);
  options.number<size_t>("--connections", load.connections, 1, 1000);
  options.number<size_t>("--pipeline", load.pipeline, 1, 1000);
  options.number<size_t>("--requests", load.requests, 1, 100'000'000);
  options.number<uint64_t>("--keys", load.keys, 1, 1'000'000'000);
  options.number<size_t>("--lines", load.lines, 1, 100);
  options.words(load.command);
  if (!options.parse(argc, argv)) return 2;
  try {
    fmt::print("{:.0f}\n", run(load));
  } catch (const std::exception& failure) {
    fmt::print(stderr, "weir_load: {}\n", failure.what());
    return 1;
  }
}

// The rate limiters without Weir: plain commands, transactions and scripts.
//
// They use the same connection code as Weir, and all callers of a process share one connection.
// Only the transactions have one connection per caller, because WATCH belongs to a connection.

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/zoo/zoo.h"
#include "origins/redis/redis_link.h"
#include "platform/entropy.h"
#include "weir/clock.h"

namespace weir::bench {
namespace {

namespace asio = boost::asio;
using origins::append_command;
using origins::RedisLink;
using origins::RedisReply;
using Replies = std::span<const RedisReply>;

constexpr Millis kReplyTimeout{30'000};
constexpr int kAttempts = 10;  // of a transaction

class IoExecutor final : public Executor {
 public:
  IoExecutor(asio::io_context& io, const Clock& clock) : io_(io), clock_(clock) {}

  void post(Task task) override { asio::post(io_, std::move(task)); }
  void post_at(MonoTime when, Task task) override {
    const auto timer = std::make_shared<asio::steady_timer>(io_, when - clock_.now().mono);
    timer->async_wait([timer, task = std::move(task)](const auto& cancelled) {
      if (!cancelled) task();
    });
  }

 private:
  asio::io_context& io_;
  const Clock& clock_;
};

// Connections to Redis and the thread of the callers.
class RedisLimiter : public RateLimiter {
 public:
  RedisLimiter(uint16_t port, size_t connections) {
    for (size_t i = 0; i < connections; ++i) {
      links_.push_back(std::make_unique<RedisLink>(
          io_, clock_, origins::RedisAddress{.port = port}, platform::entropy(),
          [](origins::OriginError) {}, RedisLink::Options{}));
    }
  }
  ~RedisLimiter() override { stop(); }

  void start() override {
    for (const auto& link : links_) link->start();
    run_until([this] {
      return std::all_of(links_.begin(), links_.end(),
                         [](const auto& one) { return one->ready(); });
    });
    prepare();
    thread_ = std::thread([this] { io_.run(); });
  }

  void stop() override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      for (const auto& link : links_) link->stop();
      work_.reset();
    });
    thread_.join();
  }

  [[nodiscard]] Executor& executor() override { return executor_; }
  [[nodiscard]] uint64_t sent() const override { return sent_; }

 protected:
  // Sends further commands before the first request.
  virtual void prepare() {}

  // Runs the connections on the calling thread; only before the thread of the callers exists.
  template <typename Condition>
  void run_until(const Condition& condition) {
    const MonoTime end = clock_.now().mono + kReplyTimeout;
    while (!condition()) {
      if (clock_.now().mono > end) {
        throw std::runtime_error("no reply from redis-server: " + links_[0]->last_error());
      }
      io_.run_for(Millis(1));
    }
  }

  void send(size_t link, std::string commands, size_t count, RedisLink::Done done) {
    sent_ += count;
    links_[link]->send(std::move(commands), count, std::move(done));
  }

 private:
  const Clock& clock_ = system_clock();
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  IoExecutor executor_{io_, clock_};
  std::vector<std::unique_ptr<RedisLink>> links_;
  uint64_t sent_ = 0;
  std::thread thread_;
};

bool failed(const std::optional<origins::OriginError>& failure, Replies replies) {
  if (failure) return true;
  return std::any_of(replies.begin(), replies.end(), [](const RedisReply& reply) {
    return reply.type == RedisReply::Type::kError;
  });
}

// A fixed window whose state is one value: "WINDOW COUNT".
struct WindowState {
  int64_t window = 0;
  Count count = 0;

  // The state at `now`.
  static WindowState from(const RedisReply& reply, Instant now, const Limits& limits) {
    WindowState stored;
    const char* const end = reply.text.data() + reply.text.size();
    const auto [at, error] = std::from_chars(reply.text.data(), end, stored.window);
    if (error == std::errc() && at != end) std::from_chars(at + 1, end, stored.count);
    const int64_t window = now.wall.time_since_epoch() / limits.duration;
    return {.window = window, .count = stored.window == window ? stored.count : 0};
  }

  // Adds one request, and appends the command that stores the result.
  void append_next(std::string& commands, const std::string& key, const Limits& limits) const {
    append_command(commands, {"SET", key, fmt::format("{} {}", window, count + 1), "PX",
                              std::to_string(limits.duration.count())});
  }
};

// GET, then SET: callers that read the same count overwrite each other.
class Naive final : public RedisLimiter {
 public:
  explicit Naive(uint16_t port) : RedisLimiter(port, 1) {}

  void ask(Instant now, const std::string& key, const Limits& limits, Done done) override {
    std::string get;
    append_command(get, {"GET", key});
    send(0, std::move(get), 1,
         [this, now, &key, limits, done = std::move(done)](const auto& failure, Replies replies) {
           if (failed(failure, replies)) return done(Answer::kError);
           const WindowState state = WindowState::from(replies[0], now, limits);
           if (state.count >= limits.limit) return done(Answer::kRejected);
           std::string set;
           state.append_next(set, key, limits);
           send(0, std::move(set), 1, [done](const auto& lost, Replies stored) {
             done(failed(lost, stored) ? Answer::kError : Answer::kAllowed);
           });
         });
  }
};

// The same in a transaction that fails if the key changes in between. A failed one is repeated at
// once, `kAttempts` times in all; then the request is an error.
class Watch final : public RedisLimiter {
 public:
  Watch(uint16_t port, size_t connections) : RedisLimiter(port, connections) {
    for (size_t i = 0; i < connections; ++i) free_.push_back(i);
  }

  void ask(Instant now, const std::string& key, const Limits& limits, Done done) override {
    waiting_.push_back({now, &key, limits, std::move(done)});
    begin_next();
  }

 private:
  struct Request {
    Instant now;
    const std::string* key;
    Limits limits;
    Done done;
    int attempts = 0;
  };

  void begin_next() {
    while (!free_.empty() && !waiting_.empty()) {
      const size_t link = free_.back();
      free_.pop_back();
      auto request = std::make_shared<Request>(std::move(waiting_.front()));
      waiting_.pop_front();
      attempt(link, std::move(request));
    }
  }

  void attempt(size_t link, std::shared_ptr<Request> request) {
    ++request->attempts;
    std::string read;
    append_command(read, {"WATCH", *request->key});
    append_command(read, {"GET", *request->key});
    send(link, std::move(read), 2,
         [this, link, request = std::move(request)](const auto& failure, Replies replies) {
           if (failed(failure, replies)) return end(link, *request, Answer::kError);
           const WindowState state = WindowState::from(replies[1], request->now, request->limits);
           if (state.count >= request->limits.limit) return forget(link, *request);
           commit(link, request, state);
         });
  }

  void commit(size_t link, const std::shared_ptr<Request>& request, const WindowState& state) {
    std::string write;
    append_command(write, {"MULTI"});
    state.append_next(write, *request->key, request->limits);
    append_command(write, {"EXEC"});
    send(link, std::move(write), 3, [this, link, request](const auto& failure, Replies replies) {
      if (failed(failure, replies)) return end(link, *request, Answer::kError);
      // The reply to EXEC is null if the key has changed.
      if (replies[2].type != RedisReply::Type::kNull) return end(link, *request, Answer::kAllowed);
      if (request->attempts == kAttempts) return end(link, *request, Answer::kError);
      attempt(link, request);
    });
  }

  // Without a write, the connection must stop to watch. Nobody waits for that.
  void forget(size_t link, const Request& request) {
    std::string unwatch;
    append_command(unwatch, {"UNWATCH"});
    send(link, std::move(unwatch), 1, [](const auto&, Replies) {});
    end(link, request, Answer::kRejected);
  }

  void end(size_t link, const Request& request, Answer answer) {
    free_.push_back(link);
    request.done(answer);
    begin_next();
  }

  std::vector<size_t> free_;  // connections
  std::deque<Request> waiting_;
};

// INCR, and PEXPIRE by the first request of a window. The key has the number of the window.
class FixedWindow final : public RedisLimiter {
 public:
  explicit FixedWindow(uint16_t port) : RedisLimiter(port, 1) {}

  void ask(Instant now, const std::string& key, const Limits& limits, Done done) override {
    const int64_t window = now.wall.time_since_epoch() / limits.duration;
    const std::string window_key = fmt::format("{}:{}", key, window);
    std::string increment;
    append_command(increment, {"INCR", window_key});
    send(0, std::move(increment), 1,
         [this, window_key, limits, done = std::move(done)](const auto& failure, Replies replies) {
           if (failed(failure, replies)) return done(Answer::kError);
           const auto count = static_cast<Count>(replies[0].integer);
           if (count > 1) return done(count > limits.limit ? Answer::kRejected : Answer::kAllowed);
           std::string expire;
           append_command(expire, {"PEXPIRE", window_key, std::to_string(limits.duration.count())});
           send(0, std::move(expire), 1, [done](const auto& lost, Replies expiry) {
             done(failed(lost, expiry) ? Answer::kError : Answer::kAllowed);
           });
         });
  }
};

// One call of a script per request; see bench/lua_limits.mjs.
class Script final : public RedisLimiter {
 public:
  explicit Script(const LimiterChoice& choice)
      : RedisLimiter(choice.port, 1),
        text_(choice.script),
        has_client_time_(choice.has_client_time) {}

  void ask(Instant now, const std::string& key, const Limits& limits, Done done) override {
    const std::string limit = std::to_string(limits.limit);
    const std::string duration = std::to_string(limits.duration.count());
    std::string call;
    if (has_client_time_) {
      append_command(
          call, {"EVALSHA", hash_, "1", key, limit, duration, "1", origins::millis_text(now.wall)});
    } else {
      append_command(call, {"EVALSHA", hash_, "1", key, limit, duration, "1"});
    }
    send(0, std::move(call), 1, [done = std::move(done)](const auto& failure, Replies replies) {
      if (failed(failure, replies)) return done(Answer::kError);
      done(replies[0].integer == 1 ? Answer::kAllowed : Answer::kRejected);
    });
  }

 private:
  void prepare() override {
    std::string load;
    append_command(load, {"SCRIPT", "LOAD", text_});
    std::string refusal;
    send(0, std::move(load), 1, [&](const auto& failure, Replies replies) {
      if (failure) {
        refusal = "the connection was lost";
      } else if (failed(failure, replies)) {
        refusal = replies[0].text;
      } else {
        hash_ = replies[0].text;
      }
    });
    run_until([&] { return !hash_.empty() || !refusal.empty(); });
    if (!refusal.empty()) throw std::runtime_error("redis-server refuses the script: " + refusal);
  }

  const std::string text_;
  const bool has_client_time_;
  std::string hash_;
};

}  // namespace

std::unique_ptr<RateLimiter> make_redis_limiter(const LimiterChoice& choice) {
  if (choice.name == "naive") return std::make_unique<Naive>(choice.port);
  if (choice.name == "watch") return std::make_unique<Watch>(choice.port, choice.callers);
  if (choice.name == "fixed_window") return std::make_unique<FixedWindow>(choice.port);
  if (choice.name == "script") return std::make_unique<Script>(choice);
  throw std::runtime_error("there is no limiter '" + choice.name + "'");
}

}  // namespace weir::bench

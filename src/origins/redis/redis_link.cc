#include "origins/redis/redis_link.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <vector>

namespace weir::origins {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kWatchdogInterval = std::chrono::milliseconds(100);
constexpr Millis kMinBackoff{50};
constexpr Millis kMaxBackoff{2000};
constexpr size_t kReadChunk = 64 << 10;
constexpr size_t kMaxUnread = 64 << 20;

}  // namespace

class RedisLink::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(asio::io_context& io, const Clock& clock, RedisAddress address, uint64_t seed,
          OnLost on_lost, Options options)
      : clock_(clock),
        address_(std::move(address)),
        on_lost_(std::move(on_lost)),
        options_(std::move(options)),
        random_(seed | 1),
        resolver_(io),
        socket_(io),
        backoff_timer_(io),
        watchdog_(io) {}

  void start() {
    start_watchdog();
    connect();
  }

  void stop() {
    stopped_ = true;
    backoff_timer_.cancel();
    watchdog_.cancel();
    resolver_.cancel();
    close(OriginError::kUnreachable);
  }

  [[nodiscard]] bool ready() const { return state_ == State::kReady; }
  [[nodiscard]] uint64_t connection_id() const { return attempt_; }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }
  [[nodiscard]] Nanos oldest_wait(MonoTime now) const {
    return calls_.empty() ? Nanos(0) : now - calls_.front().sent;
  }

  void send(std::string commands, size_t count, Done done) {
    if (!ready()) return done(OriginError::kUnreachable, {});
    call(std::move(commands), count, std::move(done));
  }

  void reconnect(OriginError why) {
    if (state_ != State::kReady) return;
    fail(why, "the server answers " + std::string(to_string(why)));
  }

 private:
  enum class State : uint8_t { kDown, kConnecting, kReady };
  struct Call {
    size_t count = 0;
    Done done;
    MonoTime sent{};
  };

  void connect() {
    if (stopped_) return;
    state_ = State::kConnecting;
    connecting_since_ = clock_.now().mono;
    const uint64_t attempt = ++attempt_;
    resolver_.async_resolve(
        address_.host, std::to_string(address_.port),
        [self = shared_from_this(), attempt](const error_code& error,
                                             const tcp::resolver::results_type& found) {
          if (self->attempt_ != attempt) return;
          if (error) {
            return self->fail(OriginError::kUnreachable,
                              "cannot resolve " + self->address_.host + ": " + error.message());
          }
          asio::async_connect(self->socket_, found,
                              [self, attempt](const error_code& failed, const tcp::endpoint&) {
                                if (self->attempt_ != attempt) return;
                                if (failed) {
                                  return self->fail(OriginError::kUnreachable,
                                                    "cannot connect: " + failed.message());
                                }
                                self->handshake();
                              });
        });
  }

  // Identifies a connection at the server, so that a later connection can kill it. Both parts are
  // needed: a restarted server starts its ids again, and may give the same id to another client.
  struct Identity {
    std::string id, address;
  };
  // From the reply to CLIENT INFO; empty if the server does not support it.
  static Identity identity_of(const RedisReply& info) {
    const auto field = [&info](std::string_view name) -> std::string {
      const size_t at = info.text.find(name);
      if (at == std::string_view::npos) return {};
      const size_t begin = at + name.size();
      return std::string(info.text.substr(begin, info.text.find(' ', begin) - begin));
    };
    if (info.type != RedisReply::Type::kText || !info.text.starts_with("id=")) return {};
    return {.id = field("id="), .address = field(" addr=")};
  }

  // Authenticates and selects the database. Then kills the previous connection of this link, so
  // that its writes in flight cannot arrive after newer writes; skipped if the server does not
  // support or allow it. At last subscribes: after that the server accepts no other command.
  void handshake() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    read();
    std::string hello;
    size_t count = 0;
    const auto command = [&](std::initializer_list<std::string_view> words) {
      append_command(hello, words);
      return count++;
    };
    if (!address_.password.empty()) {
      if (address_.user.empty()) {
        command({"AUTH", address_.password});
      } else {
        command({"AUTH", address_.user, address_.password});
      }
    }
    if (address_.database != 0) command({"SELECT", std::to_string(address_.database)});
    const size_t ping = command({"PING"});
    // Not checked: a server that refuses writes may still be read.
    if (options_.stores_version) command({"SET", kVersionKey, kOriginVersion, "NX"});
    const size_t version = command({"GET", kVersionKey});
    const bool has_region = !options_.region.empty();
    if (has_region && options_.stores_version) {
      command({"SET", kRegionKey, options_.region, "NX"});
    }
    const size_t region = has_region ? command({"GET", kRegionKey}) : version;
    const size_t identity = command({"CLIENT", "INFO"});
    if (!previous_.address.empty()) {
      command({"CLIENT", "KILL", "ID", previous_.id, "ADDR", previous_.address});
    }
    if (!options_.channel.empty()) command({"SUBSCRIBE", options_.channel});
    const uint64_t attempt = attempt_;
    call(std::move(hello), count,
         [this, attempt, ping, version, region, identity](std::optional<OriginError> failure,
                                                          std::span<const RedisReply> replies) {
           if (attempt_ != attempt || failure) return;
           for (size_t i = 0; i < replies.size(); ++i) {
             const bool needed = i <= ping || i == version || i == region ||
                                 (!options_.channel.empty() && i + 1 == replies.size());
             if (!needed || replies[i].type != RedisReply::Type::kError) continue;
             return fail(error_of_reply(replies[i].text), std::string(replies[i].text));
           }
           const RedisReply& stored = replies[version];
           if (stored.type == RedisReply::Type::kText && stored.text != kOriginVersion) {
             return fail(OriginError::kVersion, version_conflict(stored.text));
           }
           const RedisReply& other = replies[region];
           if (region != version && other.type == RedisReply::Type::kText &&
               other.text != options_.region) {
             return fail(OriginError::kRegion, region_conflict(other.text));
           }
           previous_ = identity_of(replies[identity]);
           state_ = State::kReady;
           last_error_.clear();
           backoff_ = kMinBackoff;
         });
  }

  static std::string version_conflict(std::string_view stored) {
    return "it has data of version " + std::string(stored.substr(0, 20)) +
           " and this process needs version " + std::string(kOriginVersion) +
           ": stop all processes of the other version and delete the keys weir:*, or use another "
           "database";
  }

  [[nodiscard]] std::string region_conflict(std::string_view stored) const {
    return "region is '" + options_.region + "', and it has the counts of region '" +
           std::string(stored.substr(0, 64)) +
           "': choose that region, or another server or database; to rename the region, stop all "
           "its processes and delete the keys weir:*";
  }

  void call(std::string commands, size_t count, Done done) {
    calls_.push_back({.count = count, .done = std::move(done), .sent = clock_.now().mono});
    unsent_ += commands;
    write();
  }

  void write() {
    if (writing_ || unsent_.empty()) return;
    writing_ = true;
    sending_ = std::exchange(unsent_, {});
    asio::async_write(
        socket_, asio::buffer(sending_),
        [self = shared_from_this(), attempt = attempt_](const error_code& error, size_t) {
          if (self->attempt_ != attempt) return;
          self->writing_ = false;
          if (error) return self->fail(OriginError::kUnreachable, error.message());
          self->write();
        });
  }

  void read() {
    if (in_.size() - filled_ < kReadChunk) in_.resize(filled_ + 2 * kReadChunk);
    socket_.async_read_some(
        asio::buffer(in_.data() + filled_, in_.size() - filled_),
        [self = shared_from_this(), attempt = attempt_](const error_code& error, size_t count) {
          if (self->attempt_ != attempt) return;
          if (error) return self->fail(OriginError::kUnreachable, error.message());
          self->filled_ += count;
          if (!self->take_replies(attempt)) return;
          self->read();
        });
  }

  // False if the connection was closed.
  bool take_replies(uint64_t attempt) {
    size_t at = subscribed() ? take_messages(0) : 0;
    while (attempt_ == attempt && !calls_.empty()) {
      // All replies of a call at once: the views are valid while the bytes stay in place.
      std::vector<RedisReply> replies(calls_.front().count);
      size_t end = at;
      size_t got = 0;
      for (; got < replies.size(); ++got) {
        size_t bytes = 0;
        const ReplyStatus status =
            parse_reply(std::string_view(in_.data() + end, filled_ - end), replies[got], bytes);
        if (status == ReplyStatus::kBroken) {
          fail(OriginError::kOther, "the server sent an invalid reply");
          return false;
        }
        if (status == ReplyStatus::kIncomplete) break;
        end += bytes;
      }
      if (got < replies.size()) break;
      at = end;
      const Call call = std::move(calls_.front());
      calls_.pop_front();
      call.done(std::nullopt, replies);
      if (attempt_ == attempt && subscribed()) at = take_messages(at);
    }
    if (attempt_ != attempt) return false;
    std::copy(in_.begin() + static_cast<ptrdiff_t>(at),
              in_.begin() + static_cast<ptrdiff_t>(filled_), in_.begin());
    filled_ -= at;
    // A subscription may have received a part of a message.
    if (filled_ > kMaxUnread || (calls_.empty() && filled_ > 0 && !subscribed())) {
      fail(OriginError::kOther, "the server sent an unexpected reply");
      return false;
    }
    return true;
  }

  // Messages come between replies, and never between those of one call: a subscribed connection
  // sends nothing but single PINGs.
  [[nodiscard]] bool subscribed() const { return ready() && !options_.channel.empty(); }

  // Delivers the messages from `at` on, and returns where they end.
  size_t take_messages(size_t at) {
    const uint64_t attempt = attempt_;
    while (attempt_ == attempt) {
      RedisReply reply;
      size_t bytes = 0;
      const ReplyStatus status =
          parse_reply(std::string_view(in_.data() + at, filled_ - at), reply, bytes);
      if (status == ReplyStatus::kBroken) {
        fail(OriginError::kOther, "the server sent an invalid message");
        break;
      }
      if (status == ReplyStatus::kIncomplete) break;
      const bool message = reply.type == RedisReply::Type::kList && reply.items.size() == 3 &&
                           reply.items[0].text == "message";
      if (!message && calls_.empty()) {
        fail(OriginError::kOther, "the server sent an unexpected reply");
        break;
      }
      if (!message) break;
      at += bytes;
      options_.on_message(reply.items[2].text);
    }
    return at;
  }

  // Fails the calls in flight and schedules the next attempt to connect.
  void fail(OriginError why, std::string detail) {
    last_error_ = std::move(detail);
    close(why);
    if (stopped_) return;
    on_lost_(why);
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const int64_t pause =
        backoff_.count() / 2 + static_cast<int64_t>(random_ >> 33) % backoff_.count();
    backoff_ = std::min(2 * backoff_, kMaxBackoff);
    backoff_timer_.expires_after(Millis(pause));
    backoff_timer_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled) self->connect();
    });
  }

  void close(OriginError why) {
    ++attempt_;  // handlers of the old connection do nothing from now on
    state_ = State::kDown;
    error_code ignored;
    socket_.close(ignored);
    writing_ = false;
    unsent_.clear();
    filled_ = 0;
    const std::deque<Call> failed = std::exchange(calls_, {});
    for (const Call& call : failed) call.done(why, {});
  }

  // Fails a connection that does not answer in time.
  void start_watchdog() {
    watchdog_.expires_after(kWatchdogInterval);
    watchdog_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (cancelled || self->stopped_) return;
      const MonoTime now = self->clock_.now().mono;
      const RedisTimeouts& limit = self->options_.timeouts;
      if (self->state_ == State::kConnecting && now - self->connecting_since_ > limit.connect) {
        self->fail(OriginError::kTimeout, "connecting timed out");
      } else if (!self->calls_.empty() && now - self->calls_.front().sent > limit.reply) {
        self->fail(OriginError::kTimeout, "the server did not answer in time");
      }
      self->start_watchdog();
    });
  }

  const Clock& clock_;
  const RedisAddress address_;
  const OnLost on_lost_;
  const Options options_;
  uint64_t random_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer backoff_timer_, watchdog_;

  State state_ = State::kDown;
  bool stopped_ = false;
  uint64_t attempt_ = 0;  // counts connections: a handler of an older one does nothing
  MonoTime connecting_since_{};
  Identity previous_;  // of the last connection that was ready
  Millis backoff_ = kMinBackoff;
  std::string last_error_ = "not connected yet";

  std::deque<Call> calls_;  // in flight, in the order of their replies
  std::string unsent_, sending_;
  bool writing_ = false;
  std::vector<char> in_;
  size_t filled_ = 0;
};

RedisLink::RedisLink(asio::io_context& io, const Clock& clock, RedisAddress address, uint64_t seed,
                     OnLost on_lost, Options options)
    : session_(std::make_shared<Session>(io, clock, std::move(address), seed, std::move(on_lost),
                                         std::move(options))) {}
RedisLink::~RedisLink() = default;

void RedisLink::start() {
  session_->start();
}
void RedisLink::stop() {
  session_->stop();
}
bool RedisLink::ready() const {
  return session_->ready();
}
uint64_t RedisLink::connection_id() const {
  return session_->connection_id();
}
const std::string& RedisLink::last_error() const {
  return session_->last_error();
}
Nanos RedisLink::oldest_wait(MonoTime now) const {
  return session_->oldest_wait(now);
}
void RedisLink::send(std::string commands, size_t count, Done done) {
  session_->send(std::move(commands), count, std::move(done));
}
void RedisLink::reconnect(OriginError why) {
  session_->reconnect(why);
}

}  // namespace weir::origins

#include "frontends/loop.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <list>

namespace weir::frontends {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using telemetry::DoorStat;

namespace {

constexpr size_t kLeastRead = 4096;
constexpr size_t kMostRead = 64 << 10;
constexpr size_t kKept = 64 << 10;  // bytes of a buffer that stay when it is empty
// Above anything a session waits for: a request's head, its body, and chunks around it.
constexpr size_t kMostUnread = 4 << 20;
constexpr auto kTick = std::chrono::milliseconds(250);
constexpr auto kDrainTick = std::chrono::milliseconds(20);
constexpr Nanos kQuiet = std::chrono::milliseconds(100);      // then a drained connection is done
constexpr Nanos kFarewell = std::chrono::milliseconds(1000);  // for the other side to close

using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

Error unavailable(const Address& address, const error_code& error) {
  return {.code = ErrorCode::kUnavailable,
          .field = to_string(address),
          .detail = "cannot listen at " + to_string(address) + ": " + error.message(),
          .fix = "choose another address, or end whoever listens there"};
}

// Opens, binds and listens; an error if that is not possible.
error_code open_at(tcp::acceptor& acceptor, const Address& address, bool share) {
  error_code error;
  const auto host = asio::ip::make_address(address.host, error);
  if (error) return error;
  const tcp::endpoint endpoint(host, address.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && share) acceptor.set_option(ReusePort(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  return error;
}

}  // namespace

std::string to_string(const Address& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::unique_ptr<Error> taken(const Address& address) {
  asio::io_context io(1);
  tcp::acceptor acceptor(io);
  const error_code error = open_at(acceptor, address, false);
  return error ? std::make_unique<Error>(unavailable(address, error)) : nullptr;
}

struct Listener {
  tcp::acceptor acceptor;
  telemetry::DoorMetrics& metrics;
  Loop::OpenSession open;
};

struct Loop::Inside {
  Inside(const Clock& the_clock, LoopLimits the_limits)
      : clock(the_clock), limits(the_limits), io(1), tick(io) {}

  void accept(Listener& listener);
  void look_after();
  void repeat(size_t which);
  void begin_drain();

  const Clock& clock;
  const LoopLimits limits;
  asio::io_context io;
  asio::steady_timer tick;
  struct Chore {
    asio::steady_timer timer;
    Millis period;
    Task task;
  };
  std::list<Listener> listeners;
  std::deque<Chore> chores;
  std::list<std::shared_ptr<Connection>> connections;
  bool draining = false;
  MonoTime drained_at{};  // at the latest
};

class Loop::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Inside& loop, telemetry::DoorMetrics& metrics, tcp::socket socket,
             std::unique_ptr<Session> session)
      : loop_(loop), metrics_(metrics), socket_(std::move(socket)), session_(std::move(session)) {}

  void start(std::list<std::shared_ptr<Connection>>::iterator self) {
    self_ = self;
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    metrics_.stats.add(DoorStat::kOpened);
    active_ = began_ = loop_.clock.now().mono;
    read();
  }

  void drain() { session_->drain(); }

  // Closes it if it takes too long, or if it is done during a drain.
  void look_after(MonoTime now) {
    const bool midway = farewell_ || writing_ || !in_.empty();
    if (farewell_ ? now - active_ > kFarewell
                  : now - (midway ? began_ : active_) >
                        (midway ? loop_.limits.request : loop_.limits.silence)) {
      if (!farewell_) metrics_.stats.add(DoorStat::kTimedOut);
      return close();
    }
    if (!loop_.draining) return;
    if (now >= loop_.drained_at) return close();
    if (!midway && now - active_ > kQuiet) say_farewell();
  }

 private:
  void read() {
    const std::span<char> room = in_.room(want_);
    socket_.async_read_some(asio::buffer(room.data(), room.size()),
                            [this, self = shared_from_this(), most = room.size()](
                                const error_code& error, size_t count) {
                              if (error) return close();
                              want_ = count == most ? std::min(2 * want_, kMostRead) : want_;
                              heard(count);
                            });
  }

  void heard(size_t count) {
    const Instant now = loop_.clock.now();
    if (farewell_) return read_on_after_farewell();
    if (in_.empty()) began_ = now.mono;
    active_ = now.mono;
    in_.wrote(count);
    serve(now);
  }

  void serve(Instant now) {
    for (;;) {
      const size_t before = in_.size();
      next_ = session_->take(now, in_, out_);
      // Something was answered: what is left is a new request.
      if (in_.size() != before) began_ = now.mono;
      if (in_.size() > kMostUnread) return close();
      if (!send()) return;  // goes on when it is sent
      if (next_ != Next::kAgain) return go_on();
    }
  }

  // False: not all could be sent at once, or not at all.
  bool send() {
    while (!out_.empty()) {
      error_code error;
      const std::string_view unsent = out_.unread();
      const size_t count = socket_.write_some(asio::buffer(unsent.data(), unsent.size()), error);
      if (error == asio::error::would_block) {
        send_later();
        return false;
      }
      if (error) {
        close();
        return false;
      }
      out_.consume(count);
    }
    out_.shrink(kKept);
    return true;
  }

  void send_later() {
    writing_ = true;
    began_ = loop_.clock.now().mono;
    socket_.async_wait(tcp::socket::wait_write,
                       [this, self = shared_from_this()](const error_code& error) {
                         if (error) return close();
                         writing_ = false;
                         const Instant now = loop_.clock.now();
                         active_ = began_ = now.mono;
                         if (!send()) return;
                         if (next_ == Next::kAgain) return serve(now);
                         go_on();
                       });
  }

  void go_on() {
    if (next_ == Next::kClose) return say_farewell();
    in_.shrink(kKept);
    read();
  }

  // Sends the end and waits a little for the other side's: closing at once with bytes unread
  // would take back the last answers.
  void say_farewell() {
    if (farewell_) return;
    farewell_ = true;
    active_ = loop_.clock.now().mono;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    if (next_ == Next::kClose) read_on_after_farewell();  // else a read is under way
  }
  void read_on_after_farewell() {
    in_.clear();
    read();
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    metrics_.stats.add(DoorStat::kClosed);
    error_code ignored;
    socket_.close(ignored);
    const auto keep = shared_from_this();
    loop_.connections.erase(self_);
  }

  Inside& loop_;
  telemetry::DoorMetrics& metrics_;
  tcp::socket socket_;
  std::unique_ptr<Session> session_;
  std::list<std::shared_ptr<Connection>>::iterator self_;
  Bytes in_, out_;
  size_t want_ = kLeastRead;
  Next next_ = Next::kRead;
  MonoTime active_{};  // when something was last heard or sent
  MonoTime began_{};   // when the request or answer under way began
  bool writing_ = false;
  bool farewell_ = false;
  bool closed_ = false;
};

void Loop::Inside::accept(Listener& listener) {
  listener.acceptor.async_accept([this, &listener](const error_code& error, tcp::socket socket) {
    if (!listener.acceptor.is_open()) return;
    if (error) {
      // Out of descriptors, most likely: connections wait in the system's queue meanwhile.
      auto later = std::make_shared<asio::steady_timer>(io, kTick);
      later->async_wait([this, &listener, later](const error_code& cancelled) {
        if (!cancelled && listener.acceptor.is_open()) accept(listener);
      });
      return;
    }
    if (connections.size() >= limits.connections) {
      listener.metrics.stats.add(DoorStat::kRefused);
      socket.close();
    } else {
      connections.push_front(std::make_shared<Connection>(*this, listener.metrics,
                                                          std::move(socket), listener.open()));
      const auto begun = connections.begin();
      (*begun)->start(begun);
    }
    accept(listener);
  });
}

void Loop::Inside::look_after() {
  tick.expires_after(draining ? kDrainTick : kTick);
  tick.async_wait([this](const error_code& error) {
    if (error) return;
    const MonoTime now = clock.now().mono;
    for (auto i = connections.begin(); i != connections.end();) {
      const auto connection = *i++;  // which may close itself
      connection->look_after(now);
    }
    if (draining && connections.empty()) return io.stop();
    look_after();
  });
}

void Loop::Inside::repeat(size_t which) {
  chores[which].timer.expires_after(chores[which].period);
  chores[which].timer.async_wait([this, which](const error_code& error) {
    if (error) return;
    chores[which].task();
    repeat(which);
  });
}

void Loop::Inside::begin_drain() {
  if (draining) return;
  draining = true;
  const MonoTime now = clock.now().mono;
  drained_at = now + limits.drain;
  for (Listener& listener : listeners) {
    error_code ignored;
    listener.acceptor.close(ignored);
  }
  for (const auto& connection : connections) connection->drain();
  look_after();  // sooner than it was to be
}

Loop::Loop(const Clock& clock, LoopLimits limits)
    : inside_(std::make_unique<Inside>(clock, limits)) {}
Loop::~Loop() = default;

Result<Address> Loop::listen(const Address& address, telemetry::DoorMetrics& metrics,
                             OpenSession open) {
  Listener& listener = inside_->listeners.emplace_back(
      Listener{tcp::acceptor(inside_->io), metrics, std::move(open)});
  const error_code error = open_at(listener.acceptor, address, true);
  if (error) return unavailable(address, error);
  inside_->accept(listener);
  return Address{.host = address.host, .port = listener.acceptor.local_endpoint().port()};
}

void Loop::every(Millis period, Task task) {
  inside_->chores.push_back({asio::steady_timer(inside_->io), period, std::move(task)});
  inside_->repeat(inside_->chores.size() - 1);
}

void Loop::run() {
  inside_->look_after();
  inside_->io.run();
  // Handlers that were not run hold connections; they go while everything is still there.
  inside_->connections.clear();
}

void Loop::drain() {
  asio::post(inside_->io, [inside = inside_.get()] { inside->begin_drain(); });
}

}  // namespace weir::frontends

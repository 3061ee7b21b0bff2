#include "frontends/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <deque>
#include <list>
#include <vector>

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
// A drained connection is done when it was quiet for so long, or, if it never is, when it
// has had so long and what it asked is answered.
constexpr Nanos kQuiet = std::chrono::milliseconds(100);
constexpr Nanos kPatience = std::chrono::milliseconds(1000);
constexpr Nanos kFarewell = std::chrono::milliseconds(1000);  // for the other side to close

using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

Error unavailable(const Address& address, const error_code& error) {
  return {.code = ErrorCode::kUnavailable,
          .field = to_string(address),
          .detail = "cannot listen at " + to_string(address) + ": " + error.message(),
          .fix = "choose another address, or end whoever listens there"};
}

// Opens, binds and listens; an error if that is not possible.
template <typename Acceptor>
error_code open_at(Acceptor& acceptor, const Address& address, bool share) {
  error_code error;
  const auto host = asio::ip::make_address(address.host, error);
  if (error) return error;
  const tcp::endpoint endpoint(host, address.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && share) acceptor.set_option(ReusePort(true), error);
  if (!error) acceptor.non_blocking(true, error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  return error;
}

}  // namespace

std::string to_string(const Address& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

// Where a socket is bound. Port 0: not to an IP address.
static Address local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  char text[INET6_ADDRSTRLEN] = "";
  Address address{.host = ""};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return address;
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    address.port = ntohs(four.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
    inet_ntop(mapped ? AF_INET : AF_INET6,
              mapped ? &six.sin6_addr.s6_addr[12] : six.sin6_addr.s6_addr, text, sizeof text);
    address.port = ntohs(six.sin6_port);
  }
  address.host = text;
  return address;
}

std::unique_ptr<Error> taken(const Address& address) {
  asio::io_context io(1);
  tcp::acceptor acceptor(io);
  const error_code error = open_at(acceptor, address, false);
  return error ? std::make_unique<Error>(unavailable(address, error)) : nullptr;
}

// Of either family.
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

struct Listener {
  Acceptor acceptor;
  telemetry::DoorMetrics& metrics;
  Loop::OpenSession open;
};

// Work that others put off to this loop.
class LoopExecutor final : public Executor {
 public:
  LoopExecutor(asio::io_context& io, const Clock& clock) : io_(io), clock_(clock) {}
  void post(Task task) override { asio::post(io_, std::move(task)); }
  void post_at(MonoTime when, Task task) override {
    auto timer = std::make_shared<asio::steady_timer>(io_, when - clock_.now().mono);
    timer->async_wait([timer, task = std::move(task)](const error_code& cancelled) {
      if (!cancelled) task();
    });
  }

 private:
  asio::io_context& io_;
  const Clock& clock_;
};

// Connections are polled by an epoll of their own, which the loop waits for as for one
// descriptor. So one wait serves all that are ready, and a connection costs a read and a
// write per turn and nothing else; asking the loop for each would add a system call to each.
struct Loop::Inside {
  Inside(const Clock& the_clock, LoopLimits the_limits)
      : clock(the_clock),
        limits(the_limits),
        io(1),
        executor(io, the_clock),
        tick(io),
        poll(io, epoll_create1(EPOLL_CLOEXEC)) {}

  void wait();
  void serve_ready();
  void end_turn();
  void await_connections(Listener& listener);
  void accept(Listener& listener);
  void look_after();
  void repeat(size_t which);
  void begin_drain();

  const Clock& clock;
  const LoopLimits limits;
  asio::io_context io;
  LoopExecutor executor;
  asio::steady_timer tick;
  asio::posix::stream_descriptor poll;
  struct Chore {
    asio::steady_timer timer;
    Millis period;
    Task task;
  };
  std::list<Listener> listeners;
  std::deque<Chore> chores;
  std::list<std::shared_ptr<Connection>> connections;
  std::vector<Connection*> unsent;                // have answers of this turn to send
  std::vector<std::shared_ptr<Connection>> gone;  // events of this turn may still name them
  bool draining = false;
  MonoTime drain_began{};
  MonoTime drained_at{};  // at the latest
};

class Loop::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Inside& loop, telemetry::DoorMetrics& metrics, int socket,
             std::unique_ptr<Session> session)
      : loop_(loop), metrics_(metrics), socket_(socket), session_(std::move(session)) {}
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start(std::list<std::shared_ptr<Connection>>::iterator self) {
    self_ = self;
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    metrics_.stats.add(DoorStat::kOpened);
    active_ = began_ = loop_.clock.now().mono;
    poll_for(EPOLL_CTL_ADD, EPOLLIN);
    session_->reached_at([socket = socket_] { return local_address(socket); });
    session_->settle(loop_.executor, [self = weak_from_this()] {
      if (const auto connection = self.lock()) connection->wake();
    });
  }

  // What the poll says of this connection: there is something to read, or room to write; or,
  // while nothing is wanted of it, that the other side is gone.
  void ready() {
    if (closed_) return;
    if (writing_) return send_on();
    waiting_ ? close() : read();
  }

  void flush() {
    if (!closed_ && !writing_) (void)send();
  }

  void drain() { session_->drain(); }

  // Closes it if it takes too long, or if it is done during a drain.
  void look_after(MonoTime now) {
    const bool midway = farewell_ || writing_ || waiting_ || !in_.empty();
    if (farewell_ ? now - active_ > kFarewell
                  : now - (midway ? began_ : active_) >
                        (midway ? loop_.limits.request : loop_.limits.silence)) {
      if (!farewell_) metrics_.stats.add(DoorStat::kTimedOut);
      return close();
    }
    if (!loop_.draining) return;
    if (now >= loop_.drained_at) return close();
    if (midway) return;
    if (now - active_ > kQuiet || now - loop_.drain_began > kPatience) say_farewell();
  }

 private:
  void poll_for(int operation, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = this;
    epoll_ctl(loop_.poll.native_handle(), operation, socket_, &event);
  }

  void read() {
    const std::span<char> room = in_.room(want_);
    const ssize_t got = recv(socket_, room.data(), room.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return close();
    const auto count = static_cast<size_t>(got);
    if (farewell_) return;  // what is said after the last answer is not heard
    if (count == room.size()) want_ = std::min(2 * want_, kMostRead);
    const Instant now = loop_.clock.now();
    if (in_.empty()) began_ = now.mono;
    active_ = now.mono;
    in_.wrote(count);
    serve(now);
  }

  void serve(Instant now) {
    do {
      const size_t before = in_.size();
      next_ = session_->take(now, in_, out_);
      // Something was answered: what is left is a new request.
      if (in_.size() != before) began_ = now.mono;
      if (in_.size() > kMostUnread) return close();
      if (next_ == Next::kRead) break;
      waiting_ = next_ == Next::kWait;
      if (!send()) return;  // goes on when it is sent
    } while (next_ == Next::kAgain);
    if (waiting_) return poll_for(EPOLL_CTL_MOD, 0);
    if (next_ == Next::kClose) return say_farewell();
    in_.shrink(kKept);
    // Sent when all that are ready have been read: the system's code for reading and that
    // for writing each stay in the cache then.
    if (!out_.empty()) loop_.unsent.push_back(this);
  }

  // False: not all could be sent at once, or not at all.
  bool send() {
    while (!out_.empty()) {
      const std::string_view unsent = out_.unread();
      const ssize_t sent = ::send(socket_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        out_.consume(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        if (!writing_) poll_for(EPOLL_CTL_MOD, EPOLLOUT);
        if (!writing_) began_ = loop_.clock.now().mono;
        writing_ = true;
        return false;
      } else if (errno != EINTR) {
        close();
        return false;
      }
    }
    out_.shrink(kKept);
    return true;
  }

  // There is room to write again. Nothing was read meanwhile.
  void send_on() {
    const Instant now = loop_.clock.now();
    active_ = began_ = now.mono;
    if (!send()) return;
    writing_ = false;
    poll_for(EPOLL_CTL_MOD, waiting_ ? 0 : uint32_t{EPOLLIN});
    if (next_ == Next::kAgain) return serve(now);
    if (next_ == Next::kClose) say_farewell();
  }

  // The session can go on.
  void wake() {
    if (closed_ || !waiting_) return;
    waiting_ = false;
    const Instant now = loop_.clock.now();
    active_ = now.mono;
    if (writing_) {
      next_ = Next::kAgain;  // when all is sent
    } else {
      poll_for(EPOLL_CTL_MOD, EPOLLIN);
      serve(now);
      loop_.end_turn();
    }
  }

  // Sends the end and waits a little for the other side's: closing at once with bytes unread
  // would take back the last answers.
  void say_farewell() {
    if (farewell_) return;
    farewell_ = true;
    active_ = loop_.clock.now().mono;
    in_.clear();
    shutdown(socket_, SHUT_WR);
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    metrics_.stats.add(DoorStat::kClosed);
    poll_for(EPOLL_CTL_DEL, 0);
    shutdown(socket_, SHUT_RDWR);
    loop_.gone.push_back(std::move(*self_));
    loop_.connections.erase(self_);
  }

  Inside& loop_;
  telemetry::DoorMetrics& metrics_;
  const int socket_;
  std::unique_ptr<Session> session_;
  std::list<std::shared_ptr<Connection>>::iterator self_;
  Bytes in_, out_;
  size_t want_ = kLeastRead;
  Next next_ = Next::kRead;
  MonoTime active_{};  // when something was last heard or sent
  MonoTime began_{};   // when the request or answer under way began
  bool writing_ = false;
  bool waiting_ = false;  // for the session
  bool farewell_ = false;
  bool closed_ = false;
};

void Loop::Inside::wait() {
  poll.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error) return;
    serve_ready();
    wait();
  });
}

void Loop::Inside::serve_ready() {
  std::array<epoll_event, 256> events;
  const int count =
      epoll_wait(poll.native_handle(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) static_cast<Connection*>(events[i].data.ptr)->ready();
  end_turn();
}

void Loop::Inside::end_turn() {
  for (Connection* connection : unsent) connection->flush();
  unsent.clear();
  gone.clear();
}

void Loop::Inside::await_connections(Listener& listener) {
  listener.acceptor.async_wait(Acceptor::wait_read, [this, &listener](const error_code& error) {
    if (!error && listener.acceptor.is_open()) accept(listener);
  });
}

void Loop::Inside::accept(Listener& listener) {
  constexpr int kAtOnce = 64;  // then those who are there already have their turn
  for (int i = 0; i < kAtOnce; ++i) {
    const int socket =
        accept4(listener.acceptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      // They wait in the system's queue until someone has left.
      auto later = std::make_shared<asio::steady_timer>(io, kTick);
      later->async_wait([this, &listener, later](const error_code& cancelled) {
        if (!cancelled && listener.acceptor.is_open()) await_connections(listener);
      });
      return;
    }
    if (socket < 0) break;
    if (connections.size() >= limits.connections) {
      listener.metrics.stats.add(DoorStat::kRefused);
      ::close(socket);
      continue;
    }
    connections.push_front(
        std::make_shared<Connection>(*this, listener.metrics, socket, listener.open()));
    const auto begun = connections.begin();
    (*begun)->start(begun);
  }
  await_connections(listener);
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
    gone.clear();
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
  drain_began = clock.now().mono;
  drained_at = drain_began + limits.drain;
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
  Listener& listener =
      inside_->listeners.emplace_back(Listener{Acceptor(inside_->io), metrics, std::move(open)});
  const error_code error = open_at(listener.acceptor, address, true);
  if (error) return unavailable(address, error);
  inside_->await_connections(listener);
  return Address{.host = address.host,
                 .port = local_address(listener.acceptor.native_handle()).port};
}

std::unique_ptr<Error> Loop::listen(const UnixSocket& socket, telemetry::DoorMetrics& metrics,
                                    OpenSession open) {
  Result<int> descriptor = socket.duplicate();
  if (!descriptor) return std::make_unique<Error>(descriptor.error());
  Listener& listener =
      inside_->listeners.emplace_back(Listener{Acceptor(inside_->io), metrics, std::move(open)});
  listener.acceptor.assign({AF_UNIX, 0}, *descriptor);
  inside_->await_connections(listener);
  return nullptr;
}

Executor& Loop::executor() {
  return inside_->executor;
}

void Loop::every(Millis period, Task task) {
  inside_->chores.push_back({asio::steady_timer(inside_->io), period, std::move(task)});
  inside_->repeat(inside_->chores.size() - 1);
}

void Loop::run() {
  inside_->wait();
  inside_->look_after();
  inside_->io.run();
  inside_->connections.clear();
}

void Loop::drain() {
  asio::post(inside_->io, [inside = inside_.get()] { inside->begin_drain(); });
}

}  // namespace weir::frontends

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

#include "frontends/peer.h"

namespace weir::frontends {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using telemetry::FrontendStat;

namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptedAtOnce = 64;  // then those who are there already have their turn
constexpr size_t kLeastRead = 4096;
constexpr size_t kMostRead = 64 << 10;
// Empty buffers are given back after a while, or at once where memory is short.
constexpr Nanos kIdle = std::chrono::milliseconds(1000);
constexpr size_t kKeptWhenShort = 4096;  // bytes
constexpr auto kTick = std::chrono::milliseconds(250);
constexpr auto kDrainTick = std::chrono::milliseconds(20);
// A drained connection is done when it was quiet for so long, or, if it never is, when it
// has had so long and what it asked is answered.
constexpr Nanos kQuiet = std::chrono::milliseconds(100);
constexpr Nanos kPatience = std::chrono::milliseconds(1000);
constexpr Nanos kFarewell = std::chrono::milliseconds(1000);  // for the other side to close
constexpr size_t kMostSentAway = 64;  // connections that wait for the other side to close

using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

std::string remedy_of(const error_code& error) {
  switch (error.value()) {
    case EMFILE:
      return "let this process open more files: ulimit -n, or LimitNOFILE= in its systemd unit";
    case ENFILE: return "the machine has no file left to open: raise fs.file-max";
    case EACCES: return "choose a port from 1024 on, or give this process CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL: return "choose an address that this machine has";
    default: return "choose another address, or end whoever listens there";
  }
}

Error unavailable(const Address& address, const error_code& error) {
  return {.code = ErrorCode::kUnavailable,
          .field = to_string(address),
          .detail = "cannot listen at " + to_string(address) + ": " + error.message(),
          .fix = remedy_of(error)};
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
  if (!error) acceptor.listen(kBacklog, error);
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
  telemetry::FrontendMetrics& metrics;
  Loop::OpenSession open;
  Loop::RefusalText refusal_text;
  Admission admission;
  size_t sent_away = 0;  // that are still there
};

FrontendStat stat_of(Refusal why) {
  switch (why) {
    case Refusal::kConnections: return FrontendStat::kRefused;
    case Refusal::kAddress: return FrontendStat::kRefusedAddress;
    case Refusal::kMemory: break;
  }
  return FrontendStat::kRefusedMemory;
}

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
  Listener& add_listener(telemetry::FrontendMetrics& metrics, OpenSession open,
                         RefusalText refusal_text);
  void await_connections(Listener& listener);
  void accept(Listener& listener, int most);
  void admit(Listener& listener, int socket, uint64_t peer);
  // Closes a stranger of any front end; false: there is none.
  bool close_a_stranger();
  void look_after();
  void repeat(size_t which);
  void begin_drain(Drain how);
  void stop_listening();

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
  bool listening = true;
  Drain how = Drain::kPatient;
  MonoTime listens_until{};  // while it drains
  MonoTime drained_at{};     // at the latest
};

class Loop::Connection final : public Guest, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Inside& loop, Listener& listener, int socket, std::unique_ptr<Session> session)
      : loop_(loop), listener_(listener), socket_(socket), session_(std::move(session)) {}
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start(std::list<std::shared_ptr<Connection>>::iterator self, uint64_t peer) {
    admission().enter(*this, peer);
    begin(self);
    session_->set_peer(peer);
    session_->reached_at([socket = socket_] { return local_address(socket); });
    session_->settle(loop_.executor, [self = weak_from_this()] {
      if (const auto connection = self.lock()) connection->wake();
    });
    if (loop_.draining) session_->drain();
  }

  // Says why there is no place for it, and ends. Has no session.
  void send_away(std::list<std::shared_ptr<Connection>>::iterator self, std::string_view why) {
    ++listener_.sent_away;
    begin(self);
    out_.append(why);
    if (send()) say_farewell();
  }

  // What the poll says of this connection: there is something to read, or room to write; or,
  // while nothing is wanted of it, that the other side is gone.
  void ready() {
    if (closed_) return;
    if (writing_) return send_on();
    waiting_ || delayed_ ? close() : read();
  }

  void flush() {
    if (!closed_ && !writing_) (void)send();
    account();
  }

  void drain() {
    if (session_) session_->drain();
  }
  void cut() { close(); }

  // Closes it if it takes too long, or if it is done during a drain.
  void look_after(MonoTime now) {
    if (delayed_ && now - delay_began_ >= loop_.limits.wrong_key) return end_delay();
    const bool midway = farewell_ || writing_ || waiting_ || delayed_ || !in_.empty();
    if (farewell_ ? now - active_ > kFarewell
                  : now - (midway ? began_ : active_) > allowed(midway)) {
      if (!farewell_) listener_.metrics.stats.add(FrontendStat::kTimedOut);
      return close();
    }
    if (!midway && now - active_ > kIdle) give_back(0);
    if (loop_.draining && !loop_.listening) look_after_in_drain(now, midway);
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    if (session_) {
      admission().leave(*this);
      listener_.metrics.stats.add(FrontendStat::kClosed);
    } else {
      --listener_.sent_away;
    }
    poll_for(EPOLL_CTL_DEL, 0);
    shutdown(socket_, SHUT_RDWR);
    loop_.gone.push_back(std::move(*self_));
    loop_.connections.erase(self_);
  }

 private:
  [[nodiscard]] Admission& admission() { return listener_.admission; }

  void begin(std::list<std::shared_ptr<Connection>>::iterator self) {
    self_ = self;
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (session_) listener_.metrics.stats.add(FrontendStat::kOpened);
    active_ = began_ = loop_.clock.now().mono;
    poll_for(EPOLL_CTL_ADD, EPOLLIN);
  }

  [[nodiscard]] Nanos allowed(bool midway) const {
    if (midway) return loop_.limits.request;
    return received_ ? loop_.limits.silence : loop_.limits.first_byte;
  }

  void look_after_in_drain(MonoTime now, bool midway) {
    if (now >= loop_.drained_at) return midway ? close() : say_farewell();
    if (midway) return;
    const bool quiet = now - active_ > kQuiet;
    if (loop_.how == Drain::kPatient) {
      // It was answered since: what it asks next it asks elsewhere.
      if (quiet && active_ >= loop_.listens_until) say_farewell();
    } else if (quiet || now - loop_.listens_until > kPatience) {
      say_farewell();
    }
  }

  void poll_for(int operation, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = this;
    epoll_ctl(loop_.poll.native_handle(), operation, socket_, &event);
  }

  void read() {
    if (farewell_) return discard();
    // What does not fit is read in the next turn; a session ends what fills all it may fill.
    const size_t fits = session_->most_unread() - std::min(in_.size(), session_->most_unread());
    const size_t wanted = std::min(want_, fits);
    if (wanted == 0) return close();
    if (const size_t grown = in_.capacity_with(wanted); grown != in_.capacity()) {
      if (!admission().may_hold(*this, grown + out_.capacity())) return refuse(Refusal::kMemory);
    }
    std::span<char> room = in_.room(wanted);
    room = room.first(std::min(room.size(), fits));
    const ssize_t got = recv(socket_, room.data(), room.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return close();
    const auto count = static_cast<size_t>(got);
    received_ = true;
    if (count == room.size()) want_ = std::min(2 * want_, kMostRead);
    const Instant now = loop_.clock.now();
    if (in_.empty()) began_ = now.mono;
    active_ = now.mono;
    in_.wrote(count);
    serve(now);
    account();
  }

  // What is said after the last answer is not heard.
  void discard() {
    std::array<char, 4096> ignored;
    const ssize_t got = recv(socket_, ignored.data(), ignored.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close();
  }

  void serve(Instant now) {
    do {
      const size_t before = in_.size();
      next_ = session_->take(now, in_, out_);
      // Something was answered: what is left is a new request.
      if (in_.size() != before) {
        began_ = now.mono;
        admission().touch(*this);
      }
      if (next_ == Next::kRead) break;
      if (next_ == Next::kDelay) return begin_delay(now.mono);
      waiting_ = next_ == Next::kWait;
      if (!send()) return;  // goes on when it is sent
    } while (next_ == Next::kAgain);
    if (waiting_) return poll_for(EPOLL_CTL_MOD, 0);
    if (next_ == Next::kClose) return say_farewell();
    // Sent when all that are ready have been read: the system's code for reading and that
    // for writing each stay in the cache then.
    if (!out_.empty()) loop_.unsent.push_back(this);
  }

  // The memory it holds has changed, or what it may hold.
  void account() {
    if (closed_ || !session_) return;
    if (session_->standing() != standing()) admission().promote(*this, session_->standing());
    if (admission().is_short()) give_back(kKeptWhenShort);
    const size_t held = in_.capacity() + out_.capacity() + session_->kept_bytes();
    if (held == bytes()) return;
    const bool fits = admission().may_hold(*this, held);
    admission().hold(*this, held);
    // Answers that are not fetched.
    if (!fits && !out_.empty()) {
      listener_.metrics.stats.add(FrontendStat::kRefusedMemory);
      close();
    }
  }

  void give_back(size_t most) {
    in_.shrink(most);
    out_.shrink(most);
    if (session_) admission().hold(*this, in_.capacity() + out_.capacity());
  }

  // A request for which there is no memory. Whoever has answers outstanding hears nothing.
  void refuse(Refusal why) {
    listener_.metrics.stats.add(stat_of(why));
    if (!out_.empty()) return close();
    out_.append(listener_.refusal_text(why));
    next_ = Next::kClose;
    if (send()) say_farewell();
  }

  // A wrong key was shown. Its answer is kept back for a while, and nothing is read meanwhile.
  void begin_delay(MonoTime now) {
    delayed_ = true;
    delay_began_ = now;
    poll_for(EPOLL_CTL_MOD, 0);
  }

  void end_delay() {
    delayed_ = false;
    const Instant now = loop_.clock.now();
    active_ = began_ = now.mono;
    next_ = Next::kAgain;
    poll_for(EPOLL_CTL_MOD, EPOLLIN);
    if (!send()) return;
    serve(now);
    account();
    loop_.end_turn();
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
    return true;
  }

  // There is room to write again. Nothing was read meanwhile.
  void send_on() {
    const Instant now = loop_.clock.now();
    active_ = began_ = now.mono;
    if (!send()) return;
    writing_ = false;
    poll_for(EPOLL_CTL_MOD, waiting_ ? 0 : uint32_t{EPOLLIN});
    if (next_ == Next::kAgain) {
      serve(now);
      return account();
    }
    if (next_ == Next::kClose || !session_) return say_farewell();
    account();
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
      account();
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
    give_back(0);
    shutdown(socket_, SHUT_WR);
  }

  Inside& loop_;
  Listener& listener_;
  const int socket_;
  std::unique_ptr<Session> session_;  // none: it is sent away
  std::list<std::shared_ptr<Connection>>::iterator self_;
  Bytes in_, out_;
  size_t want_ = kLeastRead;
  Next next_ = Next::kRead;
  MonoTime active_{};  // when something was last heard or sent
  MonoTime began_{};   // when the request or answer under way began
  MonoTime delay_began_{};
  bool received_ = false;  // a byte
  bool writing_ = false;
  bool waiting_ = false;  // for the session
  bool delayed_ = false;  // the answer to a wrong key
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
    if (!error && listener.acceptor.is_open()) accept(listener, kAcceptedAtOnce);
  });
}

void Loop::Inside::accept(Listener& listener, int most) {
  for (int i = 0; i < most; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int socket =
        accept4(listener.acceptor.native_handle(), reinterpret_cast<sockaddr*>(&from), &size,
                SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      if (close_a_stranger()) continue;
      // They wait in the system's queue until someone has left.
      auto later = std::make_shared<asio::steady_timer>(io, kTick);
      later->async_wait([this, &listener, later](const error_code& cancelled) {
        if (!cancelled && listener.acceptor.is_open()) await_connections(listener);
      });
      return;
    }
    if (socket < 0) break;
    admit(listener, socket, peer_of(from));
  }
  await_connections(listener);
}

void Loop::Inside::admit(Listener& listener, int socket, uint64_t peer) {
  while (const auto why = listener.admission.refusal(peer)) {
    if (Guest* const oldest = listener.admission.oldest_stranger(*why, peer)) {
      listener.metrics.stats.add(FrontendStat::kEvicted);
      static_cast<Connection*>(oldest)->close();
      continue;
    }
    listener.metrics.add_from(stat_of(*why), peer);
    const std::string_view text = listener.refusal_text(*why);
    if (listener.sent_away >= kMostSentAway) {
      (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
      ::close(socket);
      return;
    }
    connections.push_front(std::make_shared<Connection>(*this, listener, socket, nullptr));
    return connections.front()->send_away(connections.begin(), text);
  }
  connections.push_front(std::make_shared<Connection>(*this, listener, socket, listener.open()));
  connections.front()->start(connections.begin(), peer);
}

bool Loop::Inside::close_a_stranger() {
  for (Listener& listener : listeners) {
    Guest* const oldest = listener.admission.oldest_stranger();
    if (oldest == nullptr) continue;
    listener.metrics.stats.add(FrontendStat::kEvicted);
    static_cast<Connection*>(oldest)->close();
    gone.clear();  // or its descriptor would stay
    return true;
  }
  return false;
}

void Loop::Inside::look_after() {
  tick.expires_after(draining && !listening ? kDrainTick : kTick);
  tick.async_wait([this](const error_code& error) {
    if (error) return;
    const MonoTime now = clock.now().mono;
    if (draining && listening && now >= listens_until) stop_listening();
    for (auto i = connections.begin(); i != connections.end();) {
      const auto connection = *i++;  // which may close itself
      connection->look_after(now);
    }
    gone.clear();
    if (draining && !listening && connections.empty()) return io.stop();
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

void Loop::Inside::begin_drain(Drain which) {
  const MonoTime now = clock.now().mono;
  if (draining && (how == which || which == Drain::kPatient)) return;
  how = which;
  // Whoever loses patience waits for the delay no longer.
  if (!draining || listening) listens_until = now;
  if (how == Drain::kPatient) listens_until += limits.drain_delay;
  drained_at =
      std::max(listens_until, now) + (how == Drain::kPatient ? limits.drain : limits.drain_at_once);
  for (const auto& connection : connections) connection->drain();
  draining = true;
  if (listening && listens_until <= now) stop_listening();
  look_after();  // sooner than it was to be
}

void Loop::Inside::stop_listening() {
  listening = false;
  for (Listener& listener : listeners) {
    accept(listener, kBacklog);  // those that are connected already have asked, or will
    error_code ignored;
    listener.acceptor.close(ignored);
  }
}

Listener& Loop::Inside::add_listener(telemetry::FrontendMetrics& metrics, OpenSession open,
                                     RefusalText refusal_text) {
  return listeners.emplace_back(
      Listener{Acceptor(io), metrics, std::move(open), refusal_text, Admission(limits.admission)});
}

Loop::Loop(const Clock& clock, LoopLimits limits)
    : inside_(std::make_unique<Inside>(clock, limits)) {}
Loop::~Loop() = default;

Result<Address> Loop::listen(const Address& address, telemetry::FrontendMetrics& metrics,
                             OpenSession open, RefusalText refusal_text) {
  Listener& listener = inside_->add_listener(metrics, std::move(open), refusal_text);
  const error_code error = open_at(listener.acceptor, address, true);
  if (error) return unavailable(address, error);
  inside_->await_connections(listener);
  return Address{.host = address.host,
                 .port = local_address(listener.acceptor.native_handle()).port};
}

std::unique_ptr<Error> Loop::listen(const UnixSocket& socket, telemetry::FrontendMetrics& metrics,
                                    OpenSession open, RefusalText refusal_text) {
  Result<int> descriptor = socket.duplicate();
  if (!descriptor) return std::make_unique<Error>(descriptor.error());
  Listener& listener = inside_->add_listener(metrics, std::move(open), refusal_text);
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

void Loop::drain(Drain how) {
  asio::post(inside_->io, [inside = inside_.get(), how] { inside->begin_drain(how); });
}

void Loop::cut() {
  asio::post(inside_->io, [inside = inside_.get()] {
    while (!inside->connections.empty()) {
      const auto connection = inside->connections.front();
      connection->cut();
    }
    inside->io.stop();
  });
}

}  // namespace weir::frontends

#include "frontends/loop.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "frontends/connection.h"
#include "frontends/peer.h"

namespace weir::frontends {
namespace {

constexpr int kAcceptBatch = 64;  // then existing connections are served
constexpr auto kTick = std::chrono::milliseconds(250);
constexpr auto kDrainTick = std::chrono::milliseconds(20);
constexpr size_t kMaxRejected = 64;  // rejected connections that wait for the peer to close

}  // namespace

void Loop::Core::wait() {
  poll.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error) return;
    serve_ready();
    wait();
  });
}

void Loop::Core::serve_ready() {
  std::array<epoll_event, 256> events;
  const int count =
      epoll_wait(poll.native_handle(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) static_cast<Connection*>(events[i].data.ptr)->ready();
  end_iteration();
}

void Loop::Core::end_iteration() {
  for (Connection* connection : unsent) connection->flush();
  unsent.clear();
  closed.clear();
}

void Loop::Core::await_connections(Listener& listener) {
  listener.acceptor.async_wait(Acceptor::wait_read, [this, &listener](const error_code& error) {
    if (!error && listener.acceptor.is_open()) accept(listener, kAcceptBatch);
  });
}

void Loop::Core::accept(Listener& listener, int limit) {
  for (int i = 0; i < limit; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int socket =
        accept4(listener.acceptor.native_handle(), reinterpret_cast<sockaddr*>(&from), &size,
                SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      if (evict_one()) continue;
      // They stay in the kernel's queue until a connection closes.
      auto later = std::make_shared<asio::steady_timer>(io, kTick);
      later->async_wait([this, &listener, later](const error_code& cancelled) {
        if (!cancelled && listener.acceptor.is_open()) await_connections(listener);
      });
      return;
    }
    if (socket < 0) break;
    admit(listener, socket, from);
  }
  await_connections(listener);
}

void Loop::Core::admit(Listener& listener, int socket, const sockaddr_storage& from) {
  const uint64_t peer = peer_of(from);
  while (!have_room(kConnectionBytes)) {
    Listener* of = nullptr;
    AdmissionEntry* const oldest = to_evict_for_bytes(of);
    if (oldest == nullptr) break;
    of->metrics.stats.add(FrontendStat::kEvicted);
    static_cast<Connection*>(oldest)->close();
  }
  while (const auto reason = listener.admission.refusal(peer)) {
    if (AdmissionEntry* const least = listener.admission.to_evict(*reason, peer)) {
      listener.metrics.stats.add(FrontendStat::kEvicted);
      static_cast<Connection*>(least)->close();
      continue;
    }
    listener.metrics.add_from(stat_of(*reason), peer);
    if (listener.tls != nullptr) {  // a text would need a handshake first
      ::close(socket);
      return;
    }
    const std::string_view text = listener.refusal_text(*reason);
    if (listener.rejected >= kMaxRejected) {
      (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
      ::close(socket);
      return;
    }
    connections.push_front(std::make_shared<Connection>(*this, listener, socket, nullptr));
    return connections.front()->reject(connections.begin(), text);
  }
  connections.push_front(std::make_shared<Connection>(*this, listener, socket, listener.open()));
  connections.front()->start(connections.begin(), from);
}

bool Loop::Core::have_room(size_t more) const {
  for (const Listener& each : listeners) more += each.admission.unauthenticated_bytes();
  return more <= limits.unauthenticated_bytes;
}

AdmissionEntry* Loop::Core::to_evict_for_bytes(Listener*& of) {
  of = &*std::ranges::max_element(
      listeners, {}, [](const Listener& each) { return each.admission.unauthenticated_bytes(); });
  AdmissionEntry* const holder = of->admission.oldest_with_bytes();
  return holder != nullptr ? holder : of->admission.oldest_unauthenticated();
}

bool Loop::Core::evict_one() {
  Listener* most = nullptr;
  for (Listener& each : listeners) {
    if (each.admission.to_evict() == nullptr) continue;
    if (most == nullptr || each.admission.connections() > most->admission.connections()) {
      most = &each;
    }
  }
  if (most == nullptr) return false;
  most->metrics.stats.add(FrontendStat::kEvicted);
  static_cast<Connection*>(most->admission.to_evict())->close();
  closed.clear();  // closes its descriptor now
  return true;
}

void Loop::Core::check_connections() {
  tick.expires_after(draining && !listening ? kDrainTick : kTick);
  tick.async_wait([this](const error_code& error) {
    if (error) return;
    const MonoTime now = clock.now().mono;
    if (draining && listening && now >= listens_until) stop_listening();
    for (auto i = connections.begin(); i != connections.end();) {
      const auto connection = *i++;  // it may close itself
      connection->check_timeouts(now);
    }
    closed.clear();
    if (draining && !listening && connections.empty()) return io.stop();
    check_connections();
  });
}

void Loop::Core::schedule(size_t index) {
  periodic_tasks[index].timer.expires_after(periodic_tasks[index].period);
  periodic_tasks[index].timer.async_wait([this, index](const error_code& error) {
    if (error) return;
    periodic_tasks[index].task();
    schedule(index);
  });
}

void Loop::Core::begin_drain(Drain index) {
  const MonoTime now = clock.now().mono;
  if (draining && (how == index || index == Drain::kGraceful)) return;
  how = index;
  // An immediate drain that follows a graceful one skips the rest of the delay.
  if (!draining || listening) listens_until = now;
  if (how == Drain::kGraceful) listens_until += limits.drain_delay;
  drain_deadline = std::max(listens_until, now) +
                   (how == Drain::kGraceful ? limits.drain : limits.drain_immediate);
  for (const auto& connection : connections) connection->drain();
  draining = true;
  if (listening && listens_until <= now) stop_listening();
  check_connections();  // with the shorter period
}

void Loop::Core::stop_listening() {
  listening = false;
  for (Listener& listener : listeners) {
    accept(listener, kBacklog);  // connections in the queue may have sent a request
    error_code ignored;
    listener.acceptor.close(ignored);
  }
}

Listener& Loop::Core::add_listener(telemetry::FrontendMetrics& metrics, OpenSession open,
                                   RefusalText refusal_text) {
  return listeners.emplace_back(
      Listener{Acceptor(io), metrics, std::move(open), refusal_text, Admission(limits.admission)});
}

Loop::Loop(const Clock& clock, LoopLimits limits) : core_(std::make_unique<Core>(clock, limits)) {}
Loop::~Loop() = default;

Result<Address> Loop::listen(const Address& address, telemetry::FrontendMetrics& metrics,
                             OpenSession open, RefusalText refusal_text, const TlsContext* tls) {
  Listener& listener = core_->add_listener(metrics, std::move(open), refusal_text);
  listener.tls = tls;
  const error_code error = open_at(listener.acceptor, address, SharePort::kYes);
  if (error) return cannot_listen(address, error);
  core_->await_connections(listener);
  return Address{.host = address.host,
                 .port = local_address(listener.acceptor.native_handle()).port};
}

std::unique_ptr<Error> Loop::listen(const UnixSocket& socket, telemetry::FrontendMetrics& metrics,
                                    OpenSession open, RefusalText refusal_text) {
  Result<int> descriptor = socket.duplicate();
  if (!descriptor) return std::make_unique<Error>(descriptor.error());
  Listener& listener = core_->add_listener(metrics, std::move(open), refusal_text);
  listener.acceptor.assign({AF_UNIX, 0}, *descriptor);
  core_->await_connections(listener);
  return nullptr;
}

Executor& Loop::executor() {
  return core_->executor;
}

void Loop::run_every(Millis period, Task task) {
  core_->periodic_tasks.push_back({asio::steady_timer(core_->io), period, std::move(task)});
  core_->schedule(core_->periodic_tasks.size() - 1);
}

void Loop::run() {
  core_->wait();
  core_->check_connections();
  core_->io.run();
  core_->connections.clear();
}

void Loop::drain(Drain how) {
  asio::post(core_->io, [core = core_.get(), how] { core->begin_drain(how); });
}

void Loop::abort() {
  asio::post(core_->io, [core = core_.get()] {
    while (!core->connections.empty()) {
      const auto connection = core->connections.front();
      connection->abort();
    }
    core->io.stop();
  });
}

}  // namespace weir::frontends

// The state of a loop. Internal to loop.cc.
//
// Connections have an epoll instance of their own, and the loop waits for that as for one
// descriptor. So one wait serves all connections that are ready, and a connection costs one read
// and one write per iteration. Waiting for each connection through the io_context would add a
// system call per connection.

#pragma once

#include <sys/epoll.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <list>
#include <vector>

#include "frontends/loop.h"
#include "frontends/loop_executor.h"
#include "frontends/tls_context.h"

namespace weir::frontends {

namespace asio = boost::asio;
using boost::system::error_code;
using telemetry::FrontendStat;

// Of TCP and Unix sockets.
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

struct Listener {
  Acceptor acceptor;
  telemetry::FrontendMetrics& metrics;
  Loop::OpenSession open;
  Loop::RefusalText refusal_text;
  Admission admission;
  const TlsContext* tls = nullptr;  // null: no TLS
  size_t rejected = 0;              // connections that are still open
};

inline FrontendStat stat_of(Refusal reason) {
  switch (reason) {
    case Refusal::kConnections: return FrontendStat::kRefused;
    case Refusal::kAddress: return FrontendStat::kRefusedAddress;
    case Refusal::kMemory: break;
  }
  return FrontendStat::kRefusedMemory;
}

inline FrontendStat stat_of(TlsFailure failure) {
  switch (failure) {
    case TlsFailure::kNotTls: return FrontendStat::kTlsNotTls;
    case TlsFailure::kCertificate: return FrontendStat::kTlsCertificate;
    case TlsFailure::kClosed:
    case TlsFailure::kOther: break;
  }
  return FrontendStat::kTlsOther;
}

struct Loop::Core {
  Core(const Clock& the_clock, LoopLimits the_limits)
      : clock(the_clock),
        limits(the_limits),
        io(1),
        executor(io, the_clock),
        tick(io),
        poll(io, epoll_create1(EPOLL_CLOEXEC)) {}

  void wait();
  void serve_ready();
  void end_iteration();
  Listener& add_listener(telemetry::FrontendMetrics& metrics, OpenSession open,
                         RefusalText refusal_text);
  void await_connections(Listener& listener);
  void accept(Listener& listener, int limit);
  void admit(Listener& listener, int socket, const sockaddr_storage& from);
  // Whether unauthenticated connections may hold this many more bytes.
  [[nodiscard]] bool have_room(size_t more) const;
  // The oldest unauthenticated connection of the front end whose unauthenticated connections hold
  // most; null: there is none.
  [[nodiscard]] AdmissionEntry* to_evict_for_bytes(Listener*& of);
  // Closes the first to evict of the front end with most connections; false: there is none.
  bool evict_one();
  void check_connections();
  void schedule(size_t index);
  void begin_drain(Drain how);
  void stop_listening();

  const Clock& clock;
  const LoopLimits limits;
  asio::io_context io;
  LoopExecutor executor;
  asio::steady_timer tick;
  asio::posix::stream_descriptor poll;
  struct PeriodicTask {
    asio::steady_timer timer;
    Millis period;
    Task task;
  };
  std::list<Listener> listeners;
  std::deque<PeriodicTask> periodic_tasks;
  std::list<std::shared_ptr<Connection>> connections;
  std::vector<Connection*> unsent;  // have responses of this iteration to send
  std::vector<std::shared_ptr<Connection>>
      closed;  // events of this iteration may still point at them
  bool draining = false;
  bool listening = true;
  Drain how = Drain::kGraceful;
  MonoTime listens_until{};   // during a drain
  MonoTime drain_deadline{};  // closes what is still open then
};

}  // namespace weir::frontends

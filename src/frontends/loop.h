// The event loop of one thread: accepts, reads, calls sessions, writes.
//
// Every loop has its own listening sockets on the same addresses, and the kernel spreads
// connections over them, so loops share no state. A connection buffers at most one incomplete
// request and the responses of one read; its next bytes are read after those are sent. Idle time,
// request time, connections and bytes are bounded per front end (admission.h), and the memory of
// unauthenticated connections for all front ends together.
//
// Runs on the thread that calls run(). drain() and abort() are safe from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "frontends/address.h"
#include "frontends/admission.h"
#include "frontends/session.h"
#include "frontends/unix_socket.h"
#include "telemetry/frontend_metrics.h"
#include "weir/clock.h"
#include "weir/error.h"
#include "weir/executor.h"

namespace weir::frontends {

struct LoopLimits {
  AdmissionLimits admission{};  // of each front end
  // Memory of unauthenticated connections of all front ends together. At the limit the oldest of
  // the front end that holds most are closed for new ones.
  size_t unauthenticated_bytes = size_t{64} << 20;
  // From connect to the first byte. Shorter: connections that clients open in advance are closed.
  // Longer: connections that never send a byte stay open longer.
  Millis first_byte{10'000};
  // From the first byte of a request to its last, and for sending a response. Shorter: slow
  // clients are disconnected. Longer: each slow client holds a connection and its buffers longer.
  Millis request{10'000};
  // Between two requests.
  Millis idle{300'000};
  // An idle connection of a client with a key is not closed for others for this long. Shorter:
  // clients that pause connect again when there are too many. Longer: a key keeps places that it
  // does not use.
  Millis protected_idle{1'000};
  // Delay of the response to a wrong key, rounded up to a quarter of a second.
  Millis wrong_key_delay{1'000};
  // A graceful drain accepts connections for this long.
  Millis drain_delay{0};
  // After that, open connections are closed.
  Millis drain{5'000};
  // The same in an immediate drain, for requests that were already sent.
  Millis drain_immediate{5'000};
};

// How a drain treats connections that are idle since it began.
enum class Drain : uint8_t {
  kGraceful,   // they may send one more request until the deadline
  kImmediate,  // they are closed
};

class TlsContext;

class Loop {
 public:
  using OpenSession = std::function<std::unique_ptr<Session>()>;
  // The text for a refused client, in its protocol.
  using RefusalText = std::string_view (*)(Refusal reason);

  Loop(const Clock& clock, LoopLimits limits);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Before run(). Returns the address with the port that the system chose. With `tls`, which must
  // outlive the loop, all connections use TLS.
  [[nodiscard]] Result<Address> listen(const Address& address, telemetry::FrontendMetrics& metrics,
                                       OpenSession open, RefusalText refusal_text,
                                       const TlsContext* tls = nullptr);
  // The same at a Unix socket, which must outlive the loop.
  [[nodiscard]] std::unique_ptr<Error> listen(const UnixSocket& socket,
                                              telemetry::FrontendMetrics& metrics, OpenSession open,
                                              RefusalText refusal_text);

  // Runs tasks on this loop; safe from any thread.
  [[nodiscard]] Executor& executor();

  // Runs `task` on this loop once per period. Before run().
  void run_every(Millis period, Task task);

  // Serves until drained or aborted.
  void run();

  // Stops accepting, answers the requests that were sent, closes the connections.
  void drain(Drain how);

  // Closes all connections at once; run() returns.
  void abort();

 private:
  struct Core;
  class Connection;
  std::unique_ptr<Core> core_;
};

}  // namespace weir::frontends

// One thread's share of the network: listens, reads, hands bytes to sessions, writes.
//
// Every loop has listeners of its own on the same addresses, and the system spreads
// connections over them, so loops share nothing. A connection holds at most one request
// that has not arrived whole and the answers of one read: what it says next is read when
// these are sent. Silence, slowness and numbers are bounded.
//
// Lives on the thread that calls run(); drain() may be called from any.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "frontends/address.h"
#include "frontends/session.h"
#include "frontends/unix_socket.h"
#include "telemetry/door_metrics.h"
#include "weir/clock.h"
#include "weir/error.h"
#include "weir/executor.h"

namespace weir::frontends {

struct LoopLimits {
  size_t connections = 10'000;
  // From the first byte of a request to its last, and for sending an answer. Shorter: slow
  // clients are cut off. Longer: each may hold a connection and its buffers for that long.
  Millis request{10'000};
  // Between two requests.
  Millis silence{300'000};
  // For a drain, until what is still open is closed.
  Millis drain{5'000};
};

class Loop {
 public:
  using OpenSession = std::function<std::unique_ptr<Session>()>;

  Loop(const Clock& clock, LoopLimits limits);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Before run(). Returns the address with the port that it got.
  [[nodiscard]] Result<Address> listen(const Address& address, telemetry::DoorMetrics& metrics,
                                       OpenSession open);
  // The same at a Unix socket, which outlives the loop.
  [[nodiscard]] std::unique_ptr<Error> listen(const UnixSocket& socket,
                                              telemetry::DoorMetrics& metrics, OpenSession open);

  // Work on this loop, from any thread.
  [[nodiscard]] Executor& executor();

  // Runs `task` on this loop again and again. Before run().
  void every(Millis period, Task task);

  // Serves until drained.
  void run();

  // Stops listening, answers what has been asked, closes.
  void drain();

 private:
  struct Inside;
  class Connection;
  std::unique_ptr<Inside> inside_;
};

// An error if someone else listens there: loops share addresses with each other only.
[[nodiscard]] std::unique_ptr<Error> taken(const Address& address);

}  // namespace weir::frontends

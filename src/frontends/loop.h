// One thread's share of the network: listens, reads, hands bytes to sessions, writes.
//
// Every loop has listeners of its own on the same addresses, and the system spreads
// connections over them, so loops share nothing. A connection holds at most one request
// that has not arrived whole and the answers of one read: what it says next is read when
// these are sent. Silence, slowness, numbers and bytes are bounded, for each front end alone
// (admission.h).
//
// Lives on the thread that calls run(); drain() and cut() may be called from any.

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
  // From connecting to the first byte. Shorter: clients that connect ahead are cut off. Longer:
  // connections that never say anything stay for that long.
  Millis first_byte{10'000};
  // From the first byte of a request to its last, and for sending an answer. Shorter: slow
  // clients are cut off. Longer: each may hold a connection and its buffers for that long.
  Millis request{10'000};
  // Between two requests.
  Millis silence{300'000};
  // Until a wrong key is answered, rounded up to a quarter of a second.
  Millis wrong_key{1'000};
  // How long connections are still accepted in a patient drain.
  Millis drain_delay{0};
  // After that, until what is still open is closed.
  Millis drain{5'000};
  // The same in a drain at once, for what has been asked already.
  Millis drain_at_once{5'000};
};

// What a drain does with connections that have asked for nothing since it began.
enum class Drain : uint8_t {
  kPatient,  // they may ask once more, until the time is over
  kAtOnce,   // they are closed
};

class Loop {
 public:
  using OpenSession = std::function<std::unique_ptr<Session>()>;
  // What a client hears that is sent away, in the words of its protocol.
  using RefusalText = std::string_view (*)(Refusal why);

  Loop(const Clock& clock, LoopLimits limits);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Before run(). Returns the address with the port that it got.
  [[nodiscard]] Result<Address> listen(const Address& address, telemetry::FrontendMetrics& metrics,
                                       OpenSession open, RefusalText refusal_text);
  // The same at a Unix socket, which outlives the loop.
  [[nodiscard]] std::unique_ptr<Error> listen(const UnixSocket& socket,
                                              telemetry::FrontendMetrics& metrics, OpenSession open,
                                              RefusalText refusal_text);

  // Work on this loop, from any thread.
  [[nodiscard]] Executor& executor();

  // Runs `task` on this loop again and again. Before run().
  void every(Millis period, Task task);

  // Serves until drained.
  void run();

  // Answers end with the next one; then stops listening, answers what has been asked, closes.
  void drain(Drain how);

  // Closes everything at once; run() returns.
  void cut();

 private:
  struct Inside;
  class Connection;
  std::unique_ptr<Inside> inside_;
};

// An error if someone else listens there: loops share addresses with each other only.
[[nodiscard]] std::unique_ptr<Error> taken(const Address& address);

}  // namespace weir::frontends

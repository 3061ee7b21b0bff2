// One connection's side of a protocol, without the connection: bytes in, bytes out. So it
// can be tested, fuzzed and priced without a socket.

#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "frontends/address.h"
#include "frontends/bytes.h"
#include "weir/executor.h"
#include "weir/time.h"

namespace weir::frontends {

enum class Next : uint8_t {
  kRead,   // all complete requests are answered
  kAgain,  // there are more, but enough answers to be sent first
  kClose,  // send the answers, then close
  kWait,   // for a store; wakes who carries its bytes, and is asked again then
};

// Lives on its loop.
class Session {
 public:
  virtual ~Session() = default;

  // Where it lives, and what to call when it can go on after kWait; before the first take().
  // A session without a home never waits.
  void settle(Executor& home, Task wake) {
    home_ = &home;
    wake_ = std::make_shared<const Task>(std::move(wake));
  }

  // Where the other side has reached this one.
  void reached_at(std::function<Address()> local) { local_ = std::move(local); }

  // Answers what is complete in `in`, in order, into `out`. Between kWait and the next
  // take() `in` does not change.
  [[nodiscard]] virtual Next take(Instant now, Bytes& in, Bytes& out) = 0;

  // Answers end with the one under way, if the protocol can say so.
  virtual void drain() {}

 protected:
  // Port 0: not by an IP address.
  [[nodiscard]] Address local() const { return local_ ? local_() : Address{}; }

  Executor* home_ = nullptr;
  std::shared_ptr<const Task> wake_;

 private:
  std::function<Address()> local_;
};

// Answers that may wait to be sent before more requests are taken.
inline constexpr size_t kMaxUnsent = size_t{256} << 10;

}  // namespace weir::frontends

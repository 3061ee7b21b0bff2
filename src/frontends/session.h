// One connection's side of a protocol, without the connection: bytes in, bytes out. So it
// can be tested, fuzzed and priced without a socket.

#pragma once

#include "frontends/bytes.h"
#include "weir/time.h"

namespace weir::frontends {

enum class Next : uint8_t {
  kRead,   // all complete requests are answered
  kAgain,  // there are more, but enough answers to be sent first
  kClose,  // send the answers, then close
};

// Lives on its loop.
class Session {
 public:
  virtual ~Session() = default;

  // Answers what is complete in `in`, in order, into `out`.
  [[nodiscard]] virtual Next take(Instant now, Bytes& in, Bytes& out) = 0;

  // Answers end with the one under way, if the protocol can say so.
  virtual void drain() {}
};

// Answers that may wait to be sent before more requests are taken.
inline constexpr size_t kMaxUnsent = size_t{256} << 10;

}  // namespace weir::frontends

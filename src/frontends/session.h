// One connection's side of a protocol, without the connection: bytes in, bytes out. So it
// can be tested, fuzzed and priced without a socket.

#pragma once

#include <cstddef>
#include <cstdint>
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
  kDelay,  // the last answer refuses a wrong key: send it after a while, then ask again
};

// What is known of the client of a connection.
enum class Standing : uint8_t {
  kStranger,  // nothing, or it asked for nothing that needs a key
  kServed,    // it was served where no key is wanted
  kKeyed,     // it has shown a key
};

// Bytes of requests that a connection may hold: above anything a session waits for, a request's
// head, its body, and chunks around it.
inline constexpr size_t kMaxUnread = size_t{4} << 20;
// Answers that may wait to be sent before more requests are taken.
inline constexpr size_t kMaxUnsent = size_t{256} << 10;
// Both, for a client that has not shown the key it must show. Enough for the head of a request.
inline constexpr size_t kMaxStrangerBytes = size_t{16} << 10;

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

  // The address of the client, for who counts and logs its mistakes; see peer.h.
  void set_peer(uint64_t peer) { peer_ = peer; }

  // Bytes that it keeps beside `in` and `out`.
  [[nodiscard]] virtual size_t kept_bytes() const { return 0; }
  [[nodiscard]] Standing standing() const { return standing_; }
  // Bytes that may be in `in`. A take() that consumes nothing of as many ends with kClose.
  [[nodiscard]] size_t most_unread() const { return most_unread_; }

 protected:
  // What it may hold: a little before it has shown the key that it must show.
  void allow(bool much) {
    most_unread_ = much ? kMaxUnread : kMaxStrangerBytes;
    most_unsent_ = much ? kMaxUnsent : kMaxStrangerBytes;
  }
  // Port 0: not by an IP address.
  [[nodiscard]] Address local() const { return local_ ? local_() : Address{}; }

  Executor* home_ = nullptr;
  std::shared_ptr<const Task> wake_;
  uint64_t peer_ = 0;
  Standing standing_ = Standing::kStranger;
  size_t most_unread_ = kMaxUnread;
  size_t most_unsent_ = kMaxUnsent;

 private:
  std::function<Address()> local_;
};

}  // namespace weir::frontends

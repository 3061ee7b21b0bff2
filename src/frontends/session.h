// The protocol logic of one connection, without a socket: bytes in, bytes out. So tests, fuzzers
// and benchmarks run it alone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "frontends/address.h"
#include "frontends/bytes.h"
#include "frontends/client_address.h"
#include "weir/executor.h"
#include "weir/time.h"

namespace weir::frontends {

enum class Next : uint8_t {
  kRead,   // all complete requests are answered
  kAgain,  // more requests are complete: send the responses, then call again
  kClose,  // send the responses, then close
  kWait,   // waits for a store; calls `wake` when process() can continue
  kDelay,  // the last response refuses a wrong key: send it after a delay, then call again
};

// How far the client of a connection is trusted with places and memory.
enum class Trust : uint8_t {
  kUnauthenticated,  // no valid key yet, and no request served that needs none
  kServed,           // served where no key is required
  kAuthenticated,    // has sent a valid key
  kRoot,             // has sent the root key
};

// Who the client of a connection is. Numbers of its key and of that key's workspace; of no key and
// of the root key they are 0.
struct Client {
  Trust trust = Trust::kUnauthenticated;
  uint64_t key = 0;
  uint64_t workspace = 0;
  friend bool operator==(const Client&, const Client&) = default;
};

// Request bytes that a connection may buffer: more than the largest head, body and chunk overhead.
inline constexpr size_t kMaxUnread = size_t{4} << 20;
// Unsent response bytes above which no further request is processed.
inline constexpr size_t kMaxUnsent = size_t{256} << 10;
// Both limits for a client that must send a key and has not. Enough for the head of a request.
inline constexpr size_t kMaxUnauthenticatedBytes = size_t{16} << 10;

// Runs on its loop's thread.
class Session {
 public:
  virtual ~Session() = default;

  // Sets the executor of its loop, and the task to call when it can continue after kWait. Before
  // the first process(). A session without an executor never waits.
  void bind(Executor& executor, Task wake) {
    executor_ = &executor;
    wake_ = std::make_shared<const Task>(std::move(wake));
  }

  // Sets the function that returns the local address of the connection.
  void set_local_address(std::function<Address()> local) { local_ = std::move(local); }

  // Answers the complete requests in `in`, in order, into `out`. Between kWait and the next call
  // `in` does not change.
  [[nodiscard]] virtual Next process(Instant now, Bytes& in, Bytes& out) = 0;

  // The next response is the last, if the protocol can announce that.
  virtual void drain() {}

  // The client's address for metrics and the log; see peer.h.
  void set_peer(uint64_t peer) { peer_ = peer; }
  // The whole address; nullopt: the client is at a Unix socket.
  void set_peer_address(const std::optional<IpAddress>& address) { peer_address_ = address; }

  // Bytes that it buffers besides `in` and `out`.
  [[nodiscard]] virtual size_t buffered_bytes() const { return 0; }
  [[nodiscard]] const Client& client() const { return client_; }
  [[nodiscard]] Trust trust() const { return client_.trust; }
  // The limit of bytes in `in`. A process() that consumes nothing of so many returns kClose.
  [[nodiscard]] size_t max_unread() const { return max_unread_; }

 protected:
  enum class Buffers : uint8_t { kUnauthenticated, kFull };
  void set_buffers(Buffers buffers) {
    const bool full = buffers == Buffers::kFull;
    max_unread_ = full ? kMaxUnread : kMaxUnauthenticatedBytes;
    max_unsent_ = full ? kMaxUnsent : kMaxUnauthenticatedBytes;
  }
  // Port 0: not an IP connection.
  [[nodiscard]] Address local() const { return local_ ? local_() : Address{}; }

  Executor* executor_ = nullptr;
  std::shared_ptr<const Task> wake_;
  uint64_t peer_ = 0;
  std::optional<IpAddress> peer_address_{};
  Client client_{};
  size_t max_unread_ = kMaxUnread;
  size_t max_unsent_ = kMaxUnsent;

 private:
  std::function<Address()> local_;
};

}  // namespace weir::frontends

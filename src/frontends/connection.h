// One connection of a loop: reads, calls its session, writes, and closes. Internal to loop.cc.
//
// At most one request that has not arrived completely is buffered. Nothing is read while responses
// are unsent, while the session waits for a store, or while the response to a wrong key is delayed.
//
// With TLS the socket is polled for writing also while tls_->has_more(): a socket that can be
// written to is reported at once, and ready() reads the bytes that OpenSSL has buffered.

#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "frontends/listening.h"
#include "frontends/loop_core.h"
#include "frontends/peer.h"
#include "frontends/tls_context.h"
#include "frontends/tls_stream.h"

namespace weir::frontends {

inline constexpr size_t kMinRead = 4096;
inline constexpr size_t kMaxRead = 64 << 10;
inline constexpr size_t kMinAnswer = 4096;  // the first size of a buffer
// Empty buffers are freed after this time, or at once when memory is low.
inline constexpr Nanos kBufferIdle = std::chrono::milliseconds(1000);
inline constexpr size_t kKeptWhenLow = 4096;  // bytes
// In a drain, a connection is closed after it was quiet for kQuietTime. A connection that never is
// quiet is closed after kMaxDrainBusy, as soon as its requests are answered.
inline constexpr Nanos kQuietTime = std::chrono::milliseconds(100);
inline constexpr Nanos kMaxDrainBusy = std::chrono::milliseconds(1000);
inline constexpr Nanos kLinger = std::chrono::milliseconds(1000);  // for the peer to close

class Loop::Connection final : public AdmissionEntry,
                               public std::enable_shared_from_this<Connection> {
 public:
  Connection(Core& loop, Listener& listener, int socket, std::unique_ptr<Session> session)
      : loop_(loop), listener_(listener), socket_(socket), session_(std::move(session)) {}
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start(std::list<std::shared_ptr<Connection>>::iterator self, const sockaddr_storage& from) {
    const uint64_t peer = peer_of(from);
    peer_ = peer;
    handshaking_ = listener_.tls != nullptr;
    admission().add(*this, peer);
    begin(self);
    session_->set_peer(peer);
    session_->set_peer_address(ip_of(from));
    session_->set_local_address([socket = socket_] { return local_address(socket); });
    session_->bind(loop_.executor, [self = weak_from_this()] {
      if (const auto connection = self.lock()) connection->wake();
    });
    if (loop_.draining) session_->drain();
  }

  // Sends the reason of the refusal and closes. Such a connection has no session.
  void reject(std::list<std::shared_ptr<Connection>>::iterator self, std::string_view reason) {
    ++listener_.rejected;
    begin(self);
    out_.append(reason);
    if (send()) half_close();
  }

  // epoll reported the socket: it is readable or writable; while neither is polled for, the peer
  // has closed it.
  void ready() {
    if (closed_) return;
    if (handshaking_) return handshake();
    if (writing_) return resume_send();
    waiting_ || delayed_ ? close() : read();
  }

  void flush() {
    if (!closed_ && !writing_) (void)send();
    update_accounting();
  }

  void drain() {
    if (session_) session_->drain();
  }
  void abort() { close(); }

  // Closes the connection if it exceeds a time limit, or if it is done during a drain.
  void check_timeouts(MonoTime now) {
    if (delayed_ && now - delay_began_ >= loop_.limits.wrong_key_delay) return end_delay();
    const bool busy =
        half_closed_ || writing_ || waiting_ || delayed_ || tls_pending_ || !in_.empty();
    if (half_closed_ ? now - last_active_ > kLinger
                     : now - (busy ? began_ : last_active_) > allowed(busy)) {
      if (!half_closed_) listener_.metrics.stats.add(FrontendStat::kTimedOut);
      return close();
    }
    if (!busy && now - last_active_ > kBufferIdle) release_buffers(0);
    if (!busy && now - last_active_ > loop_.limits.protected_idle) admission().set_idle(*this);
    if (loop_.draining && !loop_.listening) check_drain(now, busy);
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    if (session_) {
      admission().remove(*this);
      listener_.metrics.stats.add(FrontendStat::kClosed);
    } else {
      --listener_.rejected;
    }
    poll_for(EPOLL_CTL_DEL, 0);
    shutdown(socket_, SHUT_RDWR);
    loop_.closed.push_back(std::move(*self_));
    loop_.connections.erase(self_);
  }

 private:
  [[nodiscard]] Admission& admission() { return listener_.admission; }

  void begin(std::list<std::shared_ptr<Connection>>::iterator self) {
    self_ = self;
    const int enabled = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof enabled);
    if (session_) listener_.metrics.stats.add(FrontendStat::kOpened);
    last_active_ = began_ = loop_.clock.now().mono;
    poll_for(EPOLL_CTL_ADD, EPOLLIN);
  }

  [[nodiscard]] Nanos allowed(bool busy) const {
    if (busy) return loop_.limits.request;
    return received_ ? loop_.limits.idle : loop_.limits.first_byte;
  }

  void check_drain(MonoTime now, bool busy) {
    if (now >= loop_.drain_deadline) return busy ? close() : half_close();
    if (busy) return;
    const bool quiet = now - last_active_ > kQuietTime;
    if (loop_.how == Drain::kGraceful) {
      // It got a response since the drain began: its next request goes to another server. A client
      // that has just ended its handshake got none yet.
      const bool served = received_ || listener_.tls == nullptr;
      if (quiet && served && last_active_ >= loop_.listens_until) half_close();
    } else if (quiet || now - loop_.listens_until > kMaxDrainBusy) {
      half_close();
    }
  }

  void poll_for(int operation, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = this;
    epoll_ctl(loop_.poll.native_handle(), operation, socket_, &event);
    polled_ = events;
  }
  void poll_instead(uint32_t events) {
    if (events != polled_) poll_for(EPOLL_CTL_MOD, events);
  }
  // The events to poll for before the next read.
  [[nodiscard]] uint32_t before_read() const {
    return tls_ && tls_->has_more() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  }
  // The events to poll for after a call of tls_ that must wait.
  [[nodiscard]] uint32_t tls_wait() const {
    return tls_->wait() == TlsStream::Wait::kReadable ? EPOLLIN : EPOLLOUT;
  }

  // Begins or continues the handshake. No memory is used for it before its first message has
  // arrived.
  void handshake() {
    const Instant now = loop_.clock.now();
    if (!tls_) {
      if (!first_record_.has_arrived(socket_)) {
        if (!tls_pending_) began_ = now.mono;
        tls_pending_ = true;
        return;
      }
      admission().touch(*this);
      if (!reserve(kTlsBytes + kTlsPendingBytes)) {
        listener_.metrics.stats.add(FrontendStat::kRefusedMemory);
        return close();
      }
      tls_ = listener_.tls->open(socket_);
      if (!tls_) return close();
      if (!tls_pending_) began_ = now.mono;
      tls_pending_ = true;
      admission().set_bytes(*this, held_bytes());
    }
    if (tls_->handshake() != 1) {
      return errno == EAGAIN ? poll_instead(tls_wait()) : fail_handshake();
    }
    handshaking_ = tls_pending_ = false;
    last_active_ = now.mono;
    poll_instead(EPOLLIN);
    if (tls_->has_more()) return read();
    update_accounting();
  }

  // Whether the connection may hold so many bytes. For an unauthenticated one, closes others that
  // hold bytes, the oldest first: so unfinished requests of strangers lock out nobody.
  [[nodiscard]] bool reserve(size_t bytes) {
    while (!admission().may_hold(*this, bytes)) {
      AdmissionEntry* const oldest =
          trust() == Trust::kUnauthenticated ? admission().oldest_with_bytes() : nullptr;
      if (oldest == nullptr || oldest == this) return false;
      listener_.metrics.stats.add(FrontendStat::kEvicted);
      static_cast<Connection*>(oldest)->close();
    }
    return make_room(bytes);
  }

  // Whether this connection may hold this many bytes beside those of all other unauthenticated
  // ones. Closes some of these if it must.
  [[nodiscard]] bool make_room(size_t held) {
    if (trust() != Trust::kUnauthenticated || held <= bytes()) return true;
    if (loop_.have_room(held - bytes())) return true;
    admission().touch(*this);
    while (!loop_.have_room(held - bytes())) {
      Listener* of = nullptr;
      AdmissionEntry* const oldest = loop_.to_evict_for_bytes(of);
      if (oldest == nullptr || oldest == this) return false;
      of->metrics.stats.add(FrontendStat::kEvicted);
      static_cast<Connection*>(oldest)->close();
    }
    return true;
  }

  // OpenSSL has sent the reason to the client.
  void fail_handshake() {
    const TlsFailure failure = tls_->failure();
    if (failure == TlsFailure::kClosed) return close();
    listener_.metrics.last_tls_error.store(tls_->reason(), std::memory_order_relaxed);
    listener_.metrics.add_from(stat_of(failure), peer_);
    half_close();
  }

  void read() {
    if (half_closed_) return discard();
    // The rest is read in the next iteration. A session closes a connection that fills its limit.
    const size_t fits = session_->max_unread() - std::min(in_.size(), session_->max_unread());
    const size_t size = std::min(read_size_, fits);
    if (size == 0) return close();
    if (const size_t grown = in_.capacity_with(size); grown != in_.capacity()) {
      const size_t answer = std::max(out_.capacity(), kMinAnswer);
      if (!reserve(grown + answer + tls_bytes())) return refuse(Refusal::kMemory);
    }
    std::span<char> space = in_.prepare(size);
    space = space.first(std::min(space.size(), fits));
    const ssize_t got = tls_ ? tls_->read(space) : recv(socket_, space.data(), space.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return tls_ ? await_record() : void();
    if (got == 0 && tls_) (void)tls_->close_notify();  // the answer to that of the peer
    if (got <= 0) return close();
    const auto count = static_cast<size_t>(got);
    received_ = true;
    if (count == space.size()) read_size_ = std::min(2 * read_size_, kMaxRead);
    const Instant now = loop_.clock.now();
    if (in_.empty() && !tls_pending_) began_ = now.mono;
    last_active_ = now.mono;
    in_.commit(count);
    if (tls_) {
      tls_pending_ = tls_->has_partial_record() && !tls_->has_more();
      poll_instead(before_read());
    }
    serve(now);
    update_accounting();
  }

  // No complete record has arrived.
  void await_record() {
    if (!tls_pending_ && tls_->has_partial_record()) {
      tls_pending_ = true;
      if (in_.empty()) began_ = loop_.clock.now().mono;
    }
    poll_instead(tls_wait());
    update_accounting();
  }

  // Input after the last response is ignored.
  void discard() {
    std::array<char, 4096> ignored;
    const ssize_t got = recv(socket_, ignored.data(), ignored.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close();
  }

  void serve(Instant now) {
    do {
      const size_t before = in_.size();
      next_ = session_->process(now, in_, out_);
      // A request was answered: the rest of the input is a new one.
      if (in_.size() != before) {
        began_ = now.mono;
        admission().touch(*this);
      }
      if (next_ == Next::kRead) break;
      if (next_ == Next::kDelay) return begin_delay(now.mono);
      waiting_ = next_ == Next::kWait;
      if (!send()) return;  // resume_send() continues
    } while (next_ == Next::kAgain);
    if (waiting_) return poll_for(EPOLL_CTL_MOD, 0);
    if (next_ == Next::kClose) return half_close();
    // Responses are sent after all ready connections were read, which keeps the kernel's read path
    // and then its write path in the instruction cache.
    if (!out_.empty()) loop_.unsent.push_back(this);
  }

  [[nodiscard]] size_t tls_bytes() const {
    return tls_ ? kTlsBytes + (tls_pending_ ? kTlsPendingBytes : 0) : 0;
  }
  [[nodiscard]] size_t held_bytes() const {
    return in_.capacity() + out_.capacity() + session_->buffered_bytes() + tls_bytes();
  }

  // Reports the bytes held and the client to the admission.
  void update_accounting() {
    if (closed_ || !session_) return;
    if (session_->client() != client()) admission().promote(*this, session_->client());
    if (admission().is_memory_low()) release_buffers(kKeptWhenLow);
    const size_t held = held_bytes();
    if (held == bytes()) return;
    const bool fits = admission().may_hold(*this, held);
    admission().set_bytes(*this, held);
    // The client does not read its responses.
    if (!fits && !out_.empty()) {
      listener_.metrics.stats.add(FrontendStat::kRefusedMemory);
      close();
    }
  }

  void release_buffers(size_t limit) {
    in_.shrink(limit);
    out_.shrink(limit);
    if (session_) admission().set_bytes(*this, held_bytes());
  }

  // Refuses a request that exceeds the memory limit. No text is sent behind unsent responses.
  void refuse(Refusal reason) {
    listener_.metrics.stats.add(stat_of(reason));
    if (!out_.empty()) return close();
    out_.append(listener_.refusal_text(reason));
    next_ = Next::kClose;
    if (send()) half_close();
  }

  // Delays the response to a wrong key; nothing is read meanwhile.
  void begin_delay(MonoTime now) {
    delayed_ = true;
    delay_began_ = now;
    poll_for(EPOLL_CTL_MOD, 0);
  }

  void end_delay() {
    delayed_ = false;
    const Instant now = loop_.clock.now();
    last_active_ = began_ = now.mono;
    next_ = Next::kAgain;
    poll_for(EPOLL_CTL_MOD, before_read());
    if (!send()) return;
    serve(now);
    update_accounting();
    loop_.end_iteration();
  }

  // False: the socket is full, or the connection was closed.
  bool send() {
    while (!out_.empty()) {
      const std::string_view unsent = out_.unread();
      const ssize_t sent =
          tls_ ? tls_->write(unsent) : ::send(socket_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        out_.consume(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        await_send(tls_ ? tls_wait() : EPOLLOUT);
        return false;
      } else if (errno != EINTR) {
        close();
        return false;
      }
    }
    return true;
  }

  void await_send(uint32_t events) {
    poll_instead(events);
    if (!writing_) began_ = loop_.clock.now().mono;
    writing_ = true;
  }

  // The socket is writable again. Nothing was read meanwhile.
  void resume_send() {
    const Instant now = loop_.clock.now();
    last_active_ = began_ = now.mono;
    if (!send()) return;
    writing_ = false;
    poll_for(EPOLL_CTL_MOD, waiting_ ? 0 : before_read());
    if (next_ == Next::kAgain) {
      serve(now);
      return update_accounting();
    }
    if (next_ == Next::kClose || !session_) return half_close();
    update_accounting();
  }

  // The session can continue.
  void wake() {
    if (closed_ || !waiting_) return;
    waiting_ = false;
    const Instant now = loop_.clock.now();
    last_active_ = now.mono;
    if (writing_) {
      next_ = Next::kAgain;  // after everything is sent
    } else {
      poll_for(EPOLL_CTL_MOD, before_read());
      serve(now);
      update_accounting();
      loop_.end_iteration();
    }
  }

  // Shuts the write side down and lingers until the peer closes. Closing at once with unread input
  // would reset the connection, and the peer would lose the last responses.
  void half_close() {
    if (half_closed_) return;
    if (tls_ && !tls_->close_notify()) {
      next_ = Next::kClose;  // resume_send() calls this again
      return await_send(EPOLLOUT);
    }
    half_closed_ = true;
    handshaking_ = tls_pending_ = false;
    if (tls_) {
      out_.clear();  // is empty; nothing must leave without TLS
      tls_.reset();
      poll_instead(EPOLLIN);
    }
    last_active_ = loop_.clock.now().mono;
    in_.clear();
    release_buffers(0);
    shutdown(socket_, SHUT_WR);
  }

  Core& loop_;
  Listener& listener_;
  const int socket_;
  std::unique_ptr<Session> session_;  // null: the connection is rejected
  std::unique_ptr<TlsStream> tls_;    // null: no TLS, or no message of the handshake has arrived
  TlsFirstRecord first_record_;       // before tls_
  std::list<std::shared_ptr<Connection>>::iterator self_;
  Bytes in_, out_;
  size_t read_size_ = kMinRead;
  Next next_ = Next::kRead;
  MonoTime last_active_{};  // last read or write
  MonoTime began_{};        // start of the pending request or response
  MonoTime delay_began_{};
  uint64_t peer_ = 0;
  uint32_t polled_ = 0;       // events of epoll
  bool handshaking_ = false;  // TLS has not begun, or its handshake has not ended
  bool tls_pending_ = false;  // a handshake or a record has arrived in part
  bool received_ = false;     // at least one byte of a request
  bool writing_ = false;
  bool waiting_ = false;  // for a store
  bool delayed_ = false;  // the response to a wrong key
  bool half_closed_ = false;
  bool closed_ = false;
};

}  // namespace weir::frontends

#include "frontends/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>

namespace weir::frontends {
namespace {

constexpr uint8_t kHandshakeRecord = 22;

}  // namespace

bool TlsFirstRecord::has_arrived(int socket) {
  constexpr int kHeader = 5;
  constexpr int kMost = kHeader + SSL3_RT_MAX_PLAIN_LENGTH;
  uint8_t header[kHeader] = {};
  const ssize_t got = recv(socket, header, sizeof header, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  int size = 0;
  if (got > 0 && header[0] == kHandshakeRecord && ioctl(socket, FIONREAD, &size) == 0) {
    const int whole = got < kHeader ? kHeader : kHeader + (header[3] << 8 | header[4]);
    // A socket that is readable before that has ended, or the system is short of memory.
    if (size < whole && whole <= kMost && size >= awaited_) {
      wait_for(socket, awaited_ = whole);
      return false;
    }
  }
  if (awaited_ > 0) wait_for(socket, 1);
  return true;
}

void TlsFirstRecord::wait_for(int socket, int bytes) {
  setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

// OpenSSL's own socket method would raise SIGPIPE, and it does not bound the calls of recv().
const bio_method_st* TlsStream::socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "weir");
    if (made == nullptr) return made;
    BIO_meth_set_read(made, receive);
    BIO_meth_set_write(made, transmit);
    BIO_meth_set_ctrl(made, control);
    return made;
  }();
  return method;
}

int TlsStream::receive(BIO* bio, char* space, int size) {
  auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.receives_ == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const ssize_t got = recv(self.socket_, space, static_cast<size_t>(size), 0);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) BIO_set_retry_read(bio);
    return -1;
  }
  // A short read has emptied the socket; poll reports what comes later.
  self.receives_ = got < size ? 0 : self.receives_ - 1;
  if (got > 0 && !self.received_) {
    self.received_ = true;
    self.first_byte_ = static_cast<uint8_t>(space[0]);
  }
  return static_cast<int>(got);
}

int TlsStream::transmit(BIO* bio, const char* bytes, int size) {
  const auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(self.socket_, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long TlsStream::control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

std::unique_ptr<TlsStream> TlsStream::accept(SSL_CTX* context, int socket) {
  ERR_clear_error();
  std::unique_ptr<TlsStream> stream(new TlsStream(socket));
  stream->ssl_ = SSL_new(context);
  BIO* const bio = stream->ssl_ == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, stream.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(stream->ssl_, bio, bio);
  SSL_set_accept_state(stream->ssl_);
  return stream;
}

TlsStream::~TlsStream() {
  SSL_free(ssl_);
}

ssize_t TlsStream::fail(int result) {
  const int system = errno;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: wait_ = Wait::kReadable; break;
    case SSL_ERROR_WANT_WRITE: wait_ = Wait::kWritable; break;
    case SSL_ERROR_ZERO_RETURN: ended_ = true; return 0;
    default: {
      failed_ = true;
      const unsigned long error = ERR_peek_error();
      const int code = ERR_GET_REASON(error);
      bad_certificate_ = code == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE ||
                         code == SSL_R_CERTIFICATE_VERIFY_FAILED;
      const char* const text = error == 0 ? nullptr : ERR_reason_error_string(error);
      reason_ = text == nullptr ? "the connection was closed" : text;
      errno = system == EAGAIN || system == EINTR ? EPROTO : system;
      return -1;
    }
  }
  errno = EAGAIN;
  return -1;
}

int TlsStream::handshake() {
  ERR_clear_error();
  receives_ = kMaxReceives;
  const int result = SSL_do_handshake(ssl_);
  // The first request may have arrived with the last message of the handshake.
  if (result == 1) more_ = SSL_has_pending(ssl_) == 1;
  return result == 1 ? 1 : (fail(result), -1);
}

TlsFailure TlsStream::failure() const {
  if (!received_) return TlsFailure::kClosed;
  if (first_byte_ != kHandshakeRecord) return TlsFailure::kNotTls;
  return bad_certificate_ ? TlsFailure::kCertificate : TlsFailure::kOther;
}

ssize_t TlsStream::read(std::span<char> space) {
  more_ = false;
  wait_ = Wait::kReadable;
  if (ended_) return 0;
  if (failed_) {
    errno = EPROTO;
    return -1;
  }
  receives_ = kMaxReceives;
  size_t count = 0;
  do {
    ERR_clear_error();
    const int size = static_cast<int>(std::min<size_t>(space.size() - count, INT_MAX));
    const int got = SSL_read(ssl_, space.data() + count, size);
    if (got <= 0) {
      const ssize_t result = fail(got);
      if (count == 0) return result;
      more_ = ended_ || failed_;  // the next call reports it
      break;
    }
    count += static_cast<size_t>(got);
    if (count == space.size()) {
      more_ = SSL_has_pending(ssl_) == 1;
      break;
    }
  } while (SSL_has_pending(ssl_) == 1);
  return static_cast<ssize_t>(count);
}

ssize_t TlsStream::write(std::string_view bytes) {
  if (failed_) {
    errno = EPROTO;
    return -1;
  }
  ERR_clear_error();
  receives_ = kMaxReceives;
  const int size = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
  const int sent = SSL_write(ssl_, bytes.data(), size);
  if (sent > 0) return sent;
  if (fail(sent) == 0) errno = EPIPE;
  return -1;
}

bool TlsStream::close_notify() {
  if (failed_ || SSL_is_init_finished(ssl_) == 0) return true;
  ERR_clear_error();
  const int result = SSL_shutdown(ssl_);
  return result >= 0 || SSL_get_error(ssl_, result) != SSL_ERROR_WANT_WRITE;
}

bool TlsStream::has_partial_record() const {
  // The state is "RB" between the head of a record and its body.
  return SSL_has_pending(ssl_) == 1 || std::string_view(SSL_rstate_string(ssl_)) == "RB";
}

}  // namespace weir::frontends

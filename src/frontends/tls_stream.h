// The TLS of one connection on a non-blocking socket, after the model of recv() and send().
//
// read() returns when no complete record is buffered, or when the space is full. has_more() then
// says that bytes are left which no poll of the socket reports. A call receives at most
// kMaxReceives times, so that a client which sends records without data cannot occupy the thread.
//
// One thread at a time. The socket must outlive the stream.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct bio_st;
struct bio_method_st;
struct ssl_ctx_st;
struct ssl_st;

namespace weir::frontends {

// Memory of OpenSSL 3.0 for a connection, measured: after the handshake, and in addition during the
// handshake or while a record has arrived in part.
inline constexpr size_t kTlsBytes = size_t{16} << 10;
inline constexpr size_t kTlsPendingBytes = size_t{32} << 10;

// Waits for the first record of a client in the buffers of the system: a client that sends a part
// of it costs this process no memory.
class TlsFirstRecord {
 public:
  // Called when the socket is readable. True: it has arrived, or never will, or is not TLS; the
  // stream finds out which. False: the socket becomes readable again when more of it is there.
  [[nodiscard]] bool has_arrived(int socket);

 private:
  static void wait_for(int socket, int bytes);

  int awaited_ = 0;  // bytes after which the socket becomes readable; 0: any
};

// Why a handshake failed.
enum class TlsFailure : uint8_t {
  kClosed,       // the client sent nothing and closed
  kNotTls,       // the first byte is not that of a handshake
  kCertificate,  // the client has sent no valid certificate
  kOther,
};

class TlsStream {
 public:
  enum class Wait : uint8_t { kReadable, kWritable };

  // Null: no memory.
  [[nodiscard]] static std::unique_ptr<TlsStream> accept(ssl_ctx_st* context, int socket);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // 1: done. -1: failed, or with errno EAGAIN not done yet.
  [[nodiscard]] int handshake();
  // After handshake() failed.
  [[nodiscard]] TlsFailure failure() const;
  // The reason of the last failure; a constant text.
  [[nodiscard]] const char* reason() const { return reason_; }

  // The bytes read; 0: the peer has closed; -1: failed, or with errno EAGAIN none now.
  [[nodiscard]] ssize_t read(std::span<char> space);
  // The bytes sent; -1: failed, or with errno EAGAIN none now. Then the next call must begin with
  // the same bytes, at any address.
  [[nodiscard]] ssize_t write(std::string_view bytes);
  // Tells the peer that no more bytes follow. False: to be called again when the socket is
  // writable.
  [[nodiscard]] bool close_notify();

  // What to wait for after EAGAIN; either call may have to wait for either.
  [[nodiscard]] Wait wait() const { return wait_; }
  // Whether read() should be called again although the socket is not readable.
  [[nodiscard]] bool has_more() const { return more_; }
  // Whether a record has arrived in part.
  [[nodiscard]] bool has_partial_record() const;

 private:
  static constexpr int kMaxReceives = 16;

  explicit TlsStream(int socket) : socket_(socket) {}
  [[nodiscard]] static const bio_method_st* socket_method();
  static int receive(bio_st* bio, char* space, int size);
  static int transmit(bio_st* bio, const char* bytes, int size);
  static long control(bio_st* bio, int command, long number, void* pointer);
  // Sets errno, wait_ and reason_ after a call that returned `result`. Returns 0 if the peer has
  // closed, else -1.
  ssize_t fail(int result);

  const int socket_;
  ssl_st* ssl_ = nullptr;
  const char* reason_ = "";
  int receives_ = 0;  // that are left in this call
  uint8_t first_byte_ = 0;
  bool received_ = false;  // at least one byte
  bool failed_ = false;    // OpenSSL allows no further call
  bool ended_ = false;     // the peer has closed
  bool more_ = false;
  bool bad_certificate_ = false;
  Wait wait_ = Wait::kReadable;
};

}  // namespace weir::frontends

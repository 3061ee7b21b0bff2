// Parses HTTP/1.1 requests: the head, and chunked bodies.
//
// Strict against request smuggling: lines end in CRLF, names are tokens without a space before the
// colon, no folded lines, at most one Content-Length, and never both a length and chunks. Allocates
// nothing; the results are views of the input.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "frontends/http/http_errors.h"

namespace weir::frontends {

inline constexpr size_t kMaxHttpHead = 16 << 10;  // bytes
inline constexpr size_t kMaxHttpFields = 100;
inline constexpr size_t kMaxIdempotencyKey = 256;        // bytes
inline constexpr size_t kMaxHttpBody = size_t{1} << 20;  // bytes

// Why a request is invalid. The connection is closed after it.
struct HttpFault {
  HttpError error = HttpError::kNone;
  std::string_view detail = {};

  [[nodiscard]] int status() const { return info_of(error).status; }
};

struct HttpHead {
  std::string_view method = {};
  std::string_view path = {};  // without the query
  std::string_view query = {};
  std::string_view host = {};
  std::string_view fields = {};  // all header lines; HttpFields reads them
  std::optional<std::string_view> authorization = {};
  std::optional<size_t> content_length = {};
  bool chunked = false;
  int minor_version = 1;
  bool keep_alive = true;
  bool expects_continue = false;
  bool prefers_429 = false;      // Prefer: status=429
  bool accepts_problem = false;  // Accept: application/problem+json
  std::optional<std::string_view> idempotency_key = {};
  size_t bytes = 0;  // of the head, its empty line included

  [[nodiscard]] size_t body_bytes() const { return content_length.value_or(0); }
};

struct HttpField {
  std::string_view name = {};
  std::string_view value = {};  // without blanks at its ends
};

// Whether two texts are equal but for the case of ASCII letters.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

// The headers of a head that was parsed, one after the other.
class HttpFields {
 public:
  explicit HttpFields(const HttpHead& head) : rest_(head.fields) {}
  // False: there are no more.
  [[nodiscard]] bool next(HttpField& field);

 private:
  std::string_view rest_;
};

enum class HttpParseStatus : uint8_t { kComplete, kIncomplete, kInvalid };

// Parses the head at the start of `in`. The caller skips leading_empty_lines() first.
[[nodiscard]] HttpParseStatus parse_http_head(std::string_view in, HttpHead& head,
                                              HttpFault& fault);

// The bytes of empty lines at the start, which a client may send between requests.
[[nodiscard]] size_t leading_empty_lines(std::string_view in);

// Decodes a chunked body in place: its bytes move to the start of the buffer. Continues where it
// stopped when more bytes have arrived, so that no byte is read twice.
class ChunkedBody {
 public:
  // `body` and `size`: all bytes received behind the head, at the same offsets as before.
  [[nodiscard]] HttpParseStatus decode(char* body, size_t size, HttpFault& fault);

  [[nodiscard]] size_t decoded() const { return decoded_; }  // bytes at the start
  [[nodiscard]] size_t raw() const { return at_; }           // encoded bytes

 private:
  enum class State : uint8_t { kSize, kData, kDataEnd, kTrailer, kDone };
  State state_ = State::kSize;
  size_t at_ = 0;
  size_t decoded_ = 0;
  size_t left_ = 0;  // bytes of the current chunk
  size_t trailers_ = 0;
};

}  // namespace weir::frontends

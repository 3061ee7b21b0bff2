// Requests of HTTP/1.1: the head, and bodies in chunks.
//
// Strict where leniency has let requests be smuggled: lines end in CRLF, names are tokens
// with no space before the colon, no folded lines, one length at most, and never a length
// and chunks together. Allocates nothing; what it returns are views of the bytes handed in.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::frontends {

inline constexpr size_t kMaxHttpHead = 16 << 10;  // bytes
inline constexpr size_t kMaxHttpFields = 100;
inline constexpr size_t kMaxHttpBody = size_t{1} << 20;  // bytes

// Why a request cannot be taken. The connection cannot go on after it.
struct HttpFault {
  int status = 0;  // 0: none
  std::string_view detail = {};
};

struct HttpHead {
  std::string_view method = {};
  std::string_view path = {};  // without the query
  std::optional<std::string_view> authorization = {};
  std::optional<size_t> content_length = {};
  bool chunked = false;
  int minor_version = 1;
  bool keep_alive = true;
  bool expects_continue = false;
  size_t bytes = 0;  // of the head, its empty line included

  [[nodiscard]] size_t body_bytes() const { return content_length.value_or(0); }
};

enum class HttpStatus : uint8_t { kComplete, kIncomplete, kFaulty };

// Reads the head at the front of `in`. Empty lines before it are to be skipped before.
[[nodiscard]] HttpStatus parse_http_head(std::string_view in, HttpHead& head, HttpFault& fault);

// The number of bytes of empty lines at the front, which a client may send between requests.
[[nodiscard]] size_t leading_empty_lines(std::string_view in);

// Takes the chunks of a body apart in place: its bytes move to the front of the buffer. Goes
// on where it stood when more has arrived, so that no byte is looked at twice.
class ChunkedBody {
 public:
  // `body` and `size`: all that has arrived behind the head, at the same offsets as before.
  [[nodiscard]] HttpStatus take(char* body, size_t size, HttpFault& fault);

  [[nodiscard]] size_t decoded() const { return decoded_; }  // bytes at the front
  [[nodiscard]] size_t raw() const { return at_; }           // bytes of the body as it was sent

 private:
  enum class State : uint8_t { kSize, kData, kDataEnd, kTrailer, kDone };
  State state_ = State::kSize;
  size_t at_ = 0;
  size_t decoded_ = 0;
  size_t left_ = 0;  // of the chunk under way
  size_t trailers_ = 0;
};

}  // namespace weir::frontends

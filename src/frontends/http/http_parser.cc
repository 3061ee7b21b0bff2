#include "frontends/http/http_parser.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace weir::frontends {
namespace {

// RFC 9110: the characters of a token.
constexpr std::array<bool, 256> token_characters() {
  std::array<bool, 256> is{};
  for (int c = '0'; c <= '9'; ++c) is[c] = true;
  for (int c = 'a'; c <= 'z'; ++c) is[c] = is[c - 32] = true;
  for (const char c :
       {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) {
    is[static_cast<unsigned char>(c)] = true;
  }
  return is;
}
constexpr std::array<bool, 256> kToken = token_characters();

bool is_token(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!kToken[static_cast<unsigned char>(c)]) return false;
  }
  return true;
}

// Visible characters, spaces, tabs, and non-ASCII bytes.
bool is_field_value(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && byte != '\t') || byte == 127) return false;
  }
  return true;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// `name` is in lower case.
bool is_name(std::string_view text, std::string_view name) {
  if (text.size() != name.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (lower(text[i]) != name[i]) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view before_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

std::optional<size_t> decimal(std::string_view text) {
  constexpr size_t kMaxDigits = 15;
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  size_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<size_t>(c - '0');
  }
  return number;
}

// Calls `visit` for each element of a list separated by commas.
template <typename Visit>
void each_element(std::string_view list, const Visit& visit) {
  while (true) {
    const size_t comma = list.find(',');
    visit(trimmed(list.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

HttpFault read_request_line(std::string_view line, HttpHead& head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return {HttpError::kMalformedRequest, "the request line is not METHOD TARGET VERSION"};
  }
  head.method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(head.method)) return {HttpError::kMalformedRequest, "the method is not a token"};
  if (target.find(' ') != std::string_view::npos || !is_field_value(target)) {
    return {HttpError::kMalformedRequest, "the target has a space or a control character in it"};
  }
  if (!version.starts_with("HTTP/") || version.size() != 8 || version[6] != '.') {
    return {HttpError::kMalformedRequest, "the request line does not end in a version"};
  }
  if (version[5] != '1') return {HttpError::kVersion, "only HTTP/1.1 and HTTP/1.0 are supported"};
  if (version[7] < '0' || version[7] > '9') {
    return {HttpError::kMalformedRequest, "the request line does not end in a version"};
  }
  head.minor_version = version[7] - '0';
  const size_t query = std::min(target.find('?'), target.size());
  head.query = target.substr(std::min(query + 1, target.size()));
  target = target.substr(0, query);
  if (!target.starts_with('/') && target != "*") {
    // http://host/path, as to a proxy.
    const size_t scheme = target.find("://");
    if (scheme == std::string_view::npos)
      return {HttpError::kMalformedRequest, "the target does not begin with /"};
    const size_t path = target.find('/', scheme + 3);
    head.path = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  } else {
    head.path = target;
  }
  return {};
}

struct Seen {
  bool host = false;
  bool length = false;
  bool encoding = false;
  bool close = false;
  bool encoded = false;
};

HttpFault read_field(std::string_view line, HttpHead& head, Seen& seen) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos)
    return {HttpError::kMalformedRequest, "a header line has no colon"};
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_token(name)) return {HttpError::kMalformedRequest, "a header name is not a token"};
  if (!is_field_value(value))
    return {HttpError::kMalformedRequest, "a header value has a control character in it"};
  switch (name.size()) {
    case 4:
      if (is_name(name, "host")) {
        if (seen.host) return {HttpError::kMalformedRequest, "two Host headers"};
        seen.host = true;
        head.host = value;
      }
      break;
    case 6:
      if (is_name(name, "expect")) {
        if (!is_name(value, "100-continue"))
          return {HttpError::kExpectation, "only Expect: 100-continue is supported"};
        head.expects_continue = true;
      } else if (is_name(name, "prefer")) {
        each_element(value, [&](std::string_view preference) {
          if (is_name(before_blanks(preference.substr(0, preference.find(';'))), "status=429"))
            head.prefers_429 = true;
        });
      } else if (is_name(name, "accept")) {
        each_element(value, [&](std::string_view type) {
          if (is_name(before_blanks(type.substr(0, type.find(';'))), "application/problem+json"))
            head.accepts_problem = true;
        });
      }
      break;
    case 10:
      if (is_name(name, "connection")) {
        each_element(value, [&](std::string_view option) {
          if (is_name(option, "close")) seen.close = true;
          if (is_name(option, "keep-alive")) head.keep_alive = true;
        });
      }
      break;
    case 13:
      if (is_name(name, "authorization")) {
        if (head.authorization) return {HttpError::kMalformedRequest, "two Authorization headers"};
        head.authorization = value;
      }
      break;
    case 14:
      if (is_name(name, "content-length")) {
        if (seen.length) return {HttpError::kMalformedRequest, "two Content-Length headers"};
        seen.length = true;
        head.content_length = decimal(value);
        if (!head.content_length)
          return {HttpError::kMalformedRequest, "Content-Length is not a number"};
      }
      break;
    case 15:
      if (is_name(name, "idempotency-key")) {
        if (head.idempotency_key)
          return {HttpError::kMalformedRequest, "two Idempotency-Key headers"};
        if (value.empty() || value.size() > kMaxIdempotencyKey)
          return {HttpError::kMalformedRequest, "the Idempotency-Key has not 1 to 256 bytes"};
        head.idempotency_key = value;
      }
      break;
    case 16:
      if (is_name(name, "content-encoding") && !is_name(value, "identity")) seen.encoded = true;
      break;
    case 17:
      if (is_name(name, "transfer-encoding")) {
        if (seen.encoding) return {HttpError::kMalformedRequest, "two Transfer-Encoding headers"};
        seen.encoding = true;
        if (!is_name(value, "chunked"))
          return {HttpError::kTransferEncoding, "only Transfer-Encoding: chunked is supported"};
        head.chunked = true;
      }
      break;
    default: break;
  }
  return {};
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool HttpFields::next(HttpField& field) {
  if (rest_.empty()) return false;
  const size_t end = rest_.find('\r');
  const std::string_view line = rest_.substr(0, end);
  const size_t colon = line.find(':');
  field = {.name = line.substr(0, colon), .value = trimmed(line.substr(colon + 1))};
  rest_.remove_prefix(end + 2);
  return true;
}

size_t leading_empty_lines(std::string_view in) {
  size_t at = 0;
  while (in.substr(at).starts_with("\r\n")) at += 2;
  return at;
}

HttpParseStatus parse_http_head(std::string_view in, HttpHead& head, HttpFault& fault) {
  head = {};
  fault = {};
  const auto invalid = [&](HttpFault why) {
    fault = why;
    return HttpParseStatus::kInvalid;
  };
  Seen seen;
  size_t at = 0;
  size_t fields = 0;  // where they begin
  for (size_t lines = 0;; ++lines) {
    const size_t newline = in.find('\n', at);
    const size_t end = std::min(newline, in.size());
    if (end >= kMaxHttpHead)
      return invalid({HttpError::kHeadTooLarge, "the head has more than 16 KiB"});
    if (newline == std::string_view::npos) return HttpParseStatus::kIncomplete;
    if (end == at || in[end - 1] != '\r')
      return invalid({HttpError::kMalformedRequest, "a line does not end in CRLF"});
    const std::string_view line = in.substr(at, end - 1 - at);
    at = end + 1;
    if (line.empty() && lines > 0) break;
    if (lines > kMaxHttpFields) return invalid({HttpError::kHeadTooLarge, "more than 100 headers"});
    const HttpFault fault_in_line =
        lines == 0 ? read_request_line(line, head) : read_field(line, head, seen);
    if (fault_in_line.error != HttpError::kNone) return invalid(fault_in_line);
    if (lines == 0) {
      head.keep_alive = head.minor_version >= 1;
      fields = at;
    }
  }
  head.bytes = at;
  head.fields = in.substr(fields, at - 2 - fields);
  if (seen.close) head.keep_alive = false;
  if (seen.length && seen.encoding) {
    return invalid({HttpError::kMalformedRequest, "both Content-Length and Transfer-Encoding"});
  }
  if (seen.encoding && head.minor_version == 0)
    return invalid({HttpError::kMalformedRequest, "Transfer-Encoding in HTTP/1.0"});
  if (!seen.host && head.minor_version >= 1)
    return invalid({HttpError::kMalformedRequest, "no Host header"});
  if (head.body_bytes() > kMaxHttpBody)
    return invalid({HttpError::kBodyTooLarge, "the body has more than 1 MiB"});
  // Without a body the header describes another request, for which a gateway asks.
  if (seen.encoded && (head.chunked || head.body_bytes() > 0)) {
    return invalid({HttpError::kContentEncoding,
                    "only Content-Encoding: identity is supported: send the body unencoded"});
  }
  if (head.minor_version == 0) head.expects_continue = false;  // HTTP/1.0 has no 100 Continue
  return HttpParseStatus::kComplete;
}

HttpParseStatus ChunkedBody::decode(char* body, size_t size, HttpFault& fault) {
  constexpr size_t kMaxLine = 256;       // a chunk size with its extensions
  constexpr size_t kMaxTrailers = 4096;  // bytes
  const auto invalid = [&](HttpFault why) {
    fault = why;
    return HttpParseStatus::kInvalid;
  };
  while (state_ != State::kDone) {
    if (state_ == State::kData) {
      const size_t count = std::min(left_, size - at_);
      std::memmove(body + decoded_, body + at_, count);
      decoded_ += count;
      at_ += count;
      left_ -= count;
      if (left_ > 0) return HttpParseStatus::kIncomplete;
      state_ = State::kDataEnd;
    }
    const std::string_view rest(body + at_, size - at_);
    const size_t newline = rest.substr(0, kMaxLine).find('\n');
    if (newline == std::string_view::npos) {
      if (rest.size() >= kMaxLine)
        return invalid({HttpError::kMalformedRequest, "a line among the chunks is too long"});
      return HttpParseStatus::kIncomplete;
    }
    if (newline == 0 || rest[newline - 1] != '\r') {
      return invalid(
          {HttpError::kMalformedRequest, "a line among the chunks does not end in CRLF"});
    }
    const std::string_view line = rest.substr(0, newline - 1);
    if (!is_field_value(line)) {
      return invalid(
          {HttpError::kMalformedRequest, "a line among the chunks has a control character in it"});
    }
    at_ += newline + 1;
    switch (state_) {
      case State::kDataEnd:
        if (!line.empty())
          return invalid({HttpError::kMalformedRequest, "a chunk is longer than its size says"});
        state_ = State::kSize;
        break;
      case State::kSize: {
        const std::string_view digits = before_blanks(line.substr(0, line.find(';')));
        if (digits.empty() || digits.size() > 8)
          return invalid({HttpError::kMalformedRequest, "a chunk has no valid size"});
        size_t chunk = 0;
        for (const char c : digits) {
          const int digit = c >= '0' && c <= '9'   ? c - '0'
                            : c >= 'a' && c <= 'f' ? c - 'a' + 10
                            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                   : -1;
          if (digit < 0)
            return invalid({HttpError::kMalformedRequest, "a chunk has no valid size"});
          chunk = chunk * 16 + static_cast<size_t>(digit);
        }
        if (decoded_ + chunk > kMaxHttpBody)
          return invalid({HttpError::kBodyTooLarge, "the body has more than 1 MiB"});
        if (at_ > 2 * kMaxHttpBody)
          return invalid({HttpError::kBodyTooLarge, "the chunks are mostly overhead"});
        left_ = chunk;
        state_ = chunk == 0 ? State::kTrailer : State::kData;
        break;
      }
      case State::kTrailer:
        trailers_ += line.size();
        if (trailers_ > kMaxTrailers)
          return invalid({HttpError::kHeadTooLarge, "too many trailers"});
        if (line.empty()) state_ = State::kDone;
        break;
      case State::kData:
      case State::kDone: break;
    }
  }
  return HttpParseStatus::kComplete;
}

}  // namespace weir::frontends

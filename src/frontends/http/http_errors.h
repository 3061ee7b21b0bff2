// The errors of the HTTP front end, and the one table that gives each its status.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::frontends {

enum class HttpError : uint8_t {
  kNone,
  kMalformedRequest,  // the request line, a header or a chunk
  kInvalidBody,       // the JSON body, or a value in it
  kMissingKey,        // no Authorization header
  kMalformedKey,      // an Authorization header without a bearer token
  kWrongKey,          // a key that this server does not accept
  kForbidden,  // the key lacks a permission, or a denial for gateways that know only 401 and 403
  kUnknownPath,
  kNotFound,  // a record that does not exist, or that the key must not know of
  kMethodNotAllowed,
  kConflict,  // a record that exists already
  kGone,      // a record that was deleted
  kBodyTooLarge,
  kContentEncoding,  // anything but identity
  kExpectation,      // anything but 100-continue
  kTooManyRequests,  // a denial
  kHeadTooLarge,
  kTransferEncoding,  // anything but chunked
  kUnavailable,       // the server refuses the connection or the request for now
  kVersion,           // not HTTP/1.x
  kCount,
};

inline constexpr std::string_view kErrorUrn = "urn:weir:error:";

struct HttpErrorInfo {
  HttpError error;
  int status;
  std::string_view title;  // the reason phrase
  std::string_view type;   // follows kErrorUrn
};

inline constexpr HttpErrorInfo kHttpErrors[] = {
    {HttpError::kNone, 200, "OK", ""},
    {HttpError::kMalformedRequest, 400, "Bad Request", "bad_request"},
    {HttpError::kInvalidBody, 400, "Bad Request", "bad_request"},
    {HttpError::kMissingKey, 400, "Bad Request", "bad_request"},
    {HttpError::kMalformedKey, 400, "Bad Request", "bad_request"},
    {HttpError::kWrongKey, 401, "Unauthorized", "unauthorized"},
    {HttpError::kForbidden, 403, "Forbidden", "forbidden"},
    {HttpError::kUnknownPath, 404, "Not Found", "not_found"},
    {HttpError::kNotFound, 404, "Not Found", "not_found"},
    {HttpError::kMethodNotAllowed, 405, "Method Not Allowed", "method_not_allowed"},
    {HttpError::kConflict, 409, "Conflict", "conflict"},
    {HttpError::kGone, 410, "Gone", "gone"},
    {HttpError::kBodyTooLarge, 413, "Content Too Large", "content_too_large"},
    {HttpError::kContentEncoding, 415, "Unsupported Media Type", "unsupported_media_type"},
    {HttpError::kExpectation, 417, "Expectation Failed", "expectation_failed"},
    {HttpError::kTooManyRequests, 429, "Too Many Requests", "too_many_requests"},
    {HttpError::kHeadTooLarge, 431, "Request Header Fields Too Large", "header_too_large"},
    {HttpError::kTransferEncoding, 501, "Not Implemented", "not_implemented"},
    {HttpError::kUnavailable, 503, "Service Unavailable", "unavailable"},
    {HttpError::kVersion, 505, "HTTP Version Not Supported", "version_not_supported"},
};

[[nodiscard]] constexpr const HttpErrorInfo& info_of(HttpError error) {
  return kHttpErrors[static_cast<size_t>(error)];
}

[[nodiscard]] constexpr bool is_in_order() {
  size_t at = 0;
  for (const HttpErrorInfo& row : kHttpErrors) {
    if (static_cast<size_t>(row.error) != at++) return false;
  }
  return at == static_cast<size_t>(HttpError::kCount);
}
static_assert(is_in_order(), "one row for each error, in the order of the enum");

}  // namespace weir::frontends

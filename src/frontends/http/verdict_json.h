// Verdicts as JSON bodies and as rate limit headers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>

#include "frontends/bytes.h"
#include "frontends/http/json_text.h"
#include "frontends/http/request_id.h"
#include "frontends/resolve.h"
#include "frontends/seconds.h"
#include "weir/request.h"
#include "weir/time.h"
#include "weir/verdict.h"

namespace weir::frontends {

inline std::string_view as_json(bool value) {
  return value ? "true" : "false";
}

// Which override was applied, if any.
inline void append_override(Bytes& out, const Resolved& resolved) {
  if (resolved.override == nullptr) return;
  out.append_all(std::string_view(R"(,"overrideId":")"), std::string_view(resolved.override->id),
                 '"');
  if (resolved.denies_all) {
    out.append(R"(,"reason":"the override has limit 0, which denies every request")");
  }
}

inline void append_limit_response(Bytes& out, uint64_t& id_state, const Verdict& verdict,
                                  const Resolved& resolved) {
  out.append_all(std::string_view(R"({"meta":{"requestId":")"));
  append_request_id(out, id_state);
  out.append_all(std::string_view(R"("},"data":{"limit":)"), verdict.limit,
                 std::string_view(R"(,"remaining":)"), verdict.remaining,
                 std::string_view(R"(,"reset":)"), verdict.reset.time_since_epoch().count(),
                 std::string_view(R"(,"success":)"), as_json(verdict.admitted()));
  if (verdict.retry_after) {
    out.append_all(std::string_view(R"(,"retryAfter":)"), verdict.retry_after->count());
  }
  append_override(out, resolved);
  out.append_all(std::string_view(R"(,"basis":")"), to_string(verdict.basis),
                 std::string_view("\"}}"));
}

// The item that the headers describe: the denied one that must wait the longest, or else the one
// with the fewest remaining units.
inline size_t tightest_of(std::span<const Verdict> items) {
  const auto rank = [](const Verdict& item) {
    // A denial without an end is the tightest.
    const int64_t wait = item.retry_after ? -item.retry_after->count() : INT64_MIN;
    return std::tuple(item.admitted(), item.admitted() ? 0 : wait, item.remaining);
  };
  const auto less = [&](const Verdict& a, const Verdict& b) { return rank(a) < rank(b); };
  return static_cast<size_t>(std::min_element(items.begin(), items.end(), less) - items.begin());
}

inline void append_multi_limit_response(Bytes& out, uint64_t& id_state,
                                        std::span<const Request> requests,
                                        std::span<const std::string_view> identifiers,
                                        std::span<const Resolved> resolved,
                                        const BatchVerdict& batch) {
  out.append_all(std::string_view(R"({"meta":{"requestId":")"));
  append_request_id(out, id_state);
  out.append_all(std::string_view(R"("},"data":{"passed":)"), as_json(batch.admitted()),
                 std::string_view(R"(,"limits":[)"));
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const Verdict& item = batch.items[i];
    if (i > 0) out.append(',');
    out.append(R"({"namespace":)");
    append_json(out, requests[i].ns);
    out.append(R"(,"identifier":)");
    append_json(out, identifiers[i]);
    out.append_all(std::string_view(R"(,"limit":)"), item.limit,
                   std::string_view(R"(,"remaining":)"), item.remaining,
                   std::string_view(R"(,"reset":)"), item.reset.time_since_epoch().count(),
                   std::string_view(R"(,"passed":)"), as_json(item.admitted()));
    if (item.retry_after) {
      out.append_all(std::string_view(R"(,"retryAfter":)"), item.retry_after->count());
    }
    append_override(out, resolved[i]);
    out.append_all(std::string_view(R"(,"basis":")"), to_string(item.basis),
                   std::string_view("\"}"));
  }
  out.append("]}}");
}

// draft-ietf-httpapi-ratelimit-headers-11, with one policy, whose name needs no escape.
inline void append_rate_limit_fields(Bytes& fields, Instant now, const Request& request,
                                     const Verdict& verdict, std::string_view policy = "default") {
  fields.append_all(std::string_view("RateLimit-Policy: \""), policy, std::string_view("\";q="),
                    verdict.limit, std::string_view(";w="), seconds_up(request.duration),
                    std::string_view("\r\nRateLimit: \""), policy, std::string_view("\";r="),
                    verdict.remaining, std::string_view(";t="),
                    seconds_up(verdict.reset - now.wall), std::string_view("\r\n"));
  if (verdict.retry_after) {
    fields.append_all(std::string_view("Retry-After: "), seconds_up(*verdict.retry_after),
                      std::string_view("\r\n"));
  }
}

}  // namespace weir::frontends

// Answers to paths of other services: clients of Unkey and Upstash are tried here first. The answer
// names Weir and what it has instead.

#pragma once

#include <string>
#include <string_view>

namespace weir::frontends {

// The detail of a 404.
[[nodiscard]] std::string unknown_path(std::string_view path);

// Whether the request is one of the REST API of Upstash Redis, whose clients show only a text.
[[nodiscard]] bool is_upstash(std::string_view method, std::string_view path);
inline constexpr std::string_view kNoUpstash =
    "there is nothing at this path: Weir is a rate limiter and not Upstash Redis: instead of "
    "@upstash/ratelimit use "
    "@unkey/ratelimit with the address of Weir as baseUrl, or POST /v2/ratelimit.limit";

}  // namespace weir::frontends

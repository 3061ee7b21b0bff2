// Commands to a Redis server in RESP, and the meaning of its errors.
//
// Pure.

#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "telemetry/origin_metrics.h"
#include "weir/time.h"

namespace weir::origins {

using telemetry::OriginError;

// Classifies an error reply of the server.
[[nodiscard]] OriginError error_of_reply(std::string_view error);

// Appends a command in RESP.
void append_command(std::string& out, std::span<const std::string_view> words);
inline void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  append_command(out, std::span(words.begin(), words.size()));
}

// Unix time in ms, as an argument of a command.
[[nodiscard]] inline std::string millis_text(WallTime time) {
  return std::to_string(time.time_since_epoch().count());
}

}  // namespace weir::origins

// Reads traffic from CSV: one request per line, `time_ms,key` or `time_ms,key,cost`.
//
// A first line of column names is skipped. Lines end with LF or CRLF; empty lines are skipped.
// There are no quotes and no escapes. All of the text is checked: a bad line is an error, and no
// part of a bad file is used.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/traffic.h"

namespace weir::lab {

// 2100-01-01: later times are probably not in milliseconds.
inline constexpr int64_t kMaxTimeMs = 4'102'444'800'000;

struct TraceError {
  size_t line = 0;    // from 1; 0: the whole file
  std::string field;  // "time_ms", "key" or "cost"; empty if the error is in no single field
  std::string text;   // the problem with its value, and the remedy; one line
};

struct Trace {
  Traffic traffic;
  std::vector<TraceError> errors;  // in the order of lines; if there are any, traffic is empty
};

// Only the first errors are of use to a reader.
inline constexpr size_t kMaxTraceErrors = 10;

[[nodiscard]] Trace parse_trace(std::string_view text, std::string_view name);

// "file:3: ..." without a line break.
[[nodiscard]] std::string to_line(const TraceError& error, std::string_view file);

}  // namespace weir::lab

// A trace yields either requests in the order of time or errors of one line each.

#include <algorithm>

#include "fuzz/input.h"
#include "lab/trace.h"

using weir::WallTime;
using weir::fuzz::Exact;
using weir::fuzz::must;
using weir::lab::Arrival;
using weir::lab::Trace;

namespace {

void check_errors(const Trace& trace, size_t lines) {
  must(trace.errors.size() <= weir::lab::kMaxTraceErrors, "there are few errors");
  must(trace.traffic.arrivals.empty() && trace.traffic.keys.empty(), "nothing is used");
  for (const auto& error : trace.errors) {
    const std::string text = to_line(error, "x.csv");
    must(text.starts_with("x.csv:"), "an error names the file");
    must(std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; }),
         "an error is one printable line");
    must(error.line <= lines, "an error names an existing line");
    must(text.find(error.field) != text.npos, "an error names its field");
  }
}

void check_traffic(const Trace& trace) {
  must(!trace.traffic.arrivals.empty(), "a trace without an error has requests");
  WallTime last{};
  for (const Arrival& arrival : trace.traffic.arrivals) {
    must(arrival.at >= last, "times do not decrease");
    must(arrival.at <= WallTime(weir::Millis(weir::lab::kMaxTimeMs)), "times are in range");
    must(arrival.cost <= weir::kMaxLimit, "costs are in range");
    must(arrival.key < trace.traffic.keys.size(), "keys exist");
    last = arrival.at;
  }
  for (const std::string& key : trace.traffic.keys) {
    must(!key.empty() && key.size() <= weir::kMaxNameBytes, "keys have a valid length");
    must(key.find_first_of(",\n\"") == key.npos, "keys have no separators");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Exact text(std::string_view(reinterpret_cast<const char*>(data), size));
  const Trace trace = weir::lab::parse_trace(text.view(), "x.csv");
  const auto lines = 1 + static_cast<size_t>(std::ranges::count(text.view(), '\n'));
  if (trace.errors.empty()) {
    check_traffic(trace);
  } else {
    check_errors(trace, lines);
  }
  return 0;
}

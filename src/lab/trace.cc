#include "lab/trace.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <unordered_map>

namespace weir::lab {
namespace {

// A value from the file in an error: printable, in quotes, and short.
std::string shown(std::string_view value) {
  constexpr size_t kMost = 40;
  std::string text = "'";
  for (const char c : value.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text + (value.size() > kMost ? "...'" : "'");
}

// A whole number of decimal digits up to `most`.
std::optional<uint64_t> number_of(std::string_view text, uint64_t most) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) return {};
  return number;
}

class Parser {
 public:
  explicit Parser(std::string_view name) { trace_.traffic.name = name; }

  Trace parse(std::string_view text) {
    while (!text.empty() && !ended_ && trace_.errors.size() < kMaxTraceErrors) {
      ++line_;
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() && !(line_ == 1 && is_header(line))) parse_line(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (trace_.errors.empty() && trace_.traffic.arrivals.empty()) {
      trace_.errors.push_back(
          {.line = 0, .field = "", .text = "has no requests; add lines such as 1000,alice,1"});
    }
    if (!trace_.errors.empty()) trace_.traffic = {};
    return std::move(trace_);
  }

 private:
  static bool is_header(std::string_view line) {
    return line == "time_ms,key" || line == "time_ms,key,cost";
  }

  void parse_line(std::string_view line) {
    std::string_view fields[3];
    size_t count = 0;
    for (std::string_view rest = line;; ++count) {
      const size_t comma = rest.find(',');
      if (count < 3) fields[count] = rest.substr(0, comma);
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
    ++count;
    if (count < 2 || count > 3) {
      return fail("", fmt::format("{} has {} field{}; write time_ms,key or time_ms,key,cost",
                                  shown(line), count, count == 1 ? "" : "s"));
    }
    add(fields[0], fields[1], count == 3 ? fields[2] : "1");
  }

  void add(std::string_view time_text, std::string_view key, std::string_view cost_text) {
    const auto time = number_of(time_text, kMaxTimeMs);
    if (!time) {
      return fail("time_ms", fmt::format("time_ms is {}: it must be a whole number of milliseconds "
                                         "from 0 to {}",
                                         shown(time_text), kMaxTimeMs));
    }
    const WallTime at{Millis(*time)};
    if (!trace_.traffic.arrivals.empty() && at < trace_.traffic.arrivals.back().at) {
      return fail("time_ms",
                  fmt::format("time_ms is {}, before {} on an earlier line: sort the file by time, "
                              "for example with sort -s -t, -k1,1n",
                              shown(time_text),
                              trace_.traffic.arrivals.back().at.time_since_epoch().count()));
    }
    if (key.empty() || key.size() > kMaxNameBytes) {
      return fail("key", fmt::format("key is {}, of {} bytes: it must have 1 to {} bytes",
                                     shown(key), key.size(), kMaxNameBytes));
    }
    if (key.find('"') != key.npos) {
      return fail("key",
                  fmt::format("key is {}: quotes are not supported; remove them", shown(key)));
    }
    const auto cost = number_of(cost_text, kMaxLimit);
    if (!cost) {
      return fail("cost",
                  fmt::format("cost is {}: it must be a whole number from 0 to {}; leave it "
                              "out for 1",
                              shown(cost_text), kMaxLimit));
    }
    append({.at = at, .cost = *cost, .key = 0}, key);
  }

  void append(Arrival arrival, std::string_view key) {
    Traffic& traffic = trace_.traffic;
    if (traffic.arrivals.size() == kMaxRequests) {
      return fail_and_end(
          "", fmt::format("the file has more than {} requests; split the file", kMaxRequests));
    }
    const auto [found, is_new] =
        indexes_.try_emplace(std::string(key), static_cast<uint32_t>(traffic.keys.size()));
    if (is_new) {
      if (traffic.keys.size() == kMaxKeys) {
        return fail_and_end("key",
                            fmt::format("key is {}, the first of more than {} keys; split the file",
                                        shown(key), kMaxKeys));
      }
      traffic.keys.emplace_back(key);
    }
    arrival.key = found->second;
    traffic.arrivals.push_back(arrival);
  }

  void fail(std::string field, std::string text) {
    trace_.errors.push_back({.line = line_, .field = std::move(field), .text = std::move(text)});
  }

  // All later lines would fail for the same reason.
  void fail_and_end(std::string field, std::string text) {
    fail(std::move(field), std::move(text));
    ended_ = true;
  }

  Trace trace_;
  std::unordered_map<std::string, uint32_t> indexes_;
  size_t line_ = 0;
  bool ended_ = false;
};

}  // namespace

Trace parse_trace(std::string_view text, std::string_view name) {
  return Parser(name).parse(text);
}

std::string to_line(const TraceError& error, std::string_view file) {
  if (error.line == 0) return fmt::format("{}: {}", file, error.text);
  return fmt::format("{}:{}: {}", file, error.line, error.text);
}

}  // namespace weir::lab

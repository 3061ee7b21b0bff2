// The questions of `weir lab --suggest`. An answer that was given as a flag is not asked for.

#pragma once

#include <istream>
#include <optional>
#include <ostream>

#include "lab/advice.h"
#include "weir/error.h"

namespace weir::lab {

struct GivenAnswers {
  std::optional<Bursts> bursts = {};
  std::optional<Strictness> strictness = {};
  std::optional<uint64_t> bytes_per_key = {};
  std::optional<uint64_t> limit = {};
  std::optional<int64_t> duration_ms = {};
  std::optional<uint64_t> keys = {};
};

inline constexpr uint64_t kMaxBytesPerKey = uint64_t{1} << 40;
inline constexpr uint64_t kMaxAdvisedKeys = 1'000'000'000'000;

enum class Source : uint8_t {
  kTerminal,  // prints each question, and repeats it after a bad answer
  kPipe,      // one answer per line; a bad answer is an error
};

// Nothing but questions is printed to `out`. The error names the flag, the answer and the remedy;
// it is also returned when the input ends early.
[[nodiscard]] Result<Needs> ask_needs(const GivenAnswers& given, Source source, std::istream& in,
                                      std::ostream& out);

}  // namespace weir::lab

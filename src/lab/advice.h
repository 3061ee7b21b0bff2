// Which algorithm fits: a decision from three answers and three numbers.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir::lab {

enum class Bursts : uint8_t { kNo, kYes };
enum class Strictness : uint8_t { kMayExceed, kNeverExceeds };

struct Needs {
  Bursts bursts = Bursts::kNo;  // a burst that is set apart from the rate
  Strictness strictness = Strictness::kMayExceed;
  uint64_t bytes_per_key = 1024;  // of memory, at most
  Count limit = 100;
  Millis duration{60'000};
  uint64_t keys = 10'000;  // active within one duration
};

struct Advice {
  // What fits the needs. If nothing fits, `algorithm` comes closest and `fits` is false.
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Count burst = 0;  // to be set with gcra; 0: the algorithm has none
  bool fits = true;
  uint64_t bytes_per_key = 0;
  uint64_t bytes = 0;                // for all keys
  std::vector<std::string> reasons;  // sentences
};

// The largest limit that advice is given for: gcra accepts it at any duration.
inline constexpr Count kMaxAdvisedLimit = 500'000'000;

// A log is suggested only if the stamps of all keys, 8 bytes for each unit of the limit, take no
// more than this: a sixteenth of the default memory of a server.
inline constexpr uint64_t kMaxLogBytes = uint64_t{64} << 20;

[[nodiscard]] Advice advise(const Needs& needs);

// The advice for a reader, several lines.
[[nodiscard]] std::string to_text(const Advice& advice, const Needs& needs);

// "1.5 MiB".
[[nodiscard]] std::string readable_bytes(uint64_t bytes);

}  // namespace weir::lab

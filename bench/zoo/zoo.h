// The rate limiters that ./dev bench zoo compares, and the load on them.
//
// All limiters share one Redis server. Each command and each script uses one key, or keys with one
// hash tag, and scripts get their keys in KEYS, so that everything also runs on Redis Cluster.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/executor.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir::bench {

enum class Answer : uint8_t { kAllowed, kRejected, kError };

struct Limits {
  Count limit = 0;
  Millis duration{0};
};

// start() and stop() once each, from one thread. ask() runs on `executor()`, and so do the answers;
// an answer may come before ask() returns. The counters may be read while no request is pending.
class RateLimiter {
 public:
  using Done = std::function<void(Answer)>;

  virtual ~RateLimiter() = default;
  // Waits until Redis answers; throws std::runtime_error if it does not.
  virtual void start() = 0;
  virtual void stop() = 0;
  [[nodiscard]] virtual Executor& executor() = 0;

  // `key` must live until the answer. It contains a hash tag.
  virtual void ask(Instant now, const std::string& key, const Limits& limits, Done done) = 0;

  // Commands sent to Redis since the start; a call of a script is one command.
  [[nodiscard]] virtual uint64_t sent() const = 0;
  // Answers since the start that were decided without Redis although it should have been asked.
  [[nodiscard]] virtual uint64_t degraded() const { return 0; }
};

struct LimiterChoice {
  std::string name;  // of those below
  uint16_t port = 0;
  size_t callers = 64;
  std::string script = {};       // of "script"
  bool has_client_time = false;  // the script gets the time of the client as its last argument
};

// Throws if there is no limiter of this name.
[[nodiscard]] std::unique_ptr<RateLimiter> make_limiter(const LimiterChoice& choice);

// "naive", "watch", "fixed_window" and "script".
[[nodiscard]] std::unique_ptr<RateLimiter> make_redis_limiter(const LimiterChoice& choice);
[[nodiscard]] std::unique_ptr<RateLimiter> make_weir_limiter(uint16_t port,
                                                             Consistency consistency);

// One measurement.
struct Load {
  std::string prefix = "key";  // of the hash tags
  size_t keys = 1;             // with a Zipf distribution of exponent 1
  Limits limits = {};
  double seconds = 1;
  WallTime begin{};     // the nodes begin together
  uint64_t seed = 0;    // of the keys: the same for all limiters
  size_t callers = 64;  // at the same time
  // 0: each caller asks again when it has its answer. Else so many requests a second begin, in
  // groups of `callers` at once, whether or not there are answers.
  double rate = 0;
  // With a rate: a file with one line per request, if any. Its time and that of its answer in ms,
  // the number of the key, and 1 if it was allowed.
  std::string trace = {};
};

// Runs a load, and returns the counters as one line of JSON.
[[nodiscard]] std::string run_load(RateLimiter& limiter, const Load& load);

}  // namespace weir::bench

// Processes whose tables are full, on a real redis-server.

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "decide/engine.h"
#include "memory/tuple_key.h"
#include "origins/redis/running_redis_test.h"
#include "platform/thread_executor.h"

namespace weir::origins {
namespace {

constexpr size_t kPlaces = 64;
constexpr Count kLimit = 20;
constexpr Millis kDay{86'400'000};

Request request_of(std::string_view ns, std::string_view identifier, Count limit) {
  return {.ns = ns, .identifier = identifier, .limit = limit, .duration = 30 * kDay};
}

// Until the server answers in time: on a busy machine it may be late.
Verdict ask(decide::Engine& engine, const RunningOrigin& origin, const Clock& clock, Executor& home,
            const Request& request) {
  for (;;) {
    await([&] { return origin->reach() == Reach::kPrompt; });
    std::promise<Verdict> answer;
    engine.check_async(clock.now(), request, home,
                       [&](const Result<Verdict>& verdict) { answer.set_value(*verdict); });
    const Verdict verdict = answer.get_future().get();
    if (verdict.basis != Basis::kDegraded) return verdict;
  }
}

// The origin cannot count, and the process has no tuple that counts: each request was admitted.
TEST(RedisFlood, AKeyOfAnotherTypeDoesNotReleaseAClientThatHasNoTuple) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  platform::ThreadExecutor home;
  home.start();
  const auto engine = decide::Engine::make(clock, {.origin = origin.origin(),
                                                   .consistency = Consistency::kExact,
                                                   .read_deadline = Millis(10'000),
                                                   .capacity = kPlaces,
                                                   .seed = 1});
  for (size_t i = 0; i < 8 * kPlaces; ++i) {
    const std::string name = "fresh-" + std::to_string(i);
    (void)ask(*engine, origin, clock, home, request_of("flooded", name, 1));
  }
  ASSERT_GE(engine->stats().tuples, kPlaces);
  const Request request = request_of("api", "at-its-limit", kLimit);
  const std::string tuple = memory::TupleKey(request, base::KeyedHash{1}).encoded();
  const auto window = clock.now().wall.time_since_epoch() / request.duration;
  (void)server.ask("SET " + redis_key({tuple, window}) + " x");
  Count admitted = 0;
  for (Count i = 0; i < 3 * kLimit; ++i) {
    admitted += ask(*engine, origin, clock, home, request).admitted() ? 1 : 0;
  }
  EXPECT_GE(origin->metrics().errors.total(OriginError::kWrongType), kLimit);
  EXPECT_EQ(admitted, kLimit);
  // Another one is counted by the origin.
  const Verdict another = ask(*engine, origin, clock, home, request_of("api", "another", kLimit));
  EXPECT_EQ(another.remaining, kLimit - 1);
  home.stop();
}

}  // namespace
}  // namespace weir::origins

#include "server/serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "frontends/http/http_session.h"
#include "frontends/resp/resp_session.h"
#include "frontends/service.h"
#include "origins/redis/redis_origin.h"
#include "platform/entropy.h"
#include "platform/stop_signals.h"
#include "platform/thread_executor.h"
#include "platform/thread_group.h"
#include "server/data_folder.h"
#include "weir/limiter.h"
#include "weir/version.h"

namespace weir::server {
namespace {

using frontends::Decider;
using frontends::Loop;

constexpr Millis kSweepEvery{250};
constexpr Millis kReplayEvery{10};
constexpr size_t kSweepsPerRound = 240;  // the whole table once a minute

std::string generated_node() {
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}-{:08x}", host, platform::entropy() & 0xffffffff);
}

// The key that opens the doors: from the environment, or from the data folder.
struct Opening {
  rules::RootKeys keys;
  std::string shown;  // what to say about it
  std::string in_curl = "$WEIR_ROOT_KEY";
};

Opening open_doors(const Config& config) {
  Opening opening;
  if (const char* given = std::getenv("WEIR_ROOT_KEY"); given != nullptr && *given != '\0') {
    const std::string_view key = given;
    if (key.size() < rules::kMinKeyBytes || key.size() > rules::kMaxKeyBytes - 8) {
      throw std::runtime_error(fmt::format("WEIR_ROOT_KEY has {} characters: give it {} to {}",
                                           key.size(), rules::kMinKeyBytes,
                                           rules::kMaxKeyBytes - 8));
    }
    opening.keys.add(rules::hash_of(key));
    opening.shown = "the one in WEIR_ROOT_KEY";
    return opening;
  }
  const RootKey root = open_root_key(config.data);
  opening.keys.add(root.hash);
  if (root.fresh) {
    opening.shown = fmt::format("{}   (shown this once; its hash is in {})", *root.fresh,
                                root_key_file(config.data));
    opening.in_curl = *root.fresh;
  } else {
    opening.shown =
        fmt::format("the one shown at the first start (lost? remove {} and start again)",
                    root_key_file(config.data));
  }
  return opening;
}

// One thread's loop with the desks of its sessions.
struct Counter {
  Counter(const Clock& clock, const frontends::LoopLimits& limits, uint64_t seed)
      : loop(clock, limits), http_desk(seed) {}
  Loop loop;
  frontends::HttpDesk http_desk;
  frontends::RespDesk resp_desk;
  uint64_t next_id = 1;
};

Address listen(std::vector<std::unique_ptr<Counter>>& counters, Address address,
               telemetry::DoorMetrics& metrics,
               const std::function<Loop::OpenSession(Counter&)>& opener) {
  if (const auto error = frontends::taken(address))
    throw std::runtime_error(error->detail + "; " + error->fix);
  for (const auto& counter : counters) {
    const auto got = counter->loop.listen(address, metrics, opener(*counter));
    if (!got) throw std::runtime_error(got.error().detail + "; " + got.error().fix);
    address = *got;
  }
  return address;
}

// The origin with the thread that carries its messages. Nothing, for a process alone.
class Region {
 public:
  Region(const Clock& clock, std::optional<origins::RedisAddress> address) {
    if (!address) return;
    if (const char* given = std::getenv("WEIR_ORIGIN_PASSWORD"); given != nullptr) {
      if (address->password.empty()) address->password = given;
    }
    name_ = fmt::format("redis://{}:{}/{}", address->host, address->port, address->database);
    origin_ = std::make_shared<origins::RedisOrigin>(clock, *address, platform::entropy());
  }
  ~Region() { stop(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const std::shared_ptr<origins::RedisOrigin>& origin() const { return origin_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  void start() {
    if (origin_) carrier_.start([this] { origin_->run(); });
  }
  void stop() {
    if (origin_) origin_->stop();
    carrier_.join();
  }

  // Tells the origin what it has not been told, for two seconds at most; says what is left.
  void tell_the_rest(Limiter& limiter, const Clock& clock) const {
    if (!origin_) return;
    constexpr Millis kPatience{2000};
    constexpr Millis kStep{20};
    platform::ThreadExecutor timers;
    timers.start();
    const MonoTime until = clock.now().mono + kPatience;
    uint64_t sent = limiter.stats().replayed;
    WorkReport report{.waiting = 1};
    while (clock.now().mono < until) {
      report = limiter.run_replay(clock.now(), timers, Tell::kAll);
      sent += report.done;
      if (report.done == 0 && report.waiting == 0 && limiter.stats().replayed >= sent) break;
      platform::ThreadGroup::rest(kStep);
    }
    timers.stop();
    const uint64_t told = limiter.stats().replayed;
    if (told < sent)
      fmt::print(stderr, "weir: {} cells could not be told to the origin\n", sent - told);
  }

 private:
  std::string name_ = "memory";
  std::shared_ptr<origins::RedisOrigin> origin_;
  platform::ThreadGroup carrier_;
};

void print_welcome(const Config& config, const Opening& opening, const std::string& node,
                   const std::string& origin) {
  fmt::print("weir {}   region {}   node {}\n\n", WEIR_VERSION, config.region, node);
  if (config.http) fmt::print("  http      http://{}\n", to_string(*config.http));
  if (config.resp) fmt::print("  resp      redis://{}\n", to_string(*config.resp));
  fmt::print("  origin    {}\n", origin);
  fmt::print("  root key  {}\n\n", opening.shown);
  if (config.http) {
    fmt::print(
        "Try it:\n\n"
        "  curl http://{}/v2/ratelimit.limit -H 'Authorization: Bearer '\"{}\" \\\n"
        "    -d "
        "'{{\"namespace\":\"api\",\"identifier\":\"alice\",\"limit\":10,\"duration\":60000}}'\n",
        to_string(*config.http), opening.in_curl);
  }
  if (config.resp) {
    fmt::print("  redis-cli -h {} -p {} CL.THROTTLE alice 15 30 60\n", config.resp->host,
               config.resp->port);
  }
  fmt::print("\nCtrl-C stops it.\n");
  std::fflush(stdout);
}

}  // namespace

void serve(Config config) {
  platform::StopSignals signals;
  const std::string wrong = contradiction(config);
  if (!wrong.empty()) throw std::runtime_error(wrong);
  Opening opening;
  const std::string node = config.node.empty() ? generated_node() : config.node;
  const unsigned threads = config.threads == 0 ? platform::ThreadGroup::cores() : config.threads;

  const Clock& clock = system_clock();
  Region region(clock, config.origin);
  Limiter limiter(clock, {.origin = region.origin(), .capacity = config.capacity});
  frontends::LimiterDecider decider(limiter);
  frontends::NullDecider yes;
  const bool null = config.backend == Backend::kNull;
  frontends::Service service{
      .clock = clock,
      .decider = null ? static_cast<Decider&>(yes) : static_cast<Decider&>(decider),
      .limiter = limiter,
      .keys = opening.keys,
      .region = config.region,
      .node = node,
      .resp_keys = config.resp && !is_loopback(*config.resp) ? frontends::Keys::kWanted
                                                             : frontends::Keys::kNotWanted,
      .started = clock.now().mono,
      .origin = [&region]() -> std::optional<frontends::OriginState> {
        if (!region.origin()) return std::nullopt;
        const origins::RedisOriginStats stats = region.origin()->stats();
        return frontends::OriginState{.ready = stats.ready,
                                      .breaker_closed = stats.closed,
                                      .nodes = stats.nodes,
                                      .commands = stats.commands,
                                      .failures = stats.failures,
                                      .circuit_open = stats.circuit_open,
                                      .absurd = stats.absurd};
      }};

  const frontends::LoopLimits limits{.connections = 10'000 / threads + 1};
  std::vector<std::unique_ptr<Counter>> counters;
  for (unsigned i = 0; i < threads; ++i) {
    counters.push_back(std::make_unique<Counter>(clock, limits, platform::entropy()));
    counters.back()->next_id = i + 1;
  }
  if (config.http) {
    config.http = listen(counters, *config.http, service.http, [&](Counter& counter) {
      return [&service, &counter] {
        return std::make_unique<frontends::HttpSession>(service, counter.http_desk);
      };
    });
  }
  if (config.resp) {
    config.resp = listen(counters, *config.resp, service.resp, [&](Counter& counter) {
      return [&service, &counter, threads] {
        const uint64_t id = counter.next_id;
        counter.next_id += threads;
        return std::make_unique<frontends::RespSession>(service, counter.resp_desk, id);
      };
    });
  }
  counters[0]->loop.every(
      kSweepEvery, [&] { limiter.run_sweep(clock.now(), config.capacity / kSweepsPerRound + 1); });

  if (region.origin()) {
    counters[0]->loop.every(kReplayEvery,
                            [&] { limiter.run_replay(clock.now(), counters[0]->loop.executor()); });
  }

  // Not before all is there that a start needs: a key that is made is shown this once.
  opening = open_doors(config);
  platform::ThreadGroup group;
  for (const auto& counter : counters) group.start([&counter] { counter->loop.run(); });
  region.start();
  print_welcome(config, opening, node, region.name());
  signals.wait();
  fmt::print(stderr, "\nweir: answering what is under way, then stopping\n");
  service.draining.store(true, std::memory_order_relaxed);
  for (const auto& counter : counters) counter->loop.drain();
  group.join();
  region.tell_the_rest(limiter, clock);
  region.stop();  // while the loops are still there to be told of what it answers last
}

}  // namespace weir::server

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
#include "platform/entropy.h"
#include "platform/stop_signals.h"
#include "platform/thread_group.h"
#include "server/data_folder.h"
#include "server/other_regions.h"
#include "server/region.h"
#include "weir/limiter.h"
#include "weir/version.h"

namespace weir::server {
namespace {

using frontends::Decider;
using frontends::Loop;

constexpr Millis kSweepEvery{250};
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

// The floor is what others do, so it comes with their pace.
SharingRules rules_of(PublishPolicy policy) {
  SharingRules rules{.policy = policy};
  if (policy == PublishPolicy::kFloor) rules.publish_every = rules.import_every = Millis(10'000);
  return rules;
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

// The same at a Unix socket; none: at no socket.
std::shared_ptr<frontends::UnixSocket> listen_at_socket(
    std::vector<std::unique_ptr<Counter>>& counters, const std::string& path,
    telemetry::DoorMetrics& metrics, const std::function<Loop::OpenSession(Counter&)>& opener) {
  if (path.empty()) return nullptr;
  const auto socket = frontends::UnixSocket::open(path);
  if (!socket) throw std::runtime_error(socket.error().detail + "; " + socket.error().fix);
  for (const auto& counter : counters) {
    const auto error = counter->loop.listen(**socket, metrics, opener(*counter));
    if (error) throw std::runtime_error(error->detail + "; " + error->fix);
  }
  (*socket)->leave_to_loops();
  return *socket;
}

struct Stores {
  std::string origin;
  std::string ledger;
};

void print_welcome(const Config& config, const Opening& opening, const std::string& node,
                   const Stores& stores) {
  fmt::print("weir {}   region {}   node {}\n\n", WEIR_VERSION, config.region_name(), node);
  if (config.http) fmt::print("  http      http://{}\n", to_string(*config.http));
  if (!config.http_socket.empty()) fmt::print("  http      unix:{}\n", config.http_socket);
  if (config.resp) fmt::print("  resp      redis://{}\n", to_string(*config.resp));
  if (!config.resp_socket.empty()) fmt::print("  resp      unix:{}\n", config.resp_socket);
  fmt::print("  origin    {}\n", stores.origin);
  fmt::print("  ledger    {}\n", stores.ledger);
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
  Region region(clock, config);
  OtherRegions others(clock, config);
  const limiter::MemoryPlan plan = config.memory_plan();
  const Options options{.origin = region.origin(),
                        .ledger = others.ledger(),
                        .region = config.region_name(),
                        .sharing = rules_of(config.publish_policy),
                        .on_origin_loss = config.on_origin_loss,
                        .capacity = plan.capacity,
                        .memory = plan.memory};
  if (const auto error = error_in(options)) {
    throw std::runtime_error(error->detail + ": " + error->fix);
  }
  Limiter limiter(clock, options);
  frontends::LimiterDecider decider(limiter);
  frontends::NullDecider yes;
  const bool null = config.backend == Backend::kNull;
  frontends::Service service{
      .clock = clock,
      .decider = null ? static_cast<Decider&>(yes) : static_cast<Decider&>(decider),
      .limiter = limiter,
      .keys = opening.keys,
      .region = config.region_name(),
      .node = node,
      .resp_keys = config.resp && !is_loopback(*config.resp) ? frontends::Keys::kWanted
                                                             : frontends::Keys::kNotWanted,
      .started = clock.now().mono,
      .origin = region.origin() ? &region.origin()->metrics() : nullptr,
      .ledger = others.ledger() ? &others.ledger()->metrics() : nullptr};

  const frontends::LoopLimits limits{.connections = 10'000 / threads + 1};
  std::vector<std::unique_ptr<Counter>> counters;
  for (unsigned i = 0; i < threads; ++i) {
    counters.push_back(std::make_unique<Counter>(clock, limits, platform::entropy()));
    counters.back()->next_id = i + 1;
  }
  const auto open_http = [&](Counter& counter) {
    return [&service, &counter] {
      return std::make_unique<frontends::HttpSession>(service, counter.http_desk);
    };
  };
  const auto open_resp = [&](Counter& counter) {
    return [&service, &counter, threads] {
      const uint64_t id = counter.next_id;
      counter.next_id += threads;
      return std::make_unique<frontends::RespSession>(service, counter.resp_desk, id);
    };
  };
  if (config.http) config.http = listen(counters, *config.http, service.http, open_http);
  if (config.resp) config.resp = listen(counters, *config.resp, service.resp, open_resp);
  // Removed when nobody is served any more.
  const auto http_socket = listen_at_socket(counters, config.http_socket, service.http, open_http);
  const auto resp_socket = listen_at_socket(counters, config.resp_socket, service.resp, open_resp);
  counters[0]->loop.every(
      kSweepEvery, [&] { limiter.run_sweep(clock.now(), plan.capacity / kSweepsPerRound + 1); });

  // Not before all is there that a start needs: a key that is made is shown this once.
  opening = open_doors(config);
  platform::ThreadGroup group;
  for (const auto& counter : counters) group.start([&counter] { counter->loop.run(); });
  region.start(limiter);
  others.start(limiter);
  print_welcome(config, opening, node, {.origin = region.name(), .ledger = others.name()});
  signals.wait();
  fmt::print(stderr, "\nweir: answering what is under way, then stopping\n");
  service.draining.store(true, std::memory_order_relaxed);
  for (const auto& counter : counters) counter->loop.drain();
  group.join();
  region.leave(limiter);
  others.leave(limiter);
  others.stop();
  region.stop();  // while the loops are still there to be told of what it answers last
}

}  // namespace weir::server

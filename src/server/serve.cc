#include "server/serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "frontends/http/http_session.h"
#include "frontends/resp/resp_session.h"
#include "frontends/service.h"
#include "platform/entropy.h"
#include "platform/open_files.h"
#include "platform/process_signals.h"
#include "platform/service_manager.h"
#include "platform/thread_group.h"
#include "server/data_folder.h"
#include "server/kept_state.h"
#include "server/other_regions.h"
#include "server/region.h"
#include "server/reload.h"
#include "server/stranger_log.h"
#include "server/supervision.h"
#include "weir/limiter.h"
#include "weir/runner.h"
#include "weir/version.h"

namespace weir::server {
namespace {

using frontends::Decider;
using frontends::Keys;
using frontends::Loop;

constexpr Millis kBeatEvery{250};
constexpr Millis kLookForStrangers{1000};

std::string generated_node() {
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}-{:08x}", host, platform::entropy() & 0xffffffff);
}

// The key that opens the doors: from the environment, or from the data folder.
struct Opening {
  rules::KeyHash key{};
  bool from_folder = false;
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
    opening.key = rules::hash_of(key);
    opening.shown = "the one in WEIR_ROOT_KEY";
    return opening;
  }
  expect_folder(config.data);
  const RootKey root = open_root_key(config.data);
  opening.key = root.hash;
  opening.from_folder = true;
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

size_t count_of_front_ends(const Config& config) {
  return (config.http ? 1U : 0U) + (config.resp ? 1U : 0U) +
         (config.http_socket.empty() ? 0U : 1U) + (config.resp_socket.empty() ? 0U : 1U);
}

// Lets the connections of all front ends have the files they need. Throws if not even the start has
// enough; says so where one front end could not have all its connections.
void provide_files(const Config& config, unsigned threads) {
  const uint64_t own = 64 + 8 * uint64_t{threads};
  const uint64_t most = config.max_connections;
  const uint64_t allowed = platform::raise_open_files(count_of_front_ends(config) * most + own);
  constexpr std::string_view kRemedy = "with ulimit -n, or LimitNOFILE= in its systemd unit";
  if (allowed < own) {
    throw std::runtime_error(
        fmt::format("this process may open {} files, and needs {} to start: allow {} {}", allowed,
                    own, most + own, kRemedy));
  }
  if (allowed < most + own) {
    fmt::print(stderr,
               "weir: this process may open {} files, so it serves {} connections instead of {}: "
               "allow {} {}\n",
               allowed, allowed - own, most, most + own, kRemedy);
  }
}

// The data folder, of a process that keeps counts there: one with a ledger and without an origin.
class DataFolder {
 public:
  explicit DataFolder(const Config& config) {
    if (config.origin || !config.has_ledger() || config.backend == Backend::kNull) return;
    expect_folder(config.data);
    trouble_ = make_folder(config.data);
    if (trouble_.empty()) lock_.emplace(config.data);
  }
  [[nodiscard]] bool held() const { return lock_.has_value(); }
  // Why it cannot be written to; nothing if it can.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  std::optional<FolderLock> lock_;
  std::string trouble_;
};

// The floor is what others do, so it comes with their pace.
SyncRules rules_of(PublishPolicy policy) {
  SyncRules rules{.policy = policy};
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
  std::atomic<int64_t> beat{0};  // when the loop last had a turn, ns; a time by itself: relaxed
};

// What one of `threads` loops may take.
frontends::LoopLimits limits_of(const Config& config, unsigned threads) {
  const auto share = [threads](size_t all) { return (all + threads - 1) / threads; };
  const size_t most = config.max_connections;
  const size_t per_address = config.max_connections_per_address;
  constexpr size_t kLeastBytes = size_t{8} << 20;  // for a few of the largest requests
  return {.admission = {.connections = share(most),
                        .strangers = share(most - most / 5),
                        .per_address = share(per_address == 0 ? most / 2 : per_address),
                        .bytes = std::max(share(config.connection_memory), kLeastBytes)},
          .drain_delay = config.drain_delay,
          .drain = config.drain_grace};
}

Address listen(std::vector<std::unique_ptr<Counter>>& counters, Address address,
               telemetry::DoorMetrics& metrics, Loop::RefusalText refusal_text,
               const std::function<Loop::OpenSession(Counter&)>& opener) {
  if (const auto error = frontends::taken(address))
    throw std::runtime_error(error->detail + "; " + error->fix);
  for (const auto& counter : counters) {
    const auto got = counter->loop.listen(address, metrics, opener(*counter), refusal_text);
    if (!got) throw std::runtime_error(got.error().detail + "; " + got.error().fix);
    address = *got;
  }
  return address;
}

// The same at a Unix socket; none: at no socket.
std::shared_ptr<frontends::UnixSocket> listen_at_socket(
    std::vector<std::unique_ptr<Counter>>& counters, const std::string& path,
    telemetry::DoorMetrics& metrics, Loop::RefusalText refusal_text,
    const std::function<Loop::OpenSession(Counter&)>& opener) {
  if (path.empty()) return nullptr;
  const auto socket = frontends::UnixSocket::open(path);
  if (!socket) throw std::runtime_error(socket.error().detail + "; " + socket.error().fix);
  for (const auto& counter : counters) {
    const auto error = counter->loop.listen(**socket, metrics, opener(*counter), refusal_text);
    if (error) throw std::runtime_error(error->detail + "; " + error->fix);
  }
  (*socket)->leave_to_loops();
  return *socket;
}

// Whether every loop had a turn of late.
bool are_alive(const std::vector<std::unique_ptr<Counter>>& counters, MonoTime now) {
  constexpr Nanos kLate = std::chrono::seconds(2);
  return std::ranges::all_of(counters, [&](const auto& counter) {
    return now - MonoTime(Nanos(counter->beat.load(std::memory_order_relaxed))) < kLate;
  });
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
    const std::string key = config.wants_resp_auth()
                                ? fmt::format(" --no-auth-warning -a \"{}\"", opening.in_curl)
                                : "";
    fmt::print("  redis-cli -h {} -p {}{} CL.THROTTLE alice 15 30 60\n", config.resp->host,
               config.resp->port, key);
  }
  fmt::print("\nCtrl-C stops it.\n");
  std::fflush(stdout);
}

}  // namespace

void serve(Config config, const ReadAgain& read_again) {
  platform::ProcessSignals signals;
  const platform::ServiceManager manager;
  const std::string wrong = contradiction(config);
  if (!wrong.empty()) throw std::runtime_error(wrong);
  open_log(config.log);
  rules::RootKeys keys;
  const std::string node = config.node.empty() ? generated_node() : config.node;
  const unsigned threads = config.threads == 0 ? platform::ThreadGroup::cores() : config.threads;
  provide_files(config, threads);

  const Clock& clock = system_clock();
  const DataFolder folder(config);
  Region region(clock, config);
  OtherRegions others(clock, config, node, folder.trouble());
  others.claim_region();
  const limiter::MemoryPlan plan = config.memory_plan();
  const Options options{.origin = region.origin(),
                        .ledger = others.ledger(),
                        .region = config.region_name(),
                        .sync = rules_of(config.publish_policy),
                        .on_origin_loss = config.on_origin_loss,
                        .capacity = plan.capacity,
                        .memory = plan.memory};
  auto created = Limiter::create(clock, options);
  if (!created) throw std::runtime_error(created.error().detail + ": " + created.error().fix);
  Limiter& limiter = *created;
  std::optional<KeptState> kept;
  if (folder.held()) {
    kept.emplace(clock, state_file(config.data));
    kept->restore(limiter);
  }
  frontends::LimiterDecider decider(limiter);
  frontends::NullDecider yes;
  const bool null = config.backend == Backend::kNull;
  frontends::Service service{
      .clock = clock,
      .decider = null ? static_cast<Decider&>(yes) : static_cast<Decider&>(decider),
      .limiter = limiter,
      .keys = keys,
      .region = config.region_name(),
      .node = node,
      .resp_keys = config.wants_resp_auth() ? Keys::kWanted : Keys::kNotWanted,
      .metrics_keys = config.http && !is_loopback(*config.http) && !config.public_metrics
                          ? Keys::kWanted
                          : Keys::kNotWanted,
      .started = clock.now().mono,
      .origin = region.origin() ? &region.origin()->metrics() : nullptr,
      .ledger = others.ledger() ? &others.ledger()->metrics() : nullptr};

  const frontends::LoopLimits limits = limits_of(config, threads);
  std::vector<std::unique_ptr<Counter>> counters;
  for (unsigned i = 0; i < threads; ++i) {
    counters.push_back(std::make_unique<Counter>(clock, limits, platform::entropy()));
    counters.back()->next_id = i + 1;
    counters.back()->loop.every(kBeatEvery, [&clock, counter = counters.back().get()] {
      counter->beat.store(clock.now().mono.time_since_epoch().count(), std::memory_order_relaxed);
    });
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
  using frontends::http_refusal;
  using frontends::resp_refusal;
  if (config.http) {
    config.http = listen(counters, *config.http, service.http, http_refusal, open_http);
  }
  if (config.resp) {
    config.resp = listen(counters, *config.resp, service.resp, resp_refusal, open_resp);
  }
  // Removed when nobody is served any more.
  const auto http_socket =
      listen_at_socket(counters, config.http_socket, service.http, http_refusal, open_http);
  const auto resp_socket =
      listen_at_socket(counters, config.resp_socket, service.resp, resp_refusal, open_resp);
  StrangerLog strangers(service.http, service.resp);
  counters[0]->loop.every(kLookForStrangers, [&] {
    for (const std::string& line : strangers.run_once(clock.now().mono)) {
      fmt::print(stderr, "{}\n", line);
    }
  });

  // Not before all is there that a start needs: a key that is made is shown this once.
  const Opening opening = open_doors(config);
  keys.add(opening.key);
  platform::ThreadGroup group;
  for (const auto& counter : counters) group.start([&counter] { counter->loop.run(); });
  region.start();
  others.start();
  Runner runner(clock, limiter,
                {.after_replay = [&](Instant now) { region.report(now.mono); },
                 .after_sync = [&](Instant) { others.report(limiter.sync_stats()); }});
  runner.start();
  if (kept) kept->start(limiter);
  print_welcome(config, opening, node, {.origin = region.name(), .ledger = others.name()});
  manager.ready();
  const Changing changing{
      .limiter = limiter, .keys = keys, .key_is_in_folder = opening.from_folder};
  const End end = supervise(signals, manager,
                            {.reload = [&] { reload(config, read_again, changing); },
                             .reopen_logs = [&] { reopen_log(config.log); },
                             .is_alive = [&] { return are_alive(counters, clock.now().mono); },
                             .reason_to_end = [&] { return others.conflict(); }});
  manager.stopping();
  if (!end.reason.empty()) fmt::print(stderr, "weir: {}\n", end.reason);
  fmt::print(stderr, "\nweir: answering what is under way, then stopping\n");
  service.draining.store(true, std::memory_order_relaxed);
  const auto how = end.by_hand ? frontends::Drain::kAtOnce : frontends::Drain::kPatient;
  for (const auto& counter : counters) counter->loop.drain(how);
  {
    const Impatience impatience(signals, [&] {
      for (const auto& counter : counters) counter->loop.cut();
    });
    group.join();
    if (kept) kept->stop();
    const DrainReport drained = runner.drain();
    region.report(drained);
    others.report(drained);
  }
  runner.stop();
  others.stop();
  region.stop();  // while the loops are still there to be told of what it answers last
  if (!end.reason.empty()) throw std::runtime_error(end.reason);
}

}  // namespace weir::server

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

#include "catalog/catalog.h"
#include "catalog/sql_catalog.h"
#include "command_line/print_error.h"
#include "frontends/http/http_refusal.h"
#include "frontends/http/http_session.h"
#include "frontends/listening.h"
#include "frontends/resp/resp_session.h"
#include "frontends/service.h"
#include "platform/entropy.h"
#include "platform/heap_trim.h"
#include "platform/open_files.h"
#include "platform/process_signals.h"
#include "platform/service_manager.h"
#include "platform/thread_group.h"
#include "server/data_folder.h"
#include "server/file_watch.h"
#include "server/other_regions.h"
#include "server/refusal_log.h"
#include "server/region.h"
#include "server/reload.h"
#include "server/state_file.h"
#include "server/supervision.h"
#include "weir/limiter.h"
#include "weir/runner.h"
#include "weir/version.h"

namespace weir::server {
namespace {

using frontends::Backend;
using frontends::KeyPolicy;
using frontends::Loop;

constexpr Millis kBeatEvery{250};
constexpr Millis kLogRefusalsEvery{1000};
constexpr Millis kTrimEvery{1000};

std::string generated_node() {
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}-{:08x}", host, platform::entropy() & 0xffffffff);
}

// The root key: from the environment, or from the data folder.
struct RootKeyInfo {
  rules::KeyHash key{};
  bool from_folder = false;
  std::string shown;  // text for the welcome message
  std::string in_curl = "$WEIR_ROOT_KEY";
};

RootKeyInfo load_root_key(const Config& config) {
  RootKeyInfo root_key;
  if (const char* given = std::getenv("WEIR_ROOT_KEY"); given != nullptr && *given != '\0') {
    const std::string_view key = given;
    if (key.size() < rules::kMinKeyBytes || key.size() > rules::kMaxKeyBytes - 8) {
      throw std::runtime_error(fmt::format("WEIR_ROOT_KEY has {} characters: it must have {} to {}",
                                           key.size(), rules::kMinKeyBytes,
                                           rules::kMaxKeyBytes - 8));
    }
    root_key.key = rules::hash_of(key);
    root_key.shown = "from WEIR_ROOT_KEY";
    return root_key;
  }
  expect_folder(config.data);
  const RootKey root = open_root_key(config.data);
  root_key.key = root.hash;
  root_key.from_folder = true;
  if (root.fresh) {
    root_key.shown = fmt::format("{}   (shown only once; its hash is in {})", *root.fresh,
                                 root_key_path(config.data));
    root_key.in_curl = *root.fresh;
  } else {
    root_key.shown =
        fmt::format("shown at the first start (to replace a lost key, remove {} and restart)",
                    root_key_path(config.data));
  }
  return root_key;
}

size_t count_frontends(const Config& config) {
  return (config.http ? 1U : 0U) + (config.resp ? 1U : 0U) + (config.https ? 1U : 0U) +
         (config.resps ? 1U : 0U) + (config.http_socket.empty() ? 0U : 1U) +
         (config.resp_socket.empty() ? 0U : 1U);
}

// Raises the limit of open files to what all connections need. Throws if it is too low to start;
// logs if it is too low for max-connections.
void provide_files(const Config& config, unsigned threads) {
  const uint64_t own = 64 + 8 * uint64_t{threads};
  const uint64_t connections = config.max_connections;
  const uint64_t allowed =
      platform::raise_open_file_limit(count_frontends(config) * connections + own);
  constexpr std::string_view kRemedy = "with ulimit -n, or LimitNOFILE= in its systemd unit";
  if (allowed < own) {
    throw std::runtime_error(
        fmt::format("the limit of open files is {}, but {} are needed to start: raise it to {} {}",
                    allowed, own, connections + own, kRemedy));
  }
  if (allowed < connections + own) {
    command_line::print_error(
        "weir: the limit of open files is {}, so only {} of {} connections are possible: "
        "raise it to {} {}\n",
        allowed, allowed - own, connections, connections + own, kRemedy);
  }
}

// The data folder of a process that stores counts in it: one with a ledger and without an origin.
class DataFolder {
 public:
  explicit DataFolder(const Config& config) {
    if (config.origin || !config.has_ledger() || config.backend == BackendKind::kNull) return;
    expect_folder(config.data);
    error_ = make_folder(config.data);
    if (error_.empty()) lock_.emplace(config.data);
  }
  [[nodiscard]] bool held() const { return lock_.has_value(); }
  // Why it is not writable; empty: it is.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::optional<FolderLock> lock_;
  std::string error_;
};

// One worker thread: its loop and the scratch buffers of its sessions.
struct Worker {
  Worker(const Clock& clock, const frontends::LoopLimits& limits, uint64_t seed)
      : loop(clock, limits), http_scratch(seed) {}
  Loop loop;
  frontends::HttpScratch http_scratch;
  frontends::RespScratch resp_scratch;
  uint64_t next_id = 1;
  std::atomic<int64_t> beat{0};  // ns, time of the last iteration; relaxed: nothing depends on it
};

// The limits of one of `threads` loops.
frontends::LoopLimits limits_of(const Config& config, unsigned threads) {
  const auto share = [threads](size_t all) { return (all + threads - 1) / threads; };
  const size_t connections = config.max_connections;
  const size_t per_address = config.max_connections_per_address;
  constexpr size_t kMinBytes = size_t{8} << 20;  // a few of the largest requests
  constexpr size_t kUnauthenticatedBytes = size_t{64} << 20;
  constexpr size_t kMinUnauthenticated = size_t{1} << 20;
  return {.admission = {.connections = share(connections),
                        .unauthenticated = share(connections - connections / 5),
                        .per_address = share(per_address == 0 ? connections / 2 : per_address),
                        .bytes = std::max(share(config.connection_memory), kMinBytes)},
          .unauthenticated_bytes = std::max(share(kUnauthenticatedBytes), kMinUnauthenticated),
          .drain_delay = config.drain_delay,
          .drain = config.drain_grace};
}

Address listen(std::vector<std::unique_ptr<Worker>>& workers, Address address,
               telemetry::FrontendMetrics& metrics, Loop::RefusalText refusal_text,
               const std::function<Loop::OpenSession(Worker&)>& opener,
               const frontends::TlsContext* tls = nullptr) {
  if (const auto error = frontends::check_available(address))
    throw std::runtime_error(error->detail + "; " + error->fix);
  for (const auto& worker : workers) {
    const auto got = worker->loop.listen(address, metrics, opener(*worker), refusal_text, tls);
    if (!got) throw std::runtime_error(got.error().detail + "; " + got.error().fix);
    address = *got;
  }
  return address;
}

// The same at a Unix socket; null: no socket is configured.
std::shared_ptr<frontends::UnixSocket> listen_at_socket(
    std::vector<std::unique_ptr<Worker>>& workers, const std::string& path,
    telemetry::FrontendMetrics& metrics, Loop::RefusalText refusal_text,
    const std::function<Loop::OpenSession(Worker&)>& opener) {
  if (path.empty()) return nullptr;
  const auto socket = frontends::UnixSocket::open(path);
  if (!socket) throw std::runtime_error(socket.error().detail + "; " + socket.error().fix);
  for (const auto& worker : workers) {
    const auto error = worker->loop.listen(**socket, metrics, opener(*worker), refusal_text);
    if (error) throw std::runtime_error(error->detail + "; " + error->fix);
  }
  (*socket)->close_listener();
  return *socket;
}

// Logs each change between a catalog that answers and one that does not.
class CatalogLog {
 public:
  explicit CatalogLog(const catalog::Catalog& catalog) : catalog_(catalog) {}
  void run_once() {
    using catalog::CatalogState;
    const CatalogState state = catalog_.state();
    const bool lost = state == CatalogState::kLost ||
                      (state == CatalogState::kLoading && !catalog_.last_error().empty());
    if (lost == was_lost_) return;
    was_lost_ = lost;
    if (lost) {
      command_line::print_error(
          "weir: the catalog does not answer; known keys and overrides go on: {}\n",
          catalog_.last_error());
    } else {
      command_line::print_error("weir: the catalog answers again\n");
    }
  }

 private:
  const catalog::Catalog& catalog_;
  bool was_lost_ = false;
};

// Until the catalog was read, as long as the store answers, and for ten seconds at most: before
// that no override applies.
void wait_for(const Clock& clock, const catalog::Catalog& catalog) {
  constexpr Millis kMaxSilence{1000};
  constexpr Millis kMaxWait{10'000};
  constexpr Millis kStep{2};
  for (Millis waited{0}; waited < kMaxWait && catalog.last_error().empty() &&
                         catalog.state() == catalog::CatalogState::kLoading &&
                         clock.now().mono - catalog.progress() < kMaxSilence;
       waited += kStep) {
    platform::ThreadGroup::sleep(kStep);
  }
}

// Null: no front end uses TLS.
std::shared_ptr<frontends::TlsContext> open_tls(const Config& config) {
  if (!config.uses_tls()) return nullptr;
  const auto context = frontends::TlsContext::create(config.tls);
  if (!context) throw std::runtime_error(context.error().detail + "; " + context.error().fix);
  return *context;
}

bool is_public(const std::optional<Address>& address) {
  return address && !is_loopback(*address);
}

// Whether every loop has run recently.
bool are_alive(const std::vector<std::unique_ptr<Worker>>& workers, MonoTime now) {
  constexpr Nanos kLate = std::chrono::seconds(2);
  return std::ranges::all_of(workers, [&](const auto& worker) {
    return now - MonoTime(Nanos(worker->beat.load(std::memory_order_relaxed))) < kLate;
  });
}

struct Stores {
  std::string origin;
  std::string ledger;
  std::string certificate;  // empty: no TLS
};

void print_welcome(const Config& config, const RootKeyInfo& root_key, const std::string& node,
                   const Stores& stores) {
  fmt::print("weir {}   region {}   node {}\n\n", WEIR_VERSION, config.region_name(), node);
  if (config.http) fmt::print("  http      http://{}\n", to_string(*config.http));
  if (!config.http_socket.empty()) fmt::print("  http      unix:{}\n", config.http_socket);
  if (config.resp) fmt::print("  resp      redis://{}\n", to_string(*config.resp));
  if (!config.resp_socket.empty()) fmt::print("  resp      unix:{}\n", config.resp_socket);
  if (config.https) fmt::print("  https     https://{}\n", to_string(*config.https));
  if (config.resps) fmt::print("  resps     rediss://{}\n", to_string(*config.resps));
  if (!stores.certificate.empty()) fmt::print("  tls       {}\n", stores.certificate);
  fmt::print("  origin    {}\n", stores.origin);
  fmt::print("  ledger    {}\n", stores.ledger);
  if (!config.has_ledger()) {
    fmt::print(
        "  catalog   none: weir keys, namespaces and overrides do not reach this server; they do "
        "with --ledger\n");
  }
  fmt::print("  root key  {}\n\n", root_key.shown);
  if (config.http) {
    fmt::print(
        "Try it:\n\n"
        "  curl http://{}/v2/ratelimit.limit -H 'Authorization: Bearer '\"{}\" \\\n"
        "    -d "
        "'{{\"namespace\":\"api\",\"identifier\":\"alice\",\"limit\":10,\"duration\":60000}}'\n",
        to_string(*config.http), root_key.in_curl);
  }
  if (config.resp) {
    const std::string key = config.requires_resp_auth()
                                ? fmt::format(" --no-auth-warning -a \"{}\"", root_key.in_curl)
                                : "";
    fmt::print("  redis-cli -h {} -p {}{} CL.THROTTLE alice 15 30 60\n", config.resp->host,
               config.resp->port, key);
  }
  fmt::print("\nCtrl-C stops it.\n");
  std::fflush(stdout);
}

}  // namespace

void serve(Config config, const ReloadConfig& reload_config) {
  platform::ProcessSignals signals;
  const platform::ServiceManager manager;
  const std::string conflict = find_conflict(config);
  if (!conflict.empty()) throw std::runtime_error(conflict);
  open_log(config.log);
  rules::RootKeys keys;
  const std::string node = config.node.empty() ? generated_node() : config.node;
  const unsigned threads = config.threads == 0 ? platform::ThreadGroup::cores() : config.threads;
  provide_files(config, threads);

  const auto tls = open_tls(config);
  const Clock& clock = system_clock();
  const DataFolder folder(config);
  Region region(clock, config);
  OtherRegions others(clock, config, node, folder.error());
  others.claim_region();
  const memory::MemoryPlan plan = config.memory_plan();
  const Options options{.origin = region.origin(),
                        .ledger = others.ledger(),
                        .region = config.region_name(),
                        .other_regions = config.ledger_choice == LedgerChoice::kGiven,
                        .clean_ledger = config.clean_ledger,
                        .on_origin_loss = config.on_origin_loss,
                        .consistency = config.consistency,
                        .read_deadline = config.read_deadline,
                        .capacity = plan.capacity,
                        .memory = plan.memory};
  auto created = Limiter::create(clock, options);
  if (!created) throw std::runtime_error(created.error().detail + ": " + created.error().fix);
  Limiter& limiter = *created;
  std::optional<StateFile> state_file;
  if (folder.held()) {
    state_file.emplace(clock, state_path(config.data));
    state_file->restore(limiter);
  }
  const auto catalog_address = ledger_of(config);
  const auto open_catalog = [&] {
    return catalog_address ? catalog::make_catalog_store(clock, *catalog_address) : nullptr;
  };
  catalog::Catalog catalog(clock, open_catalog(), {.audit_kept = config.audit_retention},
                           open_catalog());
  frontends::LimiterBackend backend(limiter);
  frontends::NullBackend null_backend;
  const bool null = config.backend == BackendKind::kNull;
  frontends::Service service{
      .clock = clock,
      .backend = null ? static_cast<Backend&>(null_backend) : static_cast<Backend&>(backend),
      .limiter = limiter,
      .keys = keys,
      .catalog = catalog,
      .random = &platform::entropy,
      .region = config.region_name(),
      .node = node,
      .resp_key_policy =
          config.requires_resp_auth() ? KeyPolicy::kRequired : KeyPolicy::kNotRequired,
      .metrics_key_policy =
          (is_public(config.http) || is_public(config.https)) && !config.public_metrics
              ? KeyPolicy::kRequired
              : KeyPolicy::kNotRequired,
      .started = clock.now().mono,
      .origin = region.origin() ? &region.origin()->metrics() : nullptr,
      .ledger = others.ledger() ? &others.ledger()->metrics() : nullptr};

  service.namespaces.replace(config.namespace_consistency);
  service.check_rules.replace(config.check);
  catalog.configure(config.namespaces);
  const frontends::LoopLimits limits = limits_of(config, threads);
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < threads; ++i) {
    workers.push_back(std::make_unique<Worker>(clock, limits, platform::entropy()));
    workers.back()->next_id = i + 1;
    workers.back()->loop.run_every(kBeatEvery, [&clock, worker = workers.back().get()] {
      worker->beat.store(clock.now().mono.time_since_epoch().count(), std::memory_order_relaxed);
    });
  }
  const auto open_http = [&](Worker& worker) {
    return [&service, &worker] {
      return std::make_unique<frontends::HttpSession>(service, worker.http_scratch);
    };
  };
  const auto open_resp = [&](Worker& worker) {
    return [&service, &worker, threads] {
      const uint64_t id = worker.next_id;
      worker.next_id += threads;
      return std::make_unique<frontends::RespSession>(service, worker.resp_scratch, id);
    };
  };
  using frontends::http_refusal;
  using frontends::resp_refusal;
  if (config.http) {
    config.http = listen(workers, *config.http, service.http, http_refusal, open_http);
  }
  if (config.resp) {
    config.resp = listen(workers, *config.resp, service.resp, resp_refusal, open_resp);
  }
  if (config.https) {
    config.https = listen(workers, *config.https, service.http, http_refusal, open_http, tls.get());
  }
  if (config.resps) {
    config.resps = listen(workers, *config.resps, service.resp, resp_refusal, open_resp, tls.get());
  }
  // Removed after the last connection is closed.
  const auto http_socket =
      listen_at_socket(workers, config.http_socket, service.http, http_refusal, open_http);
  const auto resp_socket =
      listen_at_socket(workers, config.resp_socket, service.resp, resp_refusal, open_resp);
  RefusalLog refusals(service.http, service.resp);
  workers[0]->loop.run_every(kLogRefusalsEvery, [&] {
    for (const std::string& line : refusals.run_once(clock.now().mono)) {
      command_line::print_error("{}\n", line);
    }
  });

  platform::HeapTrim trim;
  workers[0]->loop.run_every(kTrimEvery, [&] { trim.run_once(); });

  CatalogLog catalog_log(catalog);
  workers[0]->loop.run_every(kLogRefusalsEvery, [&] { catalog_log.run_once(); });

  // After everything that can fail at startup: a new key is shown only once.
  const RootKeyInfo root_key = load_root_key(config);
  keys.add(root_key.key);
  catalog.start();
  wait_for(clock, catalog);
  platform::ThreadGroup group;
  for (const auto& worker : workers) group.start([&worker] { worker->loop.run(); });
  region.start();
  others.start();
  Runner runner(clock, limiter,
                {.after_replay = [&](Instant now) { region.report(now.mono); },
                 .after_sync = [&](Instant) { others.report(limiter.sync_stats()); }});
  runner.start();
  if (state_file) state_file->start(limiter);
  print_welcome(config, root_key, node,
                {.origin = region.name(),
                 .ledger = others.name(),
                 .certificate = tls ? tls->certificate() : ""});
  manager.ready();
  const ReloadTargets targets{.limiter = limiter,
                              .namespaces = service.namespaces,
                              .check_rules = service.check_rules,
                              .catalog = catalog,
                              .keys = keys,
                              .key_is_in_folder = root_key.from_folder,
                              .tls = tls.get()};
  FileWatch file(config.file);
  const StopReason end =
      supervise(signals, manager,
                {.reload = [&] { reload(config, reload_config, targets); },
                 .reopen_logs = [&] { reopen_log(config.log); },
                 .is_alive = [&] { return are_alive(workers, clock.now().mono); },
                 .reason_to_end = [&] { return others.conflict(); },
                 .check_files =
                     [&] {
                       if (tls) check_certificate(*tls);
                       if (file.has_changed()) reload(config, reload_config, targets);
                     }});
  manager.stopping();
  if (!end.reason.empty()) command_line::print_error("weir: {}\n", end.reason);
  command_line::print_error("\nweir: draining: answering pending requests, then stopping\n");
  service.draining.store(true, std::memory_order_relaxed);
  const auto how = end.interrupted ? frontends::Drain::kImmediate : frontends::Drain::kGraceful;
  for (const auto& worker : workers) worker->loop.drain(how);
  {
    const ShutdownEscalation escalation(signals, [&] {
      for (const auto& worker : workers) worker->loop.abort();
    });
    group.join();
    if (state_file) state_file->stop();
    const DrainReport drained = runner.drain();
    region.report(drained);
    others.report(drained);
  }
  runner.stop();
  catalog.stop();  // before the loops are destroyed, which receive its replies
  others.stop();
  region.stop();  // before the loops are destroyed, which receive its last replies
  if (!end.reason.empty()) throw std::runtime_error(end.reason);
}

}  // namespace weir::server

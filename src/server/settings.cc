#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/config.h"
#include "server/config_values.h"

namespace weir::server {
namespace {

// A level for all namespaces, then those that differ: "converge,payments=exact".
std::string read_consistency(Config& config, const std::string& text) {
  const std::string remedy =
      "must be converge, exact or relaxed, and may name namespaces: converge,payments=exact";
  std::optional<Consistency> all;
  frontends::NamespaceConsistency::Map namespaces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = item.rfind('=');
    const bool names = equals != std::string::npos;
    const auto level = consistency_from(names ? item.substr(equals + 1) : item);
    if (!level || (names ? equals == 0 : all.has_value())) return remedy;
    if (!names) {
      all = level;
    } else if (!namespaces.emplace(item.substr(0, equals), *level).second) {
      return remedy;
    }
  }
  if (!all) return remedy;
  config.consistency = *all;
  config.namespace_consistency = std::move(namespaces);
  return {};
}

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = {
      {.name = "http",
       .value = "ADDRESS",
       .initial = "127.0.0.1:7070",
       .meaning = "Listen for HTTP at this address; off: no HTTP; port 0: any free port",
       .set = [](Config& config,
                 const std::string& text) { return read_address(text, config.http); }},
      {.name = "resp",
       .value = "ADDRESS",
       .initial = "127.0.0.1:7071",
       .meaning = "Listen for the Redis protocol at this address; off: none; port 0: any free port",
       .set = [](Config& config,
                 const std::string& text) { return read_address(text, config.resp); }},
      {.name = "http-socket",
       .value = "PATH",
       .initial = "off",
       .meaning = "Listen for HTTP also at this Unix socket, with mode 0660",
       .set = [](Config& config,
                 const std::string& text) { return read_socket_path(text, config.http_socket); }},
      {.name = "resp-socket",
       .value = "PATH",
       .initial = "off",
       .meaning = "Listen for the Redis protocol also at this Unix socket, with mode 0660",
       .set = [](Config& config,
                 const std::string& text) { return read_socket_path(text, config.resp_socket); }},
      {.name = "https",
       .value = "ADDRESS",
       .initial = "off",
       .meaning =
           "Listen for HTTP with TLS at this address, in addition; needs tls-cert and tls-key",
       .set = [](Config& config,
                 const std::string& text) { return read_address(text, config.https); }},
      {.name = "resps",
       .value = "ADDRESS",
       .initial = "off",
       .meaning = "Listen for the Redis protocol with TLS at this address, in addition; needs "
                  "tls-cert and tls-key",
       .set = [](Config& config,
                 const std::string& text) { return read_address(text, config.resps); }},
      {.name = "tls-cert",
       .value = "FILE",
       .initial = "none",
       .meaning = "Use the certificate in this PEM file, followed by intermediate ones. A changed "
                  "file is loaded within about a second",
       .set = [](Config& config,
                 const std::string& text) { return read_pem_file(text, config.tls.cert); },
       .live = true},
      {.name = "tls-key",
       .value = "FILE",
       .initial = "none",
       .meaning = "Use the private key in this PEM file, which must not be encrypted",
       .set = [](Config& config,
                 const std::string& text) { return read_pem_file(text, config.tls.key); },
       .live = true},
      {.name = "tls-client-ca",
       .value = "FILE",
       .initial = "none",
       .meaning = "Require from clients of https and resps a certificate that an authority in this "
                  "PEM file has signed, in addition to the key",
       .set = [](Config& config,
                 const std::string& text) { return read_pem_file(text, config.tls.client_ca); },
       .live = true},
      {.name = "tls-min-version",
       .value = "VERSION",
       .initial = "1.2",
       .meaning = "Refuse older versions of TLS: 1.2 or 1.3",
       .set =
           [](Config& config, const std::string& text) {
             return read_tls_version(text, config.tls.min_version);
           },
       .live = true},
      {.name = "allow-public",
       .value = "BOOL",
       .initial = "false",
       .meaning = "Allow addresses other than loopback; the Redis protocol then requires AUTH with "
                  "a root key",
       .set = [](Config& config,
                 const std::string& text) { return read_bool(text, config.allow_public); }},
      {.name = "resp-auth",
       .value = "RULE",
       .initial = "auto",
       .meaning = "Require AUTH from clients of the Redis protocol: required, off (on loopback "
                  "only), or auto: required with allow-public",
       .set = [](Config& config, const std::string& text) -> std::string {
         if (text != "auto" && text != "required" && text != "off") {
           return "must be auto, required or off";
         }
         config.resp_auth = text == "auto"  ? RespAuth::kAuto
                            : text == "off" ? RespAuth::kOff
                                            : RespAuth::kRequired;
         return {};
       }},
      {.name = "public-metrics",
       .value = "BOOL",
       .initial = "false",
       .meaning = "Serve /metrics without a key also at addresses other than loopback",
       .set = [](Config& config,
                 const std::string& text) { return read_bool(text, config.public_metrics); }},
      {.name = "max-connections",
       .value = "N",
       .initial = "10000",
       .range = "10 to 1000000",
       .meaning =
           "Limit the connections of each front end. Clients without a valid key may use four "
           "fifths of them; at the limit the one that has been idle longest is closed",
       .set =
           [](Config& config, const std::string& text) {
             return assign(text, {10, 1'000'000}, config.max_connections);
           }},
      {.name = "max-connections-per-address",
       .value = "N",
       .initial = "auto",
       .range = "1 to 1000000, or auto",
       .meaning = "Limit the connections of one client address without a valid key. auto: half of "
                  "max-connections",
       .set =
           [](Config& config, const std::string& text) {
             if (text == "auto") {
               config.max_connections_per_address = 0;
               return std::string();
             }
             const std::string error =
                 assign(text, {1, 1'000'000}, config.max_connections_per_address);
             return error.empty() ? error : error + ", or auto";
           }},
      {.name = "connection-memory",
       .value = "SIZE",
       .initial = "256MiB",
       .range = "16MiB to 16TiB",
       .meaning = "Limit the bytes in the buffers of all connections of a front end",
       .set =
           [](Config& config, const std::string& text) {
             return read_size(text, config.connection_memory,
                              {.min_shift = 24, .text = "a size from 16MiB to 16TiB, like 256MiB"});
           }},
      {.name = "drain-delay",
       .value = "TIME",
       .initial = "0s",
       .range = "0s to 10m",
       .meaning =
           "After SIGTERM, accept connections for this long while /readyz returns 503, so that "
           "load balancers notice. Use 5s with Kubernetes",
       .set = [](Config& config,
                 const std::string& text) { return read_time(text, config.drain_delay); }},
      {.name = "drain-grace",
       .value = "TIME",
       .initial = "5s",
       .range = "0s to 10m",
       .meaning =
           "After drain-delay, close connections after one more request or this time. Ctrl-C "
           "skips both",
       .set = [](Config& config,
                 const std::string& text) { return read_time(text, config.drain_grace); }},
      {.name = "region",
       .value = "NAME",
       .initial = "local",
       .meaning = "Count for this region; required with a shared ledger (mysql or sqlite:PATH)",
       .set = [](Config& config,
                 const std::string& text) { return read_name(text, config.region); }},
      {.name = "node",
       .value = "NAME",
       .initial = "generated",
       .meaning = "Name this process; unique in its region",
       .set = [](Config& config, const std::string& text) { return read_name(text, config.node); }},
      {.name = "data",
       .value = "FOLDER",
       .initial = "weir-data",
       .meaning = "Store the hash of the root key and the default ledger in this folder",
       .set = [](Config& config, const std::string& text) -> std::string {
         if (text.empty()) return "must name a folder";
         config.data = text;
         return {};
       }},
      {.name = "origin",
       .value = "URL",
       .initial = "memory",
       .meaning =
           "Share counts in the region through redis://[user:pass@]host[:port][/db]; memory: "
           "count in this process only. WEIR_ORIGIN_PASSWORD may hold the password",
       .set = [](Config& config,
                 const std::string& text) { return read_origin(text, config.origin); },
       .secret = true},
      {.name = "origin-password-file",
       .value = "FILE",
       .initial = "none",
       .meaning = "Read the password of the origin from the first line of this file",
       .set =
           [](Config& config, const std::string& text) {
             return read_password_file(text, config.origin_password_file);
           }},
      {.name = "read-deadline",
       .value = "TIME",
       .initial = "300ms",
       .range = "1ms to 10s",
       .meaning =
           "Wait at most this long for the origin, then decide on the counts in memory, with the "
           "basis degraded",
       .set = [](Config& config, const std::string& text) -> std::string {
         const TimeRange range{.min = Millis(1),
                               .max = Millis(10'000),
                               .text = "a time from 1ms to 10s, like 300ms or 2s"};
         return read_time(text, config.read_deadline, range);
       }},
      {.name = "on-origin-loss",
       .value = "POLICY",
       .initial = "local",
       .meaning =
           "Without the origin: local decides with local counts, deny denies, share gives each "
           "node its share of the limit",
       .set = [](Config& config, const std::string& text) -> std::string {
         const auto policy = on_origin_loss_from(text);
         if (!policy) return "must be local, deny or share";
         config.on_origin_loss = *policy;
         return {};
       },
       .live = true},
      {.name = "consistency",
       .value = "LEVEL",
       .initial = "converge",
       .meaning = "How far the processes of a region agree before they admit a request, unless it "
                  "says so itself: converge (at most 1.25 times the limit), exact (at most the "
                  "limit, a round trip each) or relaxed (a limit for each process). Windows only: "
                  "with converge, too, the origin decides each request of the other algorithms. "
                  "Namespaces may differ: converge,payments=exact",
       .set = read_consistency,
       .live = true},
      {.name = "ledger",
       .value = "URL",
       .initial = "auto",
       .meaning = "Share counts between regions through mysql://user:pass@host[:port]/db, "
                  "sqlite:PATH, or none. auto: a file in the data folder, or none with an origin. "
                  "For TLS add ?tls=verify and &tls-ca=FILE. WEIR_LEDGER_PASSWORD may hold the "
                  "password",
       .set = [](Config& config, const std::string& text) { return read_ledger(text, config); },
       .secret = true},
      {.name = "ledger-password-file",
       .value = "FILE",
       .initial = "none",
       .meaning = "Read the password of the ledger from the first line of this file",
       .set =
           [](Config& config, const std::string& text) {
             return read_password_file(text, config.ledger_password_file);
           }},
      {.name = "ledger-clean",
       .value = "RULE",
       .initial = "on",
       .meaning = "Delete expired rows and old batches of the ledger: on, or off if a job runs "
                  "'weir ledger clean'",
       .set = [](Config& config, const std::string& text) -> std::string {
         if (text != "on" && text != "off") return "must be on or off";
         config.clean_ledger = text == "on";
         return {};
       }},
      {.name = "audit-retention",
       .value = "TIME",
       .initial = "90d",
       .range = "1h to 3650d",
       .meaning = "Delete entries of the audit log that are older. Of entries about resets, those "
                  "of the last 1000000 changes are kept at most",
       .set =
           [](Config& config, const std::string& text) {
             return read_time(text, config.audit_retention,
                              {.min = std::chrono::hours(1),
                               .max = std::chrono::hours(24 * 3650),
                               .text = "a time from 1h to 3650d, like 90d"});
           }},
      {.name = "log",
       .value = "FILE",
       .initial = "stderr",
       .meaning = "Write log messages to this file; SIGUSR1 reopens it for log rotation",
       .set = [](Config& config, const std::string& text) -> std::string {
         if (text.empty()) return "must name a file, or be stderr";
         config.log = text == "stderr" ? "" : text;
         return {};
       },
       .live = true},
      {.name = "threads",
       .value = "N",
       .initial = "0",
       .range = "0 to 256",
       .meaning = "Run this number of worker threads; 0: one per core",
       .set =
           [](Config& config, const std::string& text) {
             return assign(text, {0, 256}, config.threads);
           }},
      {.name = "memory",
       .value = "SIZE",
       .initial = "auto",
       .range = "1MiB to 16TiB, or auto",
       .meaning =
           "Limit the bytes of all counts, like 512MiB or 2GiB; at the limit, new tuples share "
           "counters and are limited more strictly. auto: 1 KiB per unit of capacity, 2 KiB "
           "with a ledger",
       .set =
           [](Config& config, const std::string& text) {
             if (text != "auto") return read_size(text, config.memory);
             config.memory = 0;
             return std::string();
           }},
      {.name = "capacity",
       .value = "N",
       .initial = "auto",
       .range = fmt::format("{} to {}, or auto", memory::kMinCapacity, memory::kMaxCapacity),
       .meaning =
           "Limit the tuples in memory, about 480 bytes each; at the limit, new tuples share "
           "counters and are limited more strictly. auto: as many as fit into memory, or "
           "1048576",
       .set =
           [](Config& config, const std::string& text) {
             if (text == "auto") {
               config.capacity = 0;
               return std::string();
             }
             const NumberRange range{memory::kMinCapacity, memory::kMaxCapacity};
             const std::string error = assign(text, range, config.capacity);
             return error.empty() ? error : error + ", or auto";
           }},
      {.name = "backend",
       .value = "NAME",
       .initial = "limiter",
       .meaning =
           "Decide with limiter, or admit everything with null, to measure the front ends alone",
       .set = [](Config& config, const std::string& text) -> std::string {
         if (text != "limiter" && text != "null") return "must be limiter or null";
         config.backend = text == "null" ? BackendKind::kNull : BackendKind::kLimiter;
         return {};
       }},
  };
  return all;
}

}  // namespace

std::string describe_error(const Setting& setting, const std::string& value,
                           const std::string& error) {
  return setting.secret ? fmt::format("{} {}", setting.name, error)
                        : fmt::format("{} is '{}': it {}", setting.name, value, error);
}

std::span<const Setting> settings() {
  return all_settings();
}

std::string apply(Config& config, const Setting& setting, const std::string& value) {
  std::string error = setting.set(config, value);
  if (error.empty()) config.given[setting.name] = value;
  return error;
}

std::vector<std::string> changed_settings(const Config& before, const Config& after, bool live) {
  const auto value = [](const Config& config, const Setting& setting) {
    const auto found = config.given.find(setting.name);
    return found == config.given.end() ? setting.initial : found->second;
  };
  std::vector<std::string> names;
  for (const Setting& setting : all_settings()) {
    if (setting.live == live && value(before, setting) != value(after, setting)) {
      names.push_back(setting.name);
    }
  }
  if (live && before.check != after.check) names.emplace_back(kCheckSection);
  return names;
}

std::string variable_of(const Setting& setting) {
  std::string name = "WEIR_" + setting.name;
  for (char& c : name) {
    if (c == '-') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

}  // namespace weir::server

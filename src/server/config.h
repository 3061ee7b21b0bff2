// The configuration of a server: the same names as flags, environment variables and YAML keys.
//
// settings.cc holds the one table of settings; flags, variables, file, help and errors come from
// it.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalog/snapshot.h"
#include "frontends/http/check_rules.h"
#include "frontends/loop.h"
#include "frontends/namespace_consistency.h"
#include "frontends/tls_context.h"
#include "ledgers/sql/ledger_address.h"
#include "memory/memory_plan.h"
#include "origins/redis/redis_link.h"
#include "weir/ledger.h"

namespace weir::server {

using frontends::Address;

// The backend of the front ends. kNull admits everything, to measure the front ends alone.
enum class BackendKind : uint8_t { kLimiter, kNull };

// Whether clients of the Redis protocol must authenticate. kAuto: only with allow-public.
enum class RespAuth : uint8_t { kAuto, kRequired, kOff };

// The ledger. kUsual: a file in the data folder for a process without an origin, otherwise none.
enum class LedgerChoice : uint8_t { kUsual, kNone, kGiven };

struct Config {
  std::optional<Address> http = Address{.host = "127.0.0.1", .port = 7070};
  std::optional<Address> resp = Address{.host = "127.0.0.1", .port = 7071};
  std::string http_socket{};  // path of a Unix socket; empty: none
  std::string resp_socket{};
  std::optional<Address> https{};  // with TLS
  std::optional<Address> resps{};
  frontends::TlsSettings tls{};
  bool allow_public = false;
  RespAuth resp_auth = RespAuth::kAuto;
  bool public_metrics = false;             // /metrics needs no key on public addresses
  size_t max_connections = 10'000;         // of each front end
  size_t max_connections_per_address = 0;  // without a valid key; 0: half of max_connections
  uint64_t connection_memory = uint64_t{256} << 20;  // bytes of each front end's buffers
  Millis drain_delay{0};
  Millis drain_grace{5'000};
  std::string region{};  // empty: not given
  std::string node{};    // empty: generated
  std::string data = "weir-data";
  unsigned threads = 0;  // 0: one per core
  size_t capacity = 0;   // 0: from memory, or 2^20
  uint64_t memory = 0;   // bytes; 0: from capacity
  BackendKind backend = BackendKind::kLimiter;
  std::optional<origins::RedisAddress> origin{};  // none: counts in this process only
  std::string origin_password_file{};
  Millis read_deadline{300};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  Consistency consistency = Consistency::kConverge;
  frontends::NamespaceConsistency::Map namespace_consistency{};
  LedgerChoice ledger_choice = LedgerChoice::kUsual;
  ledgers::LedgerAddress ledger{};  // with LedgerChoice::kGiven
  std::string ledger_password_file{};
  bool clean_ledger = true;
  Millis audit_retention{std::chrono::hours(24 * 90)};
  std::string log{};                           // a file; empty: standard error
  frontends::CheckRules check{};               // from the file only
  catalog::ConfiguredNamespaces namespaces{};  // from the file only
  std::string file{};                          // the settings file; empty: none
  // The text of each setting that was given; see apply().
  std::map<std::string, std::string> given{};

  // The plan that capacity and memory result in.
  [[nodiscard]] memory::MemoryPlan memory_plan() const {
    return memory::memory_plan({.capacity = capacity,
                                .memory = memory,
                                .default_capacity = size_t{1} << 20,
                                .has_ledger = has_ledger()});
  }
  [[nodiscard]] bool has_ledger() const {
    if (ledger_choice != LedgerChoice::kUsual) return ledger_choice == LedgerChoice::kGiven;
    // A process that shares counts in a region has no use for a local file.
    return !origin && backend != BackendKind::kNull;
  }
  [[nodiscard]] bool requires_resp_auth() const {
    return resp_auth == RespAuth::kAuto ? allow_public : resp_auth == RespAuth::kRequired;
  }
  [[nodiscard]] bool uses_tls() const { return https || resps; }
  [[nodiscard]] std::string region_name() const { return region.empty() ? "local" : region; }
};

// Names in a file that are not settings, but sections: the rules of /v1/check, and the default
// limits of namespaces.
inline constexpr const char* kCheckSection = "check";
inline constexpr const char* kNamespacesSection = "namespaces";

struct Setting {
  std::string name;     // "http"
  std::string value;    // placeholder in the help: "ADDRESS"
  std::string initial;  // the default, as text
  std::string range{};  // of a number; empty: the meaning says it
  std::string meaning;
  // Parses a value. Returns the error, or an empty text.
  std::string (*set)(Config& config, const std::string& value);
  bool secret = false;  // errors do not repeat the value
  bool live = false;    // applied by a reload; other settings need a restart
};

// Sets a value and records it in `given`. Returns the error, or an empty text.
[[nodiscard]] std::string apply(Config& config, const Setting& setting, const std::string& value);

// The names of the settings whose values differ, with this value of `live`.
[[nodiscard]] std::vector<std::string> changed_settings(const Config& before, const Config& after,
                                                        bool live);

// The error of a value in one line, without secrets.
[[nodiscard]] std::string describe_error(const Setting& setting, const std::string& value,
                                         const std::string& error);

[[nodiscard]] std::span<const Setting> settings();

// A problem and its position: line and column from 1, or 0 if it has none.
struct ConfigProblem {
  int line = 0;
  int column = 0;
  std::string text;
};

// Reads a file into `config`. Empty: the file is valid.
[[nodiscard]] std::vector<ConfigProblem> read_config(const std::string& path, Config& config);
[[nodiscard]] std::vector<ConfigProblem> read_config_text(const std::string& yaml, Config& config);

// The environment variable of a setting: WEIR_ORIGIN_PASSWORD_FILE for origin-password-file.
[[nodiscard]] std::string variable_of(const Setting& setting);

// Reads the variables of all settings; an empty variable is ignored. `get` returns nullptr for an
// unset variable.
using FindVariable = std::function<const char*(const std::string& name)>;
[[nodiscard]] std::vector<ConfigProblem> read_environment(const FindVariable& get, Config& config);

// The error of settings that are valid alone but conflict; empty: none.
[[nodiscard]] std::string find_conflict(const Config& config);

[[nodiscard]] bool is_loopback(const Address& address);

}  // namespace weir::server

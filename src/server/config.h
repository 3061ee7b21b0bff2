// How a server is set up: the same names as flags, in the environment and in a YAML file.
//
// One table says what there is; flags, variables, file, help and errors are made from it.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontends/loop.h"
#include "ledgers/sql/ledger_address.h"
#include "memory/memory_plan.h"
#include "origins/redis/redis_link.h"
#include "weir/ledger.h"

namespace weir::server {

using frontends::Address;

// What answers behind the doors. kNull says yes to everything: it prices the doors alone.
enum class Backend : uint8_t { kLimiter, kNull };

// Whether clients of the Redis protocol must AUTH. Auto: with allow-public.
enum class RespAuth : uint8_t { kAuto, kRequired, kOff };

// Where other regions are heard of. Usual: in a file of the data folder, for a process without an
// origin, else nowhere.
enum class LedgerChoice : uint8_t { kUsual, kNone, kGiven };

struct Config {
  std::optional<Address> http = Address{.host = "127.0.0.1", .port = 7070};
  std::optional<Address> resp = Address{.host = "127.0.0.1", .port = 7071};
  std::string http_socket{};  // path of a Unix socket; empty: none
  std::string resp_socket{};
  bool allow_public = false;
  RespAuth resp_auth = RespAuth::kAuto;
  bool public_metrics = false;                       // without a key where others can reach them
  size_t max_connections = 10'000;                   // of each front end
  size_t max_connections_per_address = 0;            // without a key; 0: half of them
  uint64_t connection_memory = uint64_t{256} << 20;  // bytes of each front end's buffers
  Millis drain_delay{0};
  Millis drain_grace{5'000};
  std::string region{};  // empty: not given
  std::string node{};    // empty: to be generated
  std::string data = "weir-data";
  unsigned threads = 0;  // 0: one per core
  size_t capacity = 0;   // 0: from memory, or 2^20
  uint64_t memory = 0;   // bytes; 0: from capacity
  Backend backend = Backend::kLimiter;
  std::optional<origins::RedisAddress> origin{};  // none: this process is alone
  std::string origin_password_file{};
  OnOriginLoss on_origin_loss = OnOriginLoss::kLocal;
  LedgerChoice ledger_choice = LedgerChoice::kUsual;
  ledgers::LedgerAddress ledger{};  // if it is given
  std::string ledger_password_file{};
  PublishPolicy publish_policy = PublishPolicy::kBounded;
  std::string log{};  // a file; empty: standard error
  // Each setting that was given, as it was written; see apply().
  std::map<std::string, std::string> given{};

  // What the two above come to.
  [[nodiscard]] memory::MemoryPlan memory_plan() const {
    return memory::memory_plan({.capacity = capacity,
                                .memory = memory,
                                .default_capacity = size_t{1} << 20,
                                .has_ledger = has_ledger()});
  }
  [[nodiscard]] bool has_ledger() const {
    if (ledger_choice != LedgerChoice::kUsual) return ledger_choice == LedgerChoice::kGiven;
    // A process that shares its counts in a region has nothing to gain from a file of its own.
    return !origin && backend != Backend::kNull;
  }
  [[nodiscard]] bool wants_resp_auth() const {
    return resp_auth == RespAuth::kAuto ? allow_public : resp_auth == RespAuth::kRequired;
  }
  [[nodiscard]] std::string region_name() const { return region.empty() ? "local" : region; }
};

struct Setting {
  std::string name;     // "http"
  std::string value;    // what stands for its value in help: "ADDRESS"
  std::string initial;  // as it would be written
  std::string meaning;
  // Reads a value; returns what is wrong with it, or nothing.
  std::string (*set)(Config& config, const std::string& value);
  bool secret = false;  // its value is not repeated in errors
  bool live = false;    // a reload applies it; the others need a restart
};

// Gives a setting a value and notes it; returns what is wrong with it, or nothing.
[[nodiscard]] std::string apply(Config& config, const Setting& setting, const std::string& value);

// The settings whose values differ, as far as `live` says; by name.
[[nodiscard]] std::vector<std::string> changed_settings(const Config& before, const Config& after,
                                                        bool live);

// What is wrong with a value, in one line that does not tell secrets.
[[nodiscard]] std::string complaint(const Setting& setting, const std::string& value,
                                    const std::string& wrong);

[[nodiscard]] std::span<const Setting> settings();

// Something wrong, and where: line and column from 1, or 0 where there is no place.
struct ConfigProblem {
  int line = 0;
  int column = 0;
  std::string text;
};

// Reads a file into `config`. Empty: nothing is wrong.
[[nodiscard]] std::vector<ConfigProblem> read_config(const std::string& path, Config& config);
[[nodiscard]] std::vector<ConfigProblem> read_config_text(const std::string& yaml, Config& config);

// The environment variable of a setting: WEIR_ORIGIN_PASSWORD_FILE for origin-password-file.
[[nodiscard]] std::string variable_of(const Setting& setting);

// Reads the variables of all settings; one that is empty is not given. `get` finds a variable, or
// nullptr.
using FindVariable = std::function<const char*(const std::string& name)>;
[[nodiscard]] std::vector<ConfigProblem> read_environment(const FindVariable& get, Config& config);

// What is wrong with settings that are right each by itself; empty: nothing.
[[nodiscard]] std::string contradiction(const Config& config);

[[nodiscard]] bool is_loopback(const Address& address);

}  // namespace weir::server

#include "server/config.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>


namespace weir::server {
namespace {

struct Range {
  uint64_t least = 0;
  uint64_t most = 0;
};

std::string read_number(const std::string& text, Range range, uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= range.least && value <= range.most) return {};
  return fmt::format("must be a whole number from {} to {}", range.least, range.most);
}

// "host:port", "[v6]:port", or "off".
std::string read_address(const std::string& text, std::optional<Address>& value) {
  const std::string wanted = "must be an IP address and a port, like 127.0.0.1:7070, or off";
  if (text == "off") {
    value.reset();
    return {};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wanted;
  std::string host = text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  in_addr four{};
  in6_addr six{};
  const bool valid = brackets ? inet_pton(AF_INET6, host.c_str(), &six) == 1
                              : inet_pton(AF_INET, host.c_str(), &four) == 1;
  uint64_t port = 0;
  if (!valid || !read_number(text.substr(colon + 1), {0, 65535}, port).empty()) return wanted;
  value = Address{.host = host, .port = static_cast<uint16_t>(port)};
  return {};
}

std::string read_socket_path(const std::string& text, std::string& value) {
  if (text.empty() || text.size() > frontends::kMaxSocketPath) {
    return fmt::format("must be a path of 1 to {} bytes, like /run/weir/resp.sock, or off",
                       frontends::kMaxSocketPath);
  }
  value = text == "off" ? "" : text;
  return {};
}

std::string read_name(const std::string& text, std::string& value) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), fits)) {
    return "must be 1 to 64 letters, digits, '-', '_' or '.'";
  }
  value = text;
  return {};
}

// memory, or the address of a Redis server.
std::string read_origin(std::string_view text, std::optional<origins::RedisAddress>& value) {
  const std::string wanted =
      "must be memory or redis://[user:password@]host[:port][/database], like "
      "redis://127.0.0.1:6379";
  if (text == "memory") {
    value.reset();
    return {};
  }
  const auto address = origins::parse_redis_address(text);
  if (!address) {
    const Error& error = address.error();
    return error.field.empty() ? wanted : error.detail + ": " + error.fix;
  }
  value = *address;
  return {};
}

// none, auto, or where it is.
std::string read_ledger(const std::string& text, Config& config) {
  if (text == "none" || text == "auto") {
    config.ledger_choice = text == "none" ? LedgerChoice::kNone : LedgerChoice::kUsual;
    return {};
  }
  const auto address = ledgers::parse_ledger_address(text);
  if (!address) {
    const Error& error = address.error();
    return error.detail + (error.fix.empty() ? "" : ": " + error.fix);
  }
  config.ledger_choice = LedgerChoice::kGiven;
  config.ledger = *address;
  return {};
}

std::string read_password_file(const std::string& text, std::string& file) {
  if (text.empty()) return "must name a file, or be none";
  file = text == "none" ? "" : text;
  return {};
}

std::string read_bool(const std::string& text, bool& value) {
  if (text != "true" && text != "false") return "must be true or false";
  value = text == "true";
  return {};
}

// A span of time: 500ms, 5s, 1m.
std::string read_time(const std::string& text, Millis& value) {
  constexpr uint64_t kMost = 600'000;
  const std::string wanted = "must be a time from 0s to 10m, like 500ms, 5s or 1m";
  const std::pair<std::string_view, uint64_t> units[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  for (const auto& [name, factor] : units) {
    uint64_t number = 0;
    if (name != unit || !read_number(text.substr(0, digits), {0, kMost / factor}, number).empty()) {
      continue;
    }
    value = Millis(static_cast<int64_t>(number * factor));
    return {};
  }
  return wanted;
}

struct SizeRange {
  int least_shift = 20;
  std::string text = "a size from 1MiB to 16TiB, like 512MiB, 2GiB or 1073741824, or auto";
};

// A number of bytes: 1073741824, 512MiB, 2GiB.
std::string read_size(const std::string& text, uint64_t& value, const SizeRange& sizes = {}) {
  constexpr int kMostShift = 44;
  const std::string wanted = "must be " + sizes.text;
  const std::pair<std::string_view, int> units[] = {{"", 0},     {"B", 0},    {"KiB", 10},
                                                    {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  const auto known = std::find_if(std::begin(units), std::end(units),
                                  [&](const auto& each) { return each.first == unit; });
  if (known == std::end(units)) return wanted;
  const Range range{.least = 1, .most = uint64_t{1} << (kMostShift - known->second)};
  uint64_t number = 0;
  if (!read_number(text.substr(0, digits), range, number).empty()) return wanted;
  const uint64_t bytes = number << known->second;
  if (bytes >> sizes.least_shift == 0) return wanted;
  value = bytes;
  return {};
}

template <typename Number>
std::string assign(const std::string& text, Range range, Number& target) {
  uint64_t value = 0;
  std::string wrong = read_number(text, range, value);
  if (wrong.empty()) target = static_cast<Number>(value);
  return wrong;
}

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = {
      {"http", "ADDRESS", "127.0.0.1:7070",
       "Where HTTP is served; port 0 picks a free one, off turns it off",
       [](Config& config, const std::string& text) { return read_address(text, config.http); }},
      {"resp", "ADDRESS", "127.0.0.1:7071",
       "Where the Redis protocol is served; port 0 picks a free one, off turns it off",
       [](Config& config, const std::string& text) { return read_address(text, config.resp); }},
      {"http-socket", "PATH", "off",
       "A Unix socket where HTTP is served as well, for the owner and the group of the process",
       [](Config& config, const std::string& text) {
         return read_socket_path(text, config.http_socket);
       }},
      {"resp-socket", "PATH", "off",
       "A Unix socket where the Redis protocol is served as well, for the owner and the group of "
       "the process",
       [](Config& config, const std::string& text) {
         return read_socket_path(text, config.resp_socket);
       }},
      {"allow-public", "BOOL", "false",
       "Allow addresses that are not loopback; the Redis protocol then wants AUTH with a root key",
       [](Config& config, const std::string& text) {
         return read_bool(text, config.allow_public);
       }},
      {"resp-auth", "RULE", "auto",
       "Whether clients of the Redis protocol must AUTH: required, off (on loopback only), or "
       "auto: "
       "required with allow-public",
       [](Config& config, const std::string& text) -> std::string {
         if (text != "auto" && text != "required" && text != "off") {
           return "must be auto, required or off";
         }
         config.resp_auth = text == "auto"  ? RespAuth::kAuto
                            : text == "off" ? RespAuth::kOff
                                            : RespAuth::kRequired;
         return {};
       }},
      {"public-metrics", "BOOL", "false",
       "Serve /metrics without a key also where http is not on loopback",
       [](Config& config, const std::string& text) {
         return read_bool(text, config.public_metrics);
       }},
      {"max-connections", "N", "10000",
       "Connections of each front end. Four fifths of them for clients that have shown no key "
       "yet; the one that has been idle for longest makes room for a new one",
       [](Config& config, const std::string& text) {
         return assign(text, {10, 1'000'000}, config.max_connections);
       }},
      {"max-connections-per-address", "N", "auto",
       "Connections of one client address that have shown no key. auto: half of max-connections",
       [](Config& config, const std::string& text) {
         if (text == "auto") {
           config.max_connections_per_address = 0;
           return std::string();
         }
         const std::string wrong = assign(text, {1, 1'000'000}, config.max_connections_per_address);
         return wrong.empty() ? wrong : wrong + ", or auto";
       }},
      {"connection-memory", "SIZE", "256MiB",
       "Bytes that the buffers of all connections of a front end may take",
       [](Config& config, const std::string& text) {
         return read_size(text, config.connection_memory,
                          {.least_shift = 24, .text = "a size from 16MiB to 16TiB, like 256MiB"});
       }},
      {"drain-delay", "TIME", "0s",
       "After SIGTERM, how long connections are still accepted while /readyz answers 503: as long "
       "as load balancers need to notice. 5s with Kubernetes",
       [](Config& config, const std::string& text) { return read_time(text, config.drain_delay); }},
      {"drain-grace", "TIME", "5s",
       "After that, how long open connections may ask once more. Ctrl-C waits for neither",
       [](Config& config, const std::string& text) { return read_time(text, config.drain_grace); }},
      {"region", "NAME", "local",
       "The region this process counts for; needed with a ledger that can be shared: all but auto",
       [](Config& config, const std::string& text) { return read_name(text, config.region); }},
      {"node", "NAME", "generated", "The name of this process among those of its region",
       [](Config& config, const std::string& text) { return read_name(text, config.node); }},
      {"data", "FOLDER", "weir-data",
       "Where the hash of the root key is kept, and the usual ledger",
       [](Config& config, const std::string& text) -> std::string {
         if (text.empty()) return "must name a folder";
         config.data = text;
         return {};
       }},
      {"origin", "URL", "memory",
       "memory: this process is alone; redis://[user:pass@]host[:port][/db]: it agrees with "
       "others there. WEIR_ORIGIN_PASSWORD may hold the password",
       [](Config& config, const std::string& text) { return read_origin(text, config.origin); },
       true},
      {"origin-password-file", "FILE", "none", "A file whose first line is the origin's password",
       [](Config& config, const std::string& text) {
         return read_password_file(text, config.origin_password_file);
       }},
      {"on-origin-loss", "POLICY", "local",
       "While the origin is lost: local decides on what is known, deny refuses, share gives each "
       "node its part of the limit",
       [](Config& config, const std::string& text) -> std::string {
         const auto policy = on_origin_loss_from(text);
         if (!policy) return "must be local, deny or share";
         config.on_origin_loss = *policy;
         return {};
       },
       false, true},
      {"ledger", "URL", "auto",
       "Where regions share counts: mysql://user:pass@host[:port]/db, sqlite:PATH, or none. auto: "
       "a "
       "file in the data folder, but none with an origin. For TLS add ?tls=verify and "
       "&tls-ca=FILE. WEIR_LEDGER_PASSWORD may hold the password",
       [](Config& config, const std::string& text) { return read_ledger(text, config); }, true},
      {"ledger-password-file", "FILE", "none", "A file whose first line is the ledger's password",
       [](Config& config, const std::string& text) {
         return read_password_file(text, config.ledger_password_file);
       }},
      {"publish-policy", "POLICY", "bounded",
       "When other regions are told: bounded limits what can be admitted in excess, floor tells "
       "from half the limit on every 10 s. The first process of a ledger decides for all",
       [](Config& config, const std::string& text) -> std::string {
         if (text != "bounded" && text != "floor") return "must be bounded or floor";
         config.publish_policy = text == "floor" ? PublishPolicy::kFloor : PublishPolicy::kBounded;
         return {};
       }},
      {"log", "FILE", "stderr",
       "Where messages go; SIGUSR1 opens the file anew, for those who rotate it",
       [](Config& config, const std::string& text) -> std::string {
         if (text.empty()) return "must name a file, or be stderr";
         config.log = text == "stderr" ? "" : text;
         return {};
       },
       false, true},
      {"threads", "N", "0", "Threads that serve; 0 is one per core",
       [](Config& config, const std::string& text) {
         return assign(text, {0, 256}, config.threads);
       }},
      {"memory", "SIZE", "auto",
       "Bytes that all counts may take, like 512MiB or 2GiB; what does not fit is counted strictly "
       "together. auto: 1 KiB for each of capacity, 2 KiB with a ledger",
       [](Config& config, const std::string& text) {
         if (text != "auto") return read_size(text, config.memory);
         config.memory = 0;
         return std::string();
       }},
      {"capacity", "N", "auto",
       "Cells held in memory, some 480 bytes each; what does not fit is counted strictly together. "
       "auto: as many as memory is enough for, or 1048576",
       [](Config& config, const std::string& text) {
         if (text == "auto") {
           config.capacity = 0;
           return std::string();
         }
         const Range range{limiter::kLeastCapacity, limiter::kMostCapacity};
         const std::string wrong = assign(text, range, config.capacity);
         return wrong.empty() ? wrong : wrong + ", or auto";
       }},
      {"backend", "NAME", "limiter",
       "limiter, or null, which admits everything: for measuring the doors alone",
       [](Config& config, const std::string& text) -> std::string {
         if (text != "limiter" && text != "null") return "must be limiter or null";
         config.backend = text == "null" ? Backend::kNull : Backend::kLimiter;
         return {};
       }},
  };
  return all;
}

std::string known_names() {
  std::string names;
  for (const Setting& setting : all_settings()) {
    names += (names.empty() ? "" : ", ") + setting.name;
  }
  return names;
}

ConfigProblem at(const YAML::Mark& mark, std::string text) {
  return {.line = mark.line + 1, .column = mark.column + 1, .text = std::move(text)};
}

}  // namespace

std::string complaint(const Setting& setting, const std::string& value, const std::string& wrong) {
  return setting.secret ? fmt::format("{} {}", setting.name, wrong)
                        : fmt::format("{} is '{}': it {}", setting.name, value, wrong);
}

std::span<const Setting> settings() {
  return all_settings();
}

std::string apply(Config& config, const Setting& setting, const std::string& value) {
  std::string wrong = setting.set(config, value);
  if (wrong.empty()) config.given[setting.name] = value;
  return wrong;
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

std::vector<ConfigProblem> read_environment(const FindVariable& get, Config& config) {
  std::vector<ConfigProblem> problems;
  for (const Setting& setting : all_settings()) {
    const std::string variable = variable_of(setting);
    const char* const value = get(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string wrong = apply(config, setting, value);
    if (wrong.empty()) continue;
    problems.push_back({.text = setting.secret
                                    ? fmt::format("{} {}", variable, wrong)
                                    : fmt::format("{} is '{}': it {}", variable, value, wrong)});
  }
  return problems;
}

std::vector<ConfigProblem> read_config(const std::string& path, Config& config) {
  std::ifstream file(path);
  std::stringstream text;
  file.peek();  // a folder can be opened, but not read
  if (file.good()) text << file.rdbuf();
  if (!file.is_open() || file.bad())
    return {{.text = "cannot be read: is it there, and may you read it?"}};
  return read_config_text(text.str(), config);
}

std::vector<ConfigProblem> read_config_text(const std::string& yaml, Config& config) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    return {at(error.mark, "not valid YAML: " + error.msg)};
  }
  if (root.IsNull()) return {};
  if (!root.IsMap()) return {at(root.Mark(), "must be settings, one 'name: value' to a line")};
  std::vector<ConfigProblem> problems;
  std::set<std::string> seen;
  for (const auto& pair : root) {
    const std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "?";
    const auto setting = std::find_if(all_settings().begin(), all_settings().end(),
                                      [&](const Setting& known) { return known.name == name; });
    if (setting == all_settings().end()) {
      problems.push_back(at(pair.first.Mark(),
                            fmt::format("'{}' is no setting; there are {}", name, known_names())));
      continue;
    }
    if (!seen.insert(name).second) {
      problems.push_back(at(pair.first.Mark(), fmt::format("{} is given twice", name)));
      continue;
    }
    if (!pair.second.IsScalar()) {
      // What is not there has no place of its own.
      const YAML::Mark mark = pair.second.IsNull() ? pair.first.Mark() : pair.second.Mark();
      problems.push_back(at(mark, fmt::format("{} must be a single value", name)));
      continue;
    }
    const std::string value = pair.second.Scalar();
    const std::string wrong = apply(config, *setting, value);
    if (!wrong.empty()) {
      problems.push_back(at(pair.second.Mark(), complaint(*setting, value, wrong)));
    }
  }
  return problems;
}

bool is_loopback(const Address& address) {
  return address.host.starts_with("127.") || address.host == "::1";
}

std::string contradiction(const Config& config) {
  if (!config.http && !config.resp && config.http_socket.empty() && config.resp_socket.empty()) {
    return "http and resp are both off: nothing would be served";
  }
  if (!config.http_socket.empty() && config.http_socket == config.resp_socket) {
    return fmt::format("http-socket and resp-socket are both '{}': give them different paths",
                       config.http_socket);
  }
  const std::pair<const char*, const std::optional<Address>&> doors[] = {{"http", config.http},
                                                                         {"resp", config.resp}};
  for (const auto& [name, address] : doors) {
    if (address && !is_loopback(*address) && !config.allow_public) {
      return fmt::format(
          "{} is '{}', which others can reach: give --allow-public if that is meant, or a loopback "
          "address",
          name, to_string(*address));
    }
  }
  if (config.resp && !is_loopback(*config.resp) && !config.wants_resp_auth()) {
    return fmt::format(
        "resp-auth is off, but resp is '{}', which others can reach: leave resp-auth out, or give "
        "resp a loopback address",
        to_string(*config.resp));
  }
  if (config.ledger_choice == LedgerChoice::kGiven && config.region.empty()) {
    return fmt::format(
        "region is not given, but the ledger {} can be shared: give --region, WEIR_REGION or "
        "region in the file, one name for all processes of a region",
        to_string(config.ledger));
  }
  if (const auto error = limiter::error_in(config.memory_plan())) {
    return fmt::format("{}: {}", error->detail, error->fix);
  }
  if (config.http && config.resp && *config.http == *config.resp && config.http->port != 0) {
    return fmt::format("http and resp are both '{}': give them different ports",
                       to_string(*config.http));
  }
  return {};
}

}  // namespace weir::server

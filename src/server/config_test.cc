#include "server/config.h"

#include "server/config_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace weir::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const Setting& setting(const std::string& name) {
  for (const Setting& known : settings()) {
    if (known.name == name) return known;
  }
  throw std::runtime_error("no setting " + name);
}

// The error of a value; empty: none.
std::string error_of(const std::string& name, const std::string& value) {
  Config config;
  return setting(name).set(config, value);
}

TEST(Settings, IncludeAPolicyForALostOrigin) {
  for (const auto& [text, policy] :
       {std::pair{"local", OnOriginLoss::kLocal}, std::pair{"deny", OnOriginLoss::kDeny},
        std::pair{"share", OnOriginLoss::kShare}}) {
    Config config;
    EXPECT_TRUE(read_config_text(std::string("on-origin-loss: ") + text, config).empty());
    EXPECT_EQ(config.on_origin_loss, policy);
  }
  Config config;
  const auto problems = read_config_text("on-origin-loss: panic", config);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].text, "on-origin-loss is 'panic': it must be local, deny or share");
}

TEST(Settings, IncludeAConsistencyForEachNamespace) {
  Config config;
  EXPECT_TRUE(read_config_text("consistency: relaxed,payments=exact,a=b=converge", config).empty());
  EXPECT_EQ(config.consistency, Consistency::kRelaxed);
  EXPECT_EQ(config.namespace_consistency,
            (frontends::NamespaceConsistency::Map{{"payments", Consistency::kExact},
                                                  {"a=b", Consistency::kConverge}}));
  EXPECT_TRUE(read_config_text("consistency: exact", config).empty());
  EXPECT_EQ(config.consistency, Consistency::kExact);
  EXPECT_TRUE(config.namespace_consistency.empty());
  for (const char* bad : {"strict", "''", "payments=exact", "exact,", "exact,relaxed",
                          "exact,=relaxed", "exact,a=b", "exact,a=exact,a=exact"}) {
    Config unchanged;
    const auto problems = read_config_text(std::string("consistency: ") + bad, unchanged);
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_NE(problems[0].text.find("must be converge, exact or relaxed"), std::string::npos);
    EXPECT_EQ(unchanged.consistency, Consistency::kConverge);
  }
}

TEST(Settings, AcceptPasswordsWithAnyCharacters) {
  Config config;
  EXPECT_TRUE(read_config_text("origin: redis://me:a%40b%2Fc%25@host:1/2", config).empty());
  ASSERT_TRUE(config.origin);
  EXPECT_EQ(config.origin->user, "me");
  EXPECT_EQ(config.origin->password, "a@b/c%");
  EXPECT_EQ(config.origin->host, "host");
  EXPECT_EQ(config.origin->port, 1);
  EXPECT_EQ(config.origin->database, 2);
  for (const char* bad : {"redis://:a%4@host", "redis://:a%@host", "redis://:%zz@host"}) {
    const auto problems = read_config_text(std::string("origin: ") + bad, config);
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_EQ(problems[0].text.find("zz"), std::string::npos);  // it is a secret
  }
}

TEST(Settings, AcceptLedgers) {
  Config config;
  EXPECT_TRUE(read_config_text("ledger: sqlite:/x/y.db", config).empty());
  EXPECT_EQ(config.ledger_choice, LedgerChoice::kGiven);
  EXPECT_EQ(config.ledger.path, "/x/y.db");
  EXPECT_TRUE(read_config_text("ledger: none", config).empty());
  EXPECT_EQ(config.ledger_choice, LedgerChoice::kNone);
  const auto problems = read_config_text("ledger: postgres://me:secret@host/db", config);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].text.find("secret"), std::string::npos);
  EXPECT_NE(problems[0].text.find("mysql://"), std::string::npos) << problems[0].text;
}

TEST(Settings, RequireARegionForASharedLedger) {
  for (const char* ledger : {"mysql://me@host/db", "sqlite:/x/y.db"}) {
    Config config;
    EXPECT_TRUE(read_config_text(std::string("ledger: ") + ledger, config).empty());
    EXPECT_NE(find_conflict(config).find("--region, WEIR_REGION"), std::string::npos);
    config.region = "eu";
    EXPECT_EQ(find_conflict(config), "");
  }
  Config config;
  EXPECT_EQ(find_conflict(config), "");  // the default ledger is not shared
}

TEST(Settings, CanComeFromEnvironmentVariables) {
  for (const Setting& known : settings()) {
    if (known.initial == "generated") continue;
    Config config;
    std::vector<std::string> requested;
    const auto problems = read_environment(
        [&](const std::string& name) {
          requested.push_back(name);
          return name == variable_of(known) ? known.initial.c_str() : nullptr;
        },
        config);
    EXPECT_TRUE(problems.empty()) << known.name;
    EXPECT_EQ(requested.size(), settings().size());
    EXPECT_EQ(config.given.count(known.name), 1u);
  }
  EXPECT_EQ(variable_of(setting("origin-password-file")), "WEIR_ORIGIN_PASSWORD_FILE");
  const auto of = [](const std::string& name, const char* value) {
    Config config;
    return read_environment(
        [&](const std::string& requested) { return requested == name ? value : nullptr; }, config);
  };
  EXPECT_TRUE(of("WEIR_THREADS", "").empty());  // not given
  ASSERT_EQ(of("WEIR_THREADS", "x").size(), 1u);
  EXPECT_EQ(of("WEIR_THREADS", "x")[0].text,
            "WEIR_THREADS is 'x': it must be a whole number from 0 to 256");
  ASSERT_EQ(of("WEIR_ORIGIN", "secret").size(), 1u);
  EXPECT_EQ(of("WEIR_ORIGIN", "secret")[0].text.find("secret"), std::string::npos);
}

TEST(Settings, ReportChanges) {
  Config before;
  Config after;
  EXPECT_TRUE(read_config_text("threads: 1\nlog: x\n", before).empty());
  EXPECT_TRUE(read_config_text("threads: 2\nregion: local\n", after).empty());
  EXPECT_EQ(changed_settings(before, after, true), std::vector<std::string>{"log"});
  EXPECT_EQ(changed_settings(before, after, false), std::vector<std::string>{"threads"});
  EXPECT_TRUE(changed_settings(after, after, false).empty());
}

TEST(Settings, HaveTheDocumentedDefaults) {
  for (const Setting& known : settings()) {
    if (known.initial == "generated") continue;
    // Every value differs from its default.
    Config config{.http = {},
                  .resp = {},
                  .http_socket = "x.sock",
                  .resp_socket = "x.sock",
                  .https = Address{},
                  .resps = Address{},
                  .tls = {.cert = "x",
                          .key = "x",
                          .client_ca = "x",
                          .min_version = frontends::TlsVersion::k13},
                  .allow_public = true,
                  .resp_auth = RespAuth::kOff,
                  .public_metrics = true,
                  .max_connections = 11,
                  .max_connections_per_address = 12,
                  .connection_memory = 13,
                  .drain_delay = Millis(14),
                  .drain_grace = Millis(15),
                  .region = "elsewhere",
                  .data = "",
                  .threads = 9,
                  .capacity = 1,
                  .memory = 1,
                  .backend = BackendKind::kNull,
                  .origin = origins::RedisAddress{},
                  .origin_password_file = "password",
                  .read_deadline = Millis(16),
                  .on_origin_loss = OnOriginLoss::kDeny,
                  .consistency = Consistency::kExact,
                  .ledger_choice = LedgerChoice::kNone,
                  .ledger_password_file = "password",
                  .clean_ledger = false,
                  .audit_retention = Millis(17),
                  .log = "weir.log"};
    const Config standard;
    ASSERT_EQ(known.set(config, known.initial), "") << known.name;
    EXPECT_TRUE(
        config.http == standard.http || config.resp == standard.resp ||
        config.http_socket.empty() || config.resp_socket.empty() || !config.https ||
        !config.resps || config.tls.cert.empty() || config.tls.key.empty() ||
        config.tls.client_ca.empty() || config.tls.min_version == standard.tls.min_version ||
        config.allow_public == standard.allow_public || config.resp_auth == standard.resp_auth ||
        config.public_metrics == standard.public_metrics ||
        config.max_connections == standard.max_connections ||
        config.max_connections_per_address == standard.max_connections_per_address ||
        config.connection_memory == standard.connection_memory ||
        config.drain_delay == standard.drain_delay || config.drain_grace == standard.drain_grace ||
        config.region_name() == standard.region_name() || config.data == standard.data ||
        config.threads == standard.threads || config.capacity == standard.capacity ||
        config.memory == standard.memory || config.backend == standard.backend || !config.origin ||
        config.origin_password_file.empty() || config.read_deadline == standard.read_deadline ||
        config.on_origin_loss == standard.on_origin_loss ||
        config.consistency == standard.consistency ||
        config.ledger_choice == standard.ledger_choice || config.ledger_password_file.empty() ||
        config.clean_ledger == standard.clean_ledger ||
        config.audit_retention == standard.audit_retention || config.log.empty())
        << known.name << " is not " << known.initial;
  }
}

TEST(Settings, BoundTheTimeOfTheAuditLog) {
  Config config;
  EXPECT_EQ(config.audit_retention, Millis(std::chrono::hours(24 * 90)));
  EXPECT_EQ(setting("audit-retention").set(config, "30d"), "");
  EXPECT_EQ(config.audit_retention, Millis(std::chrono::hours(24 * 30)));
  for (const char* text : {"", "0s", "59m", "3651d", "off"}) {
    EXPECT_EQ(setting("audit-retention").set(config, text),
              "must be a time from 1h to 3650d, like 90d")
        << text;
  }
}

TEST(Settings, TurnTheCleaningOfTheLedgerOff) {
  Config config;
  EXPECT_TRUE(config.clean_ledger);
  EXPECT_EQ(setting("ledger-clean").set(config, "off"), "");
  EXPECT_FALSE(config.clean_ledger);
  EXPECT_EQ(setting("ledger-clean").set(config, "on"), "");
  EXPECT_TRUE(config.clean_ledger);
  for (const char* text : {"", "true", "Off"}) {
    EXPECT_EQ(setting("ledger-clean").set(config, text), "must be on or off");
  }
}

TEST(Settings, BoundTheReadDeadline) {
  Config config;
  EXPECT_EQ(setting("read-deadline").set(config, "10s"), "");
  EXPECT_EQ(config.read_deadline, Millis(10'000));
  for (const char* text : {"0ms", "10001ms", "300", ""}) {
    EXPECT_EQ(setting("read-deadline").set(config, text),
              "must be a time from 1ms to 10s, like 300ms or 2s");
  }
  EXPECT_EQ(config.read_deadline, Millis(10'000));
}

TEST(Settings, AcceptTimes) {
  const std::pair<const char*, Millis> good[] = {
      {"0s", Millis(0)},      {"500ms", Millis(500)},   {"5s", Millis(5'000)},
      {"1m", Millis(60'000)}, {"10m", Millis(600'000)}, {"600s", Millis(600'000)}};
  Config config;
  for (const auto& [text, time] : good) {
    ASSERT_EQ(setting("drain-delay").set(config, text), "") << text;
    EXPECT_EQ(config.drain_delay, time) << text;
    ASSERT_EQ(setting("drain-grace").set(config, text), "") << text;
    EXPECT_EQ(config.drain_grace, time) << text;
  }
  for (const char* text :
       {"", "5", "s", "-1s", "11m", "600001ms", "5 s", "5h", "1.5s", "99999999999999999999s"}) {
    EXPECT_EQ(setting("drain-delay").set(config, text),
              "must be a time from 0s to 10m, like 500ms, 5s or 1m")
        << text;
  }
}

TEST(Settings, AcceptANumberOfMillisecondsOnlyWhereARequestDoes) {
  Millis time{};
  EXPECT_EQ(read_time("60000", time, kLimitDurations), "");
  EXPECT_EQ(time, Millis(60'000));
  EXPECT_EQ(read_time("100", time, kLimitDurations), "");
  for (const char* text : {"99", "2592000001", "", "-1"}) {
    EXPECT_EQ(read_time(text, time, kLimitDurations),
              "must be a time from 100ms to 30d, like 500ms, 60s, 5m, 1h or 1d, or a number of ms");
  }
}

TEST(Times, AreShownInTheLargestUnit) {
  const std::pair<int64_t, const char*> texts[] = {
      {0, "0ms"},      {1, "1ms"},        {1500, "1500ms"},   {60'000, "1m"},
      {90'000, "90s"}, {3'600'000, "1h"}, {86'400'000, "1d"}, {90'000'000, "25h"}};
  for (const auto& [time, text] : texts) EXPECT_EQ(time_text(Millis(time)), text);
}

TEST(Settings, AcceptConnectionMemoryFromSixteenMebibytes) {
  Config config;
  EXPECT_EQ(setting("connection-memory").set(config, "16MiB"), "");
  EXPECT_EQ(config.connection_memory, uint64_t{16} << 20);
  EXPECT_EQ(setting("connection-memory").set(config, "15MiB"),
            "must be a size from 16MiB to 16TiB, like 256MiB");
}

TEST(Settings, RequireRespAuthWithAllowPublic) {
  Config config;
  EXPECT_FALSE(config.requires_resp_auth());
  config.allow_public = true;
  EXPECT_TRUE(config.requires_resp_auth());
  EXPECT_EQ(setting("resp-auth").set(config, "off"), "");
  EXPECT_FALSE(config.requires_resp_auth());
  EXPECT_EQ(find_conflict(config), "");
  config.resp = Address{.host = "0.0.0.0", .port = 7071};
  EXPECT_EQ(find_conflict(config),
            "resp-auth is off, but resp is '0.0.0.0:7071', which is not a loopback address: remove "
            "resp-auth, "
            "or use a loopback address");
  config = {};
  EXPECT_EQ(setting("resp-auth").set(config, "required"), "");
  EXPECT_TRUE(config.requires_resp_auth());
  EXPECT_EQ(setting("resp-auth").set(config, "yes"), "must be auto, required or off");
}

TEST(Settings, AcceptAddresses) {
  const std::pair<const char*, Address> good[] = {
      {"127.0.0.1:7070", {.host = "127.0.0.1", .port = 7070}},
      {"localhost:1", {.host = "127.0.0.1", .port = 1}},
      {"0.0.0.0:65535", {.host = "0.0.0.0", .port = 65535}},
      {"[::1]:0", {.host = "::1", .port = 0}},
  };
  for (const auto& [text, address] : good) {
    Config config;
    ASSERT_EQ(setting("http").set(config, text), "") << text;
    EXPECT_EQ(config.http, address);
    ASSERT_EQ(setting("resp").set(config, text), "") << text;
    EXPECT_EQ(config.resp, address);
  }
  Config config;
  ASSERT_EQ(setting("http").set(config, "off"), "");
  EXPECT_EQ(config.http, std::nullopt);
}

TEST(Settings, RefuseInvalidAddressesAndKeepThePreviousOne) {
  for (const char* text : {"",
                           ":",
                           "7070",
                           "127.0.0.1",
                           "127.0.0.1:",
                           "127.0.0.1:65536",
                           "127.0.0.1:-1",
                           "127.0.0.1:x",
                           "127.0.0.1: 1",
                           "127.0.0.1.1:1",
                           "256.0.0.1:1",
                           "127.1:1",
                           "::1:80",
                           "[]:80",
                           "[::1:80",
                           "[127.0.0.1]:80",
                           "weir.example:80",
                           "OFF",
                           " off",
                           "http://127.0.0.1:1"}) {
    Config config;
    EXPECT_THAT(setting("http").set(config, text), StartsWith("must be an IP address and a port"))
        << text;
    EXPECT_EQ(config.http, Config().http);
  }
}

TEST(Settings, AcceptNumbersWithinBothBounds) {
  for (const char* good : {"0", "1", "256"}) EXPECT_EQ(error_of("threads", good), "");
  for (const char* bad : {"", "257", "-1", "+1", "1.0", "x", "1 ", "99999999999999999999"}) {
    EXPECT_EQ(error_of("threads", bad), "must be a whole number from 0 to 256") << bad;
  }
  for (const char* good : {"64", "268435456"}) EXPECT_EQ(error_of("capacity", good), "");
  for (const char* bad : {"63", "268435457", ""}) {
    EXPECT_EQ(error_of("capacity", bad), "must be a whole number from 64 to 268435456, or auto");
  }
}

TEST(Settings, AcceptSizesWithUnits) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::pair<const char*, uint64_t> good[] = {{"auto", 0},
                                                   {"1048576", kMiB},
                                                   {"1048577B", kMiB + 1},
                                                   {"1024KiB", kMiB},
                                                   {"1MiB", kMiB},
                                                   {"512MiB", 512 * kMiB},
                                                   {"2GiB", 2048 * kMiB},
                                                   {"2MB", 2'000'000},
                                                   {"1049KB", 1'049'000},
                                                   {"2GB", 2'000'000'000},
                                                   {"17TB", 17'000'000'000'000},
                                                   {"16TiB", kMiB << 24},
                                                   {"3TiB", 3 * (kMiB << 20)},
                                                   {"17592186044416", kMiB << 24}};
  for (const auto& [text, bytes] : good) {
    Config config{.memory = 1};
    EXPECT_EQ(setting("memory").set(config, text), "") << text;
    EXPECT_EQ(config.memory, bytes) << text;
  }
  for (const char* bad : {"", "0", "-1MiB", "1048575", "1023KiB", "MiB", "1 MiB", "1.5GiB", "1MB",
                          "512M", "2gib", "2mb", "17TiB", "18TB", "17592186044417",
                          "99999999999999999999", "99999999999999TiB", "0x100000", "1MiB "}) {
    Config config{.memory = 1};
    EXPECT_EQ(setting("memory").set(config, bad),
              "must be a size from 1MiB to 16TiB, like 512MiB, 2GB or 1073741824, or auto")
        << bad;
    EXPECT_EQ(config.memory, 1u) << bad;
  }
}

TEST(Settings, DeriveCapacityAndMemoryFromEachOther) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  const auto none = LedgerChoice::kNone;
  const auto redis = origins::RedisAddress{};
  struct {
    Config config;
    size_t capacity;
    uint64_t memory;
  } cases[] = {
      // By default a server has a ledger, and a server with an origin has none.
      {{}, size_t{1} << 20, 2 * kGiB},
      {{.origin = redis}, size_t{1} << 20, kGiB},
      {{.ledger_choice = none}, size_t{1} << 20, kGiB},
      {{.origin = redis, .ledger_choice = LedgerChoice::kGiven}, size_t{1} << 20, 2 * kGiB},
      {{.memory = 4 * kGiB}, size_t{1} << 21, 4 * kGiB},
      {{.memory = 4 * kGiB, .ledger_choice = none}, size_t{1} << 22, 4 * kGiB},
      {{.capacity = 4096}, 4096, 4096 * 2048},
      {{.capacity = 4096, .ledger_choice = none}, 4096, 4096 * 1024},
      {{.capacity = 64}, 64, 1 << 20},
      {{.capacity = 4096, .memory = kGiB}, 4096, kGiB}};
  for (const auto& [config, capacity, memory] : cases) {
    EXPECT_EQ(config.memory_plan().capacity, capacity);
    EXPECT_EQ(config.memory_plan().memory, memory);
  }
}

TEST(Settings, NameTheMemoryThatACapacityNeeds) {
  Config config{.capacity = size_t{1} << 20, .memory = uint64_t{64} << 20};
  const std::string invalid = find_conflict(config);
  std::smatch numbers;
  ASSERT_TRUE(std::regex_match(
      invalid, numbers,
      std::regex("memory is 67108864 bytes, too little for a capacity of 1048576: give it at least "
                 "(\\d+)MiB, or choose a capacity of at most (\\d+)")))
      << invalid;
  // Both remedies are exact.
  Config more{.capacity = config.capacity, .memory = std::stoull(numbers[1]) << 20};
  EXPECT_EQ(find_conflict(more), "");
  more.memory -= uint64_t{1} << 20;
  EXPECT_NE(find_conflict(more), "");
  config.capacity = std::stoull(numbers[2]);
  EXPECT_EQ(find_conflict(config), "");
  ++config.capacity;
  EXPECT_NE(find_conflict(config), "");
}

TEST(Settings, AcceptNamesOfOneToSixtyFourPlainCharacters) {
  for (const char* name : {"region", "node"}) {
    EXPECT_EQ(error_of(name, "aZ0-_."), "");
    EXPECT_EQ(error_of(name, std::string(64, 'a')), "");
    for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"),
                                   std::string("é"), std::string("a/b"), std::string(1, '\0')}) {
      EXPECT_EQ(error_of(name, bad), "must be 1 to 64 letters, digits, '-', '_' or '.'") << bad;
    }
  }
}

TEST(Settings, AcceptUnixSocketPathsWithAddresses) {
  for (const char* name : {"http-socket", "resp-socket"}) {
    EXPECT_EQ(error_of(name, "/run/weir/x.sock"), "");
    EXPECT_EQ(error_of(name, std::string(107, 'x')), "");
    for (const std::string& bad : {std::string(), std::string(108, 'x')}) {
      EXPECT_EQ(error_of(name, bad),
                "must be a path of 1 to 107 bytes, like /run/weir/resp.sock, or off");
    }
  }
  Config config{.http = std::nullopt, .resp = std::nullopt};
  EXPECT_EQ(setting("resp-socket").set(config, "/tmp/x.sock"), "");
  EXPECT_EQ(config.resp_socket, "/tmp/x.sock");
  EXPECT_EQ(find_conflict(config), "");  // one front end is enough
  EXPECT_EQ(setting("http-socket").set(config, "/tmp/x.sock"), "");
  EXPECT_EQ(find_conflict(config),
            "http-socket and resp-socket are both '/tmp/x.sock': use different paths");
  EXPECT_EQ(setting("resp-socket").set(config, "off"), "");
  EXPECT_EQ(config.resp_socket, "");
}

TEST(Settings, AcceptExactlyTheirListedWords) {
  EXPECT_EQ(error_of("allow-public", "true"), "");
  EXPECT_EQ(error_of("allow-public", "false"), "");
  EXPECT_EQ(error_of("allow-public", "yes"), "must be true or false");
  EXPECT_EQ(error_of("backend", "limiter"), "");
  EXPECT_EQ(error_of("backend", "null"), "");
  EXPECT_EQ(error_of("backend", "Null"), "must be limiter or null");
  EXPECT_EQ(error_of("data", "a folder"), "");
  EXPECT_EQ(error_of("data", ""), "must name a folder");
}

// "line:column text" for each problem.
std::vector<std::string> problems_of(const std::string& yaml) {
  Config config;
  std::vector<std::string> all;
  for (const ConfigProblem& problem : read_config_text(yaml, config)) {
    all.push_back(std::to_string(problem.line) + ":" + std::to_string(problem.column) + " " +
                  problem.text);
  }
  return all;
}

using Problems = std::vector<std::string>;

TEST(ConfigFile, SetsOnlyTheSettingsInTheFile) {
  Config config;
  ASSERT_TRUE(read_config_text("# a comment\nhttp: 0.0.0.0:80\nresp: off\nallow-public: true\n"
                               "region: \"eu-1\"\nnode: n1\ndata: /x y\nthreads: 4\ncapacity: 64\n"
                               "backend: 'null'\n",
                               config)
                  .empty());
  EXPECT_EQ(config.http, (Address{.host = "0.0.0.0", .port = 80}));
  EXPECT_EQ(config.resp, std::nullopt);
  EXPECT_TRUE(config.allow_public);
  EXPECT_EQ(config.region, "eu-1");
  EXPECT_EQ(config.node, "n1");
  EXPECT_EQ(config.data, "/x y");
  EXPECT_EQ(config.threads, 4u);
  EXPECT_EQ(config.capacity, 64u);
  EXPECT_EQ(config.backend, BackendKind::kNull);
  Config other;
  ASSERT_TRUE(read_config_text("threads: 2", other).empty());
  EXPECT_EQ(other.threads, 2u);
  EXPECT_EQ(other.http, Config().http);
}

TEST(Settings, AcceptAnOrigin) {
  const auto read = [](const std::string& url) {
    Config config;
    const Setting& known = setting("origin");
    EXPECT_EQ(known.set(config, url), "") << url;
    return config.origin;
  };
  EXPECT_FALSE(read("memory").has_value());
  const auto plain = read("redis://cache");
  EXPECT_EQ(plain->host, "cache");
  EXPECT_EQ(plain->port, 6379);
  EXPECT_EQ(plain->database, 0);
  const auto full = read("redis://me:p:a@ss@10.0.0.1:7000/3");
  EXPECT_EQ(full->user, "me");
  EXPECT_EQ(full->password, "p:a@ss");
  EXPECT_EQ(full->host, "10.0.0.1");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->database, 3);
  EXPECT_EQ(read("redis://:secret@[::1]:7000")->host, "::1");
}

TEST(Settings, DoNotRepeatAPasswordInAnError) {
  Config config;
  const Setting& known = setting("origin");
  for (const char* url : {"redis://me:secret@", "http://me:secret@host", "redis://me:secret@host:x",
                          "redis://secret@host", "redis://h/secret"}) {
    const std::string invalid = known.set(config, url);
    EXPECT_NE(invalid, "") << url;
    EXPECT_EQ(describe_error(known, url, invalid).find("secret"), std::string::npos) << url;
  }
  EXPECT_EQ(problems_of("origin: http://me:secret@host\n").at(0).find("secret"), std::string::npos);
}

TEST(ConfigFile, MayBeEmpty) {
  for (const char* yaml : {"", "\n", "# nothing\n", "---\n", "{}", "~"}) {
    EXPECT_EQ(problems_of(yaml), Problems{}) << yaml;
  }
}

TEST(ConfigFile, ReportsAllProblemsWithLineAndColumn) {
  EXPECT_EQ(
      problems_of("threads: 2\ncolour: red\n  \ncapacity: 1\nthreads: 3\nnode: [a, b]\n"
                  "region:\nhttp:   nowhere\n"),
      (Problems{
          "2:1 'colour' is not a setting; the settings are http, resp, http-socket, resp-socket, "
          "https, resps, tls-cert, tls-key, tls-client-ca, tls-min-version, allow-public, "
          "resp-auth, public-metrics, max-connections, "
          "max-connections-per-address, connection-memory, drain-delay, drain-grace, region, "
          "node, data, origin, origin-password-file, read-deadline, on-origin-loss, consistency, "
          "ledger, "
          "ledger-password-file, ledger-clean, audit-retention, log, threads, memory, capacity, "
          "backend, check, "
          "namespaces",
          "4:11 capacity is '1': it must be a whole number from 64 to 268435456, or auto",
          "5:1 threads is given twice", "6:7 node must be a single value",
          "7:1 region must be a single value",
          "8:9 http is 'nowhere': it must be an IP address and a port, like "
          "127.0.0.1:7070, or off"}));
}

TEST(ConfigFile, ReportsWhereYamlIsInvalid) {
  const Problems open = problems_of("threads: 2\nnode: [a,\n");
  ASSERT_EQ(open.size(), 1u);
  EXPECT_THAT(open[0], HasSubstr("not valid YAML: "));
  EXPECT_THAT(open[0], StartsWith("3:"));
  EXPECT_THAT(problems_of("a: b: c")[0], StartsWith("1:5 not valid YAML: "));
  EXPECT_THAT(problems_of("threads: *nowhere")[0], HasSubstr("not valid YAML: "));
}

TEST(ConfigFile, MustBeAMapOfSettings) {
  for (const char* yaml : {"just words", "- a\n- b\n", "[]", "5"}) {
    EXPECT_EQ(problems_of(yaml), Problems{"1:1 must be settings, one 'name: value' per line"})
        << yaml;
  }
  EXPECT_THAT(problems_of("[a]: b")[0], StartsWith("1:1 '?' is not a setting"));
}

TEST(ConfigFile, SurvivesDeepNesting) {
  for (const size_t depth : {100, 5000, 100'000}) {
    EXPECT_FALSE(problems_of("node: " + std::string(depth, '[')).empty());
    EXPECT_FALSE(problems_of("node: " + std::string(depth, '[') + std::string(depth, ']')).empty());
    EXPECT_FALSE(problems_of(std::string(depth, '{')).empty());
  }
}

class ConfigFileOnDisk : public ::testing::Test {
 protected:
  ConfigFileOnDisk() { std::filesystem::create_directory(folder_); }
  ~ConfigFileOnDisk() override { std::filesystem::remove_all(folder_); }

  // Tests run at the same time, each in a process of its own.
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("weir_config_" + std::to_string(getpid()));
};

TEST_F(ConfigFileOnDisk, IsRead) {
  const std::string path = folder_ / "weir.yaml";
  std::ofstream(path) << "threads: 3\n";
  Config config;
  EXPECT_TRUE(read_config(path, config).empty());
  EXPECT_EQ(config.threads, 3u);
  std::ofstream(path) << "# all defaults\n";
  EXPECT_TRUE(read_config(path, config).empty());
}

// A save that failed removed all rules on a reload, and every request passed.
TEST_F(ConfigFileOnDisk, IsAProblemIfItIsEmpty) {
  const std::string path = folder_ / "weir.yaml";
  for (const char* text : {"", "\n", " \r\n\t\n"}) {
    std::ofstream(path) << text;
    Config config;
    const auto problems = read_config(path, config);
    ASSERT_EQ(problems.size(), 1u) << text;
    EXPECT_THAT(problems[0].text, StartsWith("is empty"));
  }
}

TEST_F(ConfigFileOnDisk, IsAProblemWithoutALineIfItCannotBeRead) {
  for (const std::string& path : {(folder_ / "missing").string(), folder_.string()}) {
    Config config;
    const auto problems = read_config(path, config);
    ASSERT_EQ(problems.size(), 1u) << path;
    EXPECT_EQ(problems[0].line, 0);
    EXPECT_THAT(problems[0].text, StartsWith("cannot be read"));
  }
}

TEST(Loopback, IsReachableOnlyFromThisMachine) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1"}) {
    EXPECT_TRUE(is_loopback({.host = host})) << host;
  }
  for (const char* host :
       {"0.0.0.0", "128.0.0.1", "12.7.0.1", "10.0.0.1", "::", "::2", "::1:1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_loopback({.host = host})) << host;
  }
}

TEST(ConfigConflict, IsNotInTheDefaults) {
  EXPECT_EQ(find_conflict({}), "");
}

TEST(ConfigConflict, IsServingNothing) {
  Config config{.http = {}, .resp = {}};
  EXPECT_EQ(find_conflict(config),
            "http and resp are both off: set an address or a socket for one of them");
  config.http = Config().http;
  EXPECT_EQ(find_conflict(config), "");
}

TEST(ConfigConflict, IsAPublicAddressWithoutAllowPublic) {
  Config config{.http = Address{.host = "0.0.0.0", .port = 80}};
  EXPECT_THAT(find_conflict(config),
              StartsWith("http is '0.0.0.0:80', which is not a loopback address: "));
  EXPECT_THAT(find_conflict(config), HasSubstr("--allow-public"));
  config.allow_public = true;
  EXPECT_EQ(find_conflict(config), "");
  const Config six{.resp = Address{.host = "::", .port = 1}};
  EXPECT_THAT(find_conflict(six),
              StartsWith("resp is '[::]:1', which is not a loopback address: "));
}

TEST(Settings, IncludeTls) {
  Config config;
  EXPECT_TRUE(read_config_text("https: 127.0.0.1:7443\nresps: '[::1]:7444'\ntls-cert: c.pem\n"
                               "tls-key: k.pem\ntls-client-ca: ca.pem\ntls-min-version: 1.3\n",
                               config)
                  .empty());
  EXPECT_EQ(config.https, (Address{.host = "127.0.0.1", .port = 7443}));
  EXPECT_EQ(config.resps, (Address{.host = "::1", .port = 7444}));
  EXPECT_EQ(config.tls, (frontends::TlsSettings{.cert = "c.pem",
                                                .key = "k.pem",
                                                .client_ca = "ca.pem",
                                                .min_version = frontends::TlsVersion::k13}));
  EXPECT_EQ(setting("tls-client-ca").set(config, "none"), "");
  EXPECT_EQ(config.tls.client_ca, "");
  EXPECT_EQ(error_of("tls-min-version", "1.2"), "");
  EXPECT_EQ(error_of("tls-min-version", "1.1"), "must be 1.2 or 1.3");
  EXPECT_EQ(error_of("tls-cert", ""), "must name a PEM file, or be none");
}

TEST(ConfigConflict, IsTlsWithoutItsFiles) {
  Config config{.https = Address{.port = 7443}};
  EXPECT_EQ(find_conflict(config),
            "tls-cert is missing, but https is '127.0.0.1:7443': name the PEM files of the "
            "certificate (tls-cert) and of its private key (tls-key)");
  config.tls.cert = "/no/such/cert.pem";
  EXPECT_THAT(find_conflict(config), StartsWith("tls-key is missing, but https is "));
  config.tls.key = "/no/such/key.pem";
  EXPECT_EQ(find_conflict(config),
            "tls-cert is '/no/such/cert.pem': it cannot be read: No such file or directory; name a "
            "PEM file that this user may read");
  config.https.reset();
  EXPECT_EQ(find_conflict(config),
            "tls-cert is given, but https and resps are off: set an address for one of them");
}

TEST(ConfigConflict, IsAPublicAddressAlsoWithTls) {
  Config config{.resps = Address{.host = "0.0.0.0", .port = 1}};
  EXPECT_THAT(find_conflict(config),
              StartsWith("resps is '0.0.0.0:1', which is not a loopback address: "));
  config.allow_public = true;
  EXPECT_THAT(find_conflict(config), StartsWith("tls-cert is missing, but resps is '0.0.0.0:1'"));
  config.resp_auth = RespAuth::kOff;
  EXPECT_THAT(find_conflict(config), StartsWith("resp-auth is off, but resps is '0.0.0.0:1'"));
}

TEST(ConfigConflict, IsOneAddressWithAndWithoutTls) {
  const Config config{.https = Config().http};
  EXPECT_EQ(find_conflict(config), "http and https are both '127.0.0.1:7070': use different ports");
}

TEST(ConfigConflict, IsBothFrontendsAtOneAddress) {
  Config config{.http = Config().resp};
  EXPECT_EQ(find_conflict(config), "http and resp are both '127.0.0.1:7071': use different ports");
  config.http->port = config.resp->port = 0;  // the system chooses two
  EXPECT_EQ(find_conflict(config), "");
}

}  // namespace
}  // namespace weir::server

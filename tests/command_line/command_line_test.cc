// The output and the exit codes of the programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "server/config.h"
#include "weir/version.h"

namespace weir {
namespace {

using server::Setting;
using server::settings;
using testing::HasSubstr;
using testing::Not;

struct Output {
  int exit_code = -1;
  std::string text;  // standard output and error
};

// Runs a line of shell script in which `weir` is the binary.
Output run(const std::string& line) {
  const std::string script = "weir() { '" WEIR_BINARY "' \"$@\"; }; " + line;
  FILE* pipe = ::popen(("{ " + script + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  Output output;
  char chunk[4096];
  while (const size_t count = std::fread(chunk, 1, sizeof(chunk), pipe)) {
    output.text.append(chunk, count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  return output;
}

// With single spaces instead of line breaks and columns.
std::string on_one_line(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  for (std::string word; in >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

void expect_help(const std::string& command, const std::vector<std::string>& parts) {
  for (const char* flag : {" --help", " -h"}) {
    const Output output = run(command + flag);
    EXPECT_EQ(output.exit_code, 0);
    for (const std::string& part : parts) {
      EXPECT_THAT(output.text + on_one_line(output.text), HasSubstr(part));
    }
  }
}

TEST(CommandLine, HelpNamesEveryCommandAndOptionWithItsDefault) {
  expect_help("weir", {"\n  serve ", "\n  migrate ", "\n  ledger ", "\n  check-config ", "\n  sim ",
                       "\n  demo ", "\n  lab ", "\n  metrics ", "\n  version ", "weir serve",
                       "weir COMMAND --help", "--help", "--version"});
  expect_help("weir serve", {"weir serve", "--config FILE", "--allow-public ", "--help"});
  expect_help("weir migrate", {"weir migrate", "--print", "--ledger ", "--help"});
  expect_help("weir ledger", {"weir ledger", "clean ", "--help"});
  expect_help("weir ledger clean", {"weir ledger clean", "--ledger URL", "--help"});
  expect_help("weir check-config", {"weir check-config", "FILE", "--connect", "--help"});
  expect_help("weir sim",
              {"weir sim", "SCENARIO", "--seed N", "--seeds N", "(default: 1; range: 1 to 1000)",
               "--out DIR", "--set PATH=VALUE", "--compare PATH=VALUE|FILE|floor", "--swarm",
               "--minutes M", "--worlds N", "--replay FILE", "--list", "--help", "--version"});
  expect_help("weir demo", {"weir demo", "--limit N", "(default: 10; range: 1 to 10000)",
                            "--window-ms N", "(default: 5000; range: 100 to 3600000)", "--rate N",
                            "(default: 4; range: 0 to 1000)", "--seconds N",
                            "(default: no limit; range: 1 to 86400)", "--help", "--version"});
  expect_help("weir lab", {"weir lab",
                           "--shape NAME",
                           "(default: on-off)",
                           "--trace FILE",
                           "--limit N",
                           "--duration N",
                           "(default: 1000, with --suggest asked for; range: 100 to 2592000000)",
                           "--burst N",
                           "--requests N",
                           "(default: 20000; range: 1 to 5000000)",
                           "--seed N",
                           "--out DIR",
                           "--plot-windows N",
                           "--tables",
                           "--suggest",
                           "--bursts ANSWER",
                           "--strict ANSWER",
                           "--bytes-per-key N",
                           "--keys N",
                           "boundary-burst",
                           "--help",
                           "--version"});
  EXPECT_EQ(run("weir --help sim").text, run("weir sim --help").text);
  EXPECT_EQ(run("weir -h demo").text, run("weir demo --help").text);
  const std::string serve = on_one_line(run("weir serve --help").text);
  for (const Setting& setting : settings()) {
    if (setting.value == "BOOL") continue;
    const size_t option = serve.find(" --" + setting.name + " " + setting.value);
    ASSERT_NE(option, serve.npos) << setting.name;
    const std::string range = setting.range.empty() ? "" : "; range: " + setting.range;
    EXPECT_THAT(serve.substr(option),
                HasSubstr(setting.meaning + " (default: " + setting.initial + range + ")"));
  }
}

TEST(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(run("weir help").text, run("weir --help").text);
  EXPECT_EQ(run("weir help").exit_code, 0);
  EXPECT_EQ(run("weir help serve").text, run("weir serve --help").text);
  EXPECT_EQ(run("weir help keys create").text, run("weir keys create --help").text);
  EXPECT_EQ(run("weir help sim").text, run("weir sim --help").text);
}

TEST(CommandLine, HelpOfTheCatalogNamesDefaults) {
  expect_help("weir keys create", {"like 2027-01-01 (default: never)",
                                   "one server (default: no limit)", "(default: ws_default)"});
  expect_help("weir keys rotate", {"like 1h (default: 0s)"});
  expect_help("weir namespaces set", {"per duration (default: that of each request)",
                                      "a number is ms (default: that of each request)"});
  expect_help("weir overrides set", {"1s to 30d; a number is ms"});
  expect_help("weir audit", {"(default: 50; range: 1 to 10000)"});
}

// A catalog in a file, without a server.
TEST(CommandLine, TakesTimesAsPeopleTypeThemAndShowsThemShort) {
  const std::string begin =
      "dir=$(mktemp -d); trap 'rm -r $dir' EXIT; "
      "export WEIR_LEDGER=sqlite:$dir/l.db WEIR_REGION=eu; ";
  const Output lists = run(begin +
                           "weir namespaces set a --limit 5 --duration 60000 >/dev/null && "
                           "weir overrides set a b --limit 7 --duration 5400000 >/dev/null && "
                           "weir namespaces list && weir overrides list a");
  EXPECT_EQ(lists.exit_code, 0) << lists.text;
  EXPECT_THAT(on_one_line(lists.text), HasSubstr(" 5 1m "));
  EXPECT_THAT(on_one_line(lists.text), HasSubstr(" 7 90m "));
  const auto key = [&](const std::string& end) {
    return run(begin + "weir keys create k --permission 'ratelimit.*.limit' --expires '" + end +
               "' && weir keys list");
  };
  EXPECT_THAT(key("2999-01-01").text, HasSubstr("2999-01-01T00:00:00Z"));
  EXPECT_THAT(key("2996-02-29T12:30:59Z").text, HasSubstr("2996-02-29T12:30:59Z"));
  EXPECT_THAT(key("2020-01-01").text,
              HasSubstr("--expires: is '2020-01-01': it must be in the future"));
  for (const char* end : {"2999-02-30", "2999-1-1", "2999-01-01T24:00:00Z", "tomorrow"}) {
    const Output output = key(end);
    EXPECT_EQ(output.exit_code, 2) << end;
    EXPECT_THAT(output.text, HasSubstr("a date in UTC, like 2027-01-01"));
  }
}

TEST(CommandLine, SaysThatNoServerUsesTheCatalogOfAFolder) {
  const std::string begin = "dir=$(mktemp -d); trap 'rm -r $dir' EXIT; ";
  const std::string set = "weir namespaces set a --limit 5 --duration 1m ";
  const char* const note =
      "which no running server uses. A server with an origin has a catalog only with --ledger";
  EXPECT_THAT(run(begin + set + "--data $dir").text, HasSubstr(note));
  EXPECT_THAT(run(begin + set + "--ledger sqlite:$dir/l.db").text, Not(HasSubstr(note)));
  // A server holds this lock.
  EXPECT_THAT(run(begin + ": >$dir/weir.lock; flock $dir/weir.lock -c \"'" WEIR_BINARY
                          "' namespaces set a --limit 5 --duration 1m --data $dir\"")
                  .text,
              Not(HasSubstr(note)));
}

TEST(CommandLine, HelpOfTheProgramFitsOneScreen) {
  const Output output = run("weir --help");
  EXPECT_LE(std::count(output.text.begin(), output.text.end(), '\n'), 25);
  EXPECT_THAT(output.text, Not(HasSubstr("--config")));
}

TEST(CommandLine, HelpFitsEightyColumns) {
  for (const char* command : {"weir", "weir serve", "weir migrate", "weir ledger",
                              "weir ledger clean", "weir check-config", "weir sim", "weir demo",
                              "weir lab", "weir keys create", "weir overrides set"}) {
    const Output output = run(std::string(command) + " --help");
    EXPECT_EQ(output.exit_code, 0) << command;
    const std::string& help = output.text;
    size_t lines = 0;
    size_t start = 0;
    for (size_t end = help.find('\n'); end != help.npos; end = help.find('\n', start)) {
      EXPECT_LE(end - start, 80u) << help.substr(start, end - start);
      start = end + 1;
      ++lines;
    }
    EXPECT_GE(lines, 5u) << command;
  }
}

TEST(CommandLine, PrintsTheVersionForEveryProgram) {
  for (const char* line : {"weir version", "weir --version", "weir sim --version",
                           "weir demo --version", "weir lab --version"}) {
    const Output output = run(line);
    EXPECT_EQ(output.exit_code, 0);
    EXPECT_EQ(output.text, "weir " WEIR_VERSION "\n");
  }
}

// "weir serve" of "weir serve --http nowhere"; "weir" if there is no command with this name.
std::string command_of(const std::string& line) {
  for (const char* command : {"serve", "check-config", "sim", "demo", "lab", "keys"}) {
    const std::string whole = std::string("weir ") + command;
    if (line.starts_with(whole)) return whole;
  }
  return "weir";
}

TEST(CommandLine, RejectsUsageErrorsAndNamesTheHelpCommand) {
  const std::pair<const char*, const char*> errors[] = {
      {"weir", "A command is required"},
      {"weir dmeo", "there is no command 'dmeo'; the commands are serve, migrate, "},
      {"weir keys craete", "there is no command 'craete'; the commands are create, list, "},
      {"weir demo --colour", "not expected: --colour"},
      {"weir demo extra", "not expected: extra"},
      {"weir demo --limit", "--limit: 1 required number missing"},
      {"weir demo --limit 0", "--limit: Value 0 not in range 1 to 10000"},
      {"weir demo --limit many", "--limit: Value many not in range 1 to 10000"},
      {"weir demo --window-ms 99", "--window-ms: Value 99 not in range 100 to 3600000"},
      {"weir demo --rate -1", "--rate: Value -1 not in range 0 to 1000"},
      {"weir demo --seconds 0", "--seconds: Value 0 not in range 1 to 86400"},
      {"weir lab extra", "not expected: extra"},
      {"weir lab --shape square", "--shape: 'square' is not a shape; the shapes are steady-below"},
      {"weir lab --limit 0", "--limit: Value 0 not in range 1 to 500000000"},
      {"weir lab --limit 10001", "--limit: Value 10001 not in range 1 to 10000"},
      {"weir lab --duration 99", "--duration: Value 99 not in range 100 to 2592000000"},
      {"weir lab --burst 0", "--burst: Value 0 not in range 1 to 1000000"},
      {"weir lab --requests 0", "--requests: Value 0 not in range 1 to 5000000"},
      {"weir lab --seed -1", "--seed: '-1' is not a whole number"},
      {"weir lab --plot-windows 0", "--plot-windows: Value 0 not in range 1 to 1000"},
      {"weir lab --shape poisson --trace a.csv", "--shape excludes --trace"},
      {"weir lab --tables --suggest", "--tables excludes --suggest"},
      {"weir lab --keys 5", "--keys requires --suggest"},
      {"weir lab --suggest --bursts maybe", "--bursts: 'maybe' is not yes or no"},
      {"weir serve --http nowhere", "--http: is 'nowhere': it must be an IP address and a port"},
      {"weir serve --threads 257", "--threads: is '257': it must be a whole number from 0 to 256"},
      {"weir serve --memory 512mb",
       "--memory: is '512mb': it must be a size from 1MiB to 16TiB, like 512MiB"},
      {"weir serve --memory 1MiB --capacity 65536",
       "memory is 1048576 bytes, too little for a capacity of 65536: give it at least"},
      {"weir serve --http ''", "--http"},
      {"weir serve --http off --resp off", "both off: set an address or a socket"},
      {"weir serve --http 0.0.0.0:0", "add --allow-public"},
      {"weir check-config", "FILE is required"},
      {"weir sim", "give exactly one of SCENARIO, --swarm, --replay and --list"},
      {"weir sim x.yaml --list", "give exactly one of SCENARIO, --swarm, --replay and --list"},
      {"weir sim x.yaml --seed -1", "--seed: '-1' is not a whole number"},
      {"weir sim x.yaml --seeds 0", "--seeds: Value 0 not in range 1 to 1000"},
      {"weir sim x.yaml --set policy", "--set: 'policy' is not PATH=VALUE"},
      {"weir sim x.yaml --set =floor", "--set: '=floor' is not PATH=VALUE"},
      {"weir sim x.yaml --compare ceiling", "--compare: 'ceiling' is not PATH=VALUE"},
      {"weir sim x.yaml --seeds 2 --compare floor", "--seeds excludes --compare"},
      {"weir sim --minutes 1", "--minutes requires --swarm"},
  };
  for (const auto& [line, error] : errors) {
    const Output output = run(line);
    EXPECT_EQ(output.exit_code, 2) << line;
    EXPECT_THAT(output.text, HasSubstr(error));
    EXPECT_THAT(output.text, HasSubstr("'" + command_of(line) + " --help'"));
  }
}

TEST(CommandLine, DemoWithoutATerminalPrintsThePlainScript) {
  const Output output =
      run("weir demo --limit 5 --window-ms 1000 --rate 8 --seconds 60 < /dev/null");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.text, HasSubstr("limit 5 per 1 s, 8 requests per second"));
  EXPECT_THAT(output.text, HasSubstr("\nsliding_window_strict "));
  EXPECT_THAT(output.text, Not(HasSubstr("\x1b")));
}

TEST(CommandLine, CheckConfigPrintsEveryErrorWithItsPosition) {
  const Output valid = run("echo 'threads: 2' | weir check-config /dev/stdin");
  EXPECT_EQ(valid.exit_code, 0);
  EXPECT_EQ(valid.text, "/dev/stdin: valid\n");
  const Output invalid =
      run("printf 'threads: 2\\nnode: a b\\ncolour: red\\n' | "
          "weir check-config /dev/stdin");
  EXPECT_EQ(invalid.exit_code, 1);
  EXPECT_THAT(invalid.text, HasSubstr("/dev/stdin:2:7: node is 'a b': it must be 1 to 64 letters"));
  EXPECT_THAT(invalid.text, HasSubstr("/dev/stdin:3:1: 'colour' is not a setting"));
  const Output no_listener =
      run("printf 'http: off\\nresp: off\\n' | weir check-config /dev/stdin");
  EXPECT_EQ(no_listener.exit_code, 1);
  EXPECT_THAT(no_listener.text, HasSubstr("/dev/stdin: http and resp are both off"));
  const Output missing = run("weir check-config /nowhere");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.text, HasSubstr("/nowhere: cannot be read"));
}

// A small scenario on standard input.
const std::string kScenario =
    "printf 'about: two regions\\n"
    "time: {measured: 10s}\\n"
    "world: {regions: [{name: eu, nodes: 1}, {name: us, nodes: 1}]}\\n"
    "limits: [{name: api, limit: 100, duration: 5s}]\\n"
    "traffic: [{limit: api, shape: poisson, keys: 10, demand: 2}]\\n' | ";

TEST(CommandLine, SimPrintsWhyAScenarioCannotBeRead) {
  const Output missing = run("weir sim -- /nowhere.yaml");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.text, "/nowhere.yaml: cannot be read\n");
  const Output replay = run("weir sim --replay /nowhere.yaml");
  EXPECT_EQ(replay.exit_code, missing.exit_code);
  EXPECT_EQ(replay.text, missing.text);
  EXPECT_EQ(run("weir sim /").text, "/: cannot be read\n");
  const Output misspelt = run("printf 'about: x\\nregons: 3\\n' | weir sim /dev/stdin");
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.text, HasSubstr("/dev/stdin:2:1: "));
  EXPECT_THAT(misspelt.text, HasSubstr("regons"));
  const Output changed = run(kScenario + "weir sim /dev/stdin --set settings.polcy=floor");
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.text, HasSubstr("polcy"));
}

TEST(CommandLine, CleansTheLedger) {
  const Output output =
      run("dir=$(mktemp -d); weir ledger clean --ledger \"sqlite:$dir/ledger.db\"; code=$?; "
          "weir ledger clean --ledger \"sqlite:$dir/ledger.db\"; rm -r \"$dir\"; exit $code");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.text, HasSubstr(": 0 expired rows and old batches deleted\n"));
  EXPECT_THAT(output.text, HasSubstr(": another process cleans it now\n"));
  EXPECT_EQ(run("weir ledger clean --ledger none").exit_code, 1);
  EXPECT_EQ(run("weir ledger").exit_code, 2);
}

TEST(CommandLine, SimIsDeterministic) {
  const std::string line = kScenario + "weir sim /dev/stdin --seed 7 | grep -o 'fingerprint.*'";
  const Output first = run(line);
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.text, HasSubstr("fingerprint "));
  EXPECT_EQ(run(line).text, first.text);
}

TEST(CommandLine, SwarmFingerprintDependsOnTheSeedsOnly) {
  const auto fingerprint = [](const std::string& line) {
    const Output output = run(line);
    EXPECT_EQ(output.exit_code, 0) << output.text;
    EXPECT_THAT(output.text, HasSubstr("2 worlds, seeds "));
    EXPECT_THAT(output.text, HasSubstr("no invariant was broken"));
    EXPECT_THAT(output.text, Not(HasSubstr("\x1b")));
    const size_t at = output.text.find("fingerprint ");
    return at == output.text.npos ? std::string() : output.text.substr(at, 28);
  };
  const std::string first = fingerprint("weir sim --swarm --worlds 2 --seed 1");
  EXPECT_EQ(fingerprint("weir sim --swarm --worlds 2 --seed 1"), first);
  EXPECT_NE(fingerprint("weir sim --swarm --worlds 2 --seed 2"), first);
}

// As in a directory where only the server was built.
TEST(CommandLine, PrintsHowToBuildAMissingProgram) {
  const Output output = run("dir=$(mktemp -d); cp '" WEIR_BINARY
                            "' \"$dir\"; \"$dir/weir\" sim --list; "
                            "code=$?; rm -r \"$dir\"; exit $code");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.text, HasSubstr("/weir-sim: No such file or directory"));
  EXPECT_THAT(output.text, HasSubstr("run './dev build' to build it"));
}

TEST(CommandLine, FailsIfTheDiskIsFull) {
  for (const char* line :
       {"weir version > /dev/full", "weir demo > /dev/full", "weir lab > /dev/full"}) {
    const Output output = run(line);
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.text, HasSubstr("cannot write to standard output"));
  }
}

}  // namespace
}  // namespace weir

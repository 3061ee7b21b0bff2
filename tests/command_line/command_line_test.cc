// The programs as a person meets them: what they print and how they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "server/config.h"
#include "weir/version.h"

namespace weir {
namespace {

using server::Setting;
using server::settings;
using testing::HasSubstr;
using testing::Not;

struct Answer {
  int exit_code = -1;
  std::string text;  // standard output and error
};

// A line for the shell, where `weir` is the binary.
Answer ask(const std::string& line) {
  const std::string script = "weir() { '" WEIR_BINARY "' \"$@\"; }; " + line;
  FILE* pipe = ::popen(("{ " + script + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  Answer answer;
  char chunk[4096];
  while (const size_t count = std::fread(chunk, 1, sizeof(chunk), pipe)) {
    answer.text.append(chunk, count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) answer.exit_code = WEXITSTATUS(status);
  return answer;
}

void expect_help(const std::string& command, const std::vector<std::string>& parts) {
  for (const char* flag : {" --help", " -h"}) {
    const Answer answer = ask(command + flag);
    EXPECT_EQ(answer.exit_code, 0);
    for (const std::string& part : parts) EXPECT_THAT(answer.text, HasSubstr(part));
  }
}

// The text with each run of white space as one space.
std::string with_single_spaces(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

TEST(CommandLine, HelpNamesEveryCommandAndOptionWithItsDefault) {
  expect_help("weir", {"serve", "migrate", "check-config", "sim", "demo", "metrics", "version",
                       "weir serve", "weir COMMAND --help", "--help", "--version"});
  expect_help("weir serve", {"--config FILE", "--allow-public ", "WEIR_ROOT_KEY", "--help"});
  expect_help("weir migrate", {"--config FILE", "--print", "--ledger URL", "--help"});
  expect_help("weir check-config", {"FILE", "--connect", "--help"});
  expect_help("weir sim",
              {"weir sim", "SCENARIO", "--seed N", "--seeds N (default 1)", "--out DIR",
               "--set PATH=VALUE", "--compare PATH=VALUE|FILE|floor", "--swarm", "--minutes M",
               "--worlds N", "--replay FILE", "--list", "--help", "--version"});
  expect_help("weir demo",
              {"weir demo", "--limit N (default 10)", "--window-ms N (default 5000)",
               "--rate N (default 4)", "--seconds N (default none)", "--help", "--version"});
  EXPECT_EQ(ask("weir --help sim").text, ask("weir sim --help").text);
  EXPECT_EQ(ask("weir -h demo").text, ask("weir demo --help").text);
  const std::string serve = with_single_spaces(ask("weir serve --help").text);
  for (const Setting& setting : settings()) {
    if (setting.value == "BOOL") continue;
    EXPECT_THAT(serve, HasSubstr(" --" + setting.name + " " + setting.value + " " +
                                 setting.meaning + " (default: " + setting.initial));
    const std::string range = setting.range.empty() ? "" : "; range: " + setting.range + ")";
    EXPECT_THAT(serve, HasSubstr(range));
  }
}

TEST(CommandLine, HelpOfTheProgramFitsOneScreen) {
  const Answer answer = ask("weir --help");
  EXPECT_LE(std::count(answer.text.begin(), answer.text.end(), '\n'), 24);
  EXPECT_THAT(answer.text, Not(HasSubstr("--config")));
}

TEST(CommandLine, HelpFitsEightyColumns) {
  for (const char* command :
       {"weir", "weir serve", "weir migrate", "weir check-config", "weir sim", "weir demo"}) {
    const Answer answer = ask(std::string(command) + " --help");
    EXPECT_EQ(answer.exit_code, 0) << command;
    const std::string& help = answer.text;
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

TEST(CommandLine, TellsItsVersionEveryWay) {
  for (const char* line :
       {"weir version", "weir --version", "weir sim --version", "weir demo --version"}) {
    const Answer answer = ask(line);
    EXPECT_EQ(answer.exit_code, 0);
    EXPECT_EQ(answer.text, "weir " WEIR_VERSION "\n");
  }
}

TEST(CommandLine, RefusesWrongUsageNamingWhatIsWrongAndTheRemedy) {
  const std::pair<const char*, const char*> wrong[] = {
      {"weir", "A command is required"},
      {"weir dmeo", "not expected: dmeo"},
      {"weir demo --colour", "not expected: --colour"},
      {"weir demo extra", "not expected: extra"},
      {"weir demo --limit", "--limit: 1 required number missing"},
      {"weir demo --limit 0", "--limit: Value 0 not in range 1 to 10000"},
      {"weir demo --limit many", "--limit: Value many not in range 1 to 10000"},
      {"weir demo --window-ms 99", "--window-ms: Value 99 not in range 100 to 3600000"},
      {"weir demo --rate -1", "--rate: Value -1 not in range 0 to 1000"},
      {"weir demo --seconds 0", "--seconds: Value 0 not in range 1 to 86400"},
      {"weir serve --http nowhere", "--http: is 'nowhere': it must be an IP address and a port"},
      {"weir serve --threads 257", "--threads: is '257': it must be a whole number from 0 to 256"},
      {"weir serve --memory 512MB",
       "--memory: is '512MB': it must be a size from 1MiB to 16TiB, like 512MiB"},
      {"weir serve --memory 1MiB --capacity 65536",
       "memory is 1048576 bytes, too little for a capacity of 65536: give it at least"},
      {"weir serve --http ''", "--http"},
      {"weir serve --http off --resp off", "both off: set an address or a socket"},
      {"weir serve --http 0.0.0.0:0", "add --allow-public"},
      {"weir check-config", "FILE is required"},
      {"weir sim", "asks for a SCENARIO, --swarm, --replay or --list: one of them"},
      {"weir sim x.yaml --list", "asks for a SCENARIO, --swarm, --replay or --list: one of them"},
      {"weir sim x.yaml --seed -1", "--seed: is '-1': it must be a whole number"},
      {"weir sim x.yaml --seeds 0", "--seeds: Value 0 not in range 1 to 1000"},
      {"weir sim x.yaml --set policy", "--set: is 'policy': it must be PATH=VALUE"},
      {"weir sim x.yaml --set =floor", "--set: is '=floor': it must be PATH=VALUE"},
      {"weir sim x.yaml --compare ceiling", "--compare: is 'ceiling': it must be PATH=VALUE"},
      {"weir sim x.yaml --seeds 2 --compare floor", "--seeds excludes --compare"},
      {"weir sim --minutes 1", "--minutes requires --swarm"},
  };
  for (const auto& [line, complaint] : wrong) {
    const Answer answer = ask(line);
    EXPECT_EQ(answer.exit_code, 2) << line;
    EXPECT_THAT(answer.text, HasSubstr(complaint));
    const bool sim = std::string_view(line).starts_with("weir sim");
    const bool demo = std::string_view(line).starts_with("weir demo");
    const bool serve = std::string_view(line).starts_with("weir serve");
    const bool check = std::string_view(line).starts_with("weir check-config");
    EXPECT_THAT(answer.text, HasSubstr(sim     ? "'weir sim --help'"
                                       : demo  ? "'weir demo --help'"
                                       : serve ? "'weir serve --help'"
                                       : check ? "'weir check-config --help'"
                                               : "'weir --help'"));
  }
}

TEST(CommandLine, DemoWithoutATerminalPrintsItsScriptInPlainText) {
  const Answer answer =
      ask("weir demo --limit 5 --window-ms 1000 --rate 8 --seconds 60 < /dev/null");
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_THAT(answer.text, HasSubstr("limit 5 per 1 s, 8 requests a second"));
  EXPECT_THAT(answer.text, HasSubstr("\nsliding_window_strict "));
  EXPECT_THAT(answer.text, Not(HasSubstr("\x1b")));
}

TEST(CommandLine, SaysWhatIsWrongWithAFileOfSettingsAndWhere) {
  const Answer right = ask("echo 'threads: 2' | weir check-config /dev/stdin");
  EXPECT_EQ(right.exit_code, 0);
  EXPECT_EQ(right.text, "/dev/stdin: valid\n");
  const Answer wrong =
      ask("printf 'threads: 2\\nnode: a b\\ncolour: red\\n' | "
          "weir check-config /dev/stdin");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.text, HasSubstr("/dev/stdin:2:7: node is 'a b': it must be 1 to 64 letters"));
  EXPECT_THAT(wrong.text, HasSubstr("/dev/stdin:3:1: 'colour' is not a setting"));
  const Answer nothing = ask("printf 'http: off\\nresp: off\\n' | weir check-config /dev/stdin");
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.text, HasSubstr("/dev/stdin: http and resp are both off"));
  const Answer missing = ask("weir check-config /nowhere");
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

TEST(CommandLine, SaysWhichScenarioCannotBeReadAndWhy) {
  const Answer missing = ask("weir sim -- /nowhere.yaml");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.text, "/nowhere.yaml: cannot be read\n");
  const Answer replay = ask("weir sim --replay /nowhere.yaml");
  EXPECT_EQ(replay.exit_code, missing.exit_code);
  EXPECT_EQ(replay.text, missing.text);
  EXPECT_EQ(ask("weir sim /").text, "/: cannot be read\n");
  const Answer misspelt = ask("printf 'about: x\\nregons: 3\\n' | weir sim /dev/stdin");
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.text, HasSubstr("/dev/stdin:2:1: "));
  EXPECT_THAT(misspelt.text, HasSubstr("regons"));
  const Answer changed = ask(kScenario + "weir sim /dev/stdin --set settings.polcy=floor");
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.text, HasSubstr("polcy"));
}

TEST(CommandLine, LivesAScenarioTheSameWayTwice) {
  const std::string line = kScenario + "weir sim /dev/stdin --seed 7 | grep -o 'fingerprint.*'";
  const Answer first = ask(line);
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.text, HasSubstr("fingerprint "));
  EXPECT_EQ(ask(line).text, first.text);
}

TEST(CommandLine, ASwarmOfTheSameSeedsComesToTheSameFingerprint) {
  const auto fingerprint = [](const std::string& line) {
    const Answer answer = ask(line);
    EXPECT_EQ(answer.exit_code, 0) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr("2 worlds, seeds "));
    EXPECT_THAT(answer.text, HasSubstr("no invariant was broken"));
    EXPECT_THAT(answer.text, Not(HasSubstr("\x1b")));
    const size_t at = answer.text.find("fingerprint ");
    return at == answer.text.npos ? std::string() : answer.text.substr(at, 28);
  };
  const std::string first = fingerprint("weir sim --swarm --worlds 2 --seed 1");
  EXPECT_EQ(fingerprint("weir sim --swarm --worlds 2 --seed 1"), first);
  EXPECT_NE(fingerprint("weir sim --swarm --worlds 2 --seed 2"), first);
}

// As in a folder where only the server was built.
TEST(CommandLine, SaysHowToBuildAProgramThatIsNotThere) {
  const Answer answer = ask("folder=$(mktemp -d); cp '" WEIR_BINARY
                            "' \"$folder\"; \"$folder/weir\" sim --list; "
                            "code=$?; rm -r \"$folder\"; exit $code");
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, HasSubstr("/weir-sim: No such file or directory"));
  EXPECT_THAT(answer.text, HasSubstr("run './dev build' to build it"));
}

TEST(CommandLine, AFullDiskIsAFailure) {
  for (const char* line : {"weir version > /dev/full", "weir demo > /dev/full"}) {
    const Answer answer = ask(line);
    EXPECT_EQ(answer.exit_code, 1);
    EXPECT_THAT(answer.text, HasSubstr("cannot write to standard output"));
  }
}

}  // namespace
}  // namespace weir

// The house rules that a machine can check: who may include whom, who may touch the
// system, and what the public headers may need.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/house/source_tree.h"

namespace weir::house {
namespace {

const std::filesystem::path kRoot = WEIR_SOURCE_DIR;
using Floors = std::map<std::string, std::set<std::string>>;

Floors read_floors() {
  std::ifstream in(kRoot / "tests/house/floors.txt");
  Floors floors;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    std::istringstream names(line.substr(colon + 1));
    std::set<std::string>& below = floors[line.substr(0, colon)];
    for (std::string name; names >> name;) below.insert(name);
  }
  return floors;
}

std::vector<std::string> wrong_arrows(const Floors& floors, const std::vector<SourceFile>& files) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : files) {
    if (file.is_test()) continue;
    const auto floor = floors.find(file.room());
    if (floor == floors.end()) {
      wrong.push_back(file.path + ": its room is not in floors.txt");
      continue;
    }
    for (const std::string& room : file.included_rooms()) {
      if (room == file.room() || floor->second.contains(room)) continue;
      wrong.push_back(file.path + " includes " + room);
    }
  }
  return wrong;
}

// What only src/platform may touch: the OS clock, sleeping, threads, entropy, signals.
const std::regex kSystem(
    R"(_clock::now|\bclock_gettime\b|\bgettimeofday\b|\btime\(nullptr\)|\btime\(NULL\)|sleep_for|sleep_until)"
    R"(|\busleep\b|\bnanosleep\b|std::thread\b|std::jthread\b|pthread_create|std::async\b|random_device)"
    R"(|\bgetrandom\b|/dev/u?random|std::signal\b|\bsigaction\b|\brand\(\))");

std::vector<std::string> touches_of_the_system(const std::vector<SourceFile>& files) {
  std::vector<std::string> touches;
  for (const SourceFile& file : files) {
    // Tests make threads to race them; benchmarks measure time.
    if (file.is_test() || file.room() == "platform" || file.room() == "bench") continue;
    const std::string code = file.code();
    std::smatch found;
    if (std::regex_search(code, found, kSystem)) touches.push_back(file.path + ": " + found.str());
  }
  return touches;
}

// What tests/schedule cannot stop a thread at: it would wait for ever for one that waits for it.
const std::regex kUnseenWaiting(
    R"(std::(recursive_|shared_|timed_)?mutex\b|std::condition_variable)");

std::vector<std::string> unseen_waiting(const std::vector<SourceFile>& files) {
  std::vector<std::string> waits;
  for (const SourceFile& file : files) {
    if (file.is_test() || (file.room() != "memory" && file.room() != "limiter")) continue;
    const std::string code = file.code();
    std::smatch found;
    if (std::regex_search(code, found, kUnseenWaiting)) {
      waits.push_back(file.path + ": " + found.str() + " instead of base::Mutex");
    }
  }
  return waits;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

TEST(Floors, HaveNoWrongArrow) {
  const auto wrong = wrong_arrows(read_floors(), source_files(kRoot));
  EXPECT_TRUE(wrong.empty()) << joined(wrong);
}

TEST(Floors, HaveNoCircle) {
  const Floors floors = read_floors();
  for (const auto& [room, below] : floors) {
    for (const std::string& other : below) {
      ASSERT_TRUE(floors.contains(other)) << room << " names " << other;
      EXPECT_FALSE(floors.at(other).contains(room)) << room << " and " << other;
    }
  }
}

TEST(Floors, FailOnAPlantedWrongInclude) {
  const Floors floors = read_floors();
  auto files = source_files(kRoot);
  files.push_back({.path = "src/algorithms/planted.cc", .text = "#include \"memory/table.h\"\n"});
  EXPECT_EQ(wrong_arrows(floors, files),
            std::vector<std::string>{"src/algorithms/planted.cc includes memory"});
  files.back() = {.path = "src/attic/planted.cc", .text = ""};
  EXPECT_EQ(wrong_arrows(floors, files).size(), 1u);
  files.back() = {.path = "include/weir/planted.h", .text = "  #  include \"base/check.h\"\n"};
  EXPECT_EQ(wrong_arrows(floors, files).size(), 1u);
  files.back() = {.path = "src/memory/planted.cc",
                  .text = "// #include\n#include \"base/check.h\"\n"};
  EXPECT_TRUE(wrong_arrows(floors, files).empty());
}

TEST(System, IsTouchedByThePlatformRoomOnly) {
  const auto touches = touches_of_the_system(source_files(kRoot));
  EXPECT_TRUE(touches.empty()) << joined(touches);
}

TEST(System, IsFoundWhereItIsPlanted) {
  const auto found = [](const std::string& path, const std::string& text) {
    return !touches_of_the_system({{.path = path, .text = text}}).empty();
  };
  EXPECT_TRUE(found("src/limiter/x.cc", "auto t = std::chrono::steady_clock::now();"));
  EXPECT_TRUE(found("src/limiter/x.cc", "std::this_thread::sleep_for(ms);"));
  EXPECT_TRUE(found("sim/x.cc", "std::thread t;"));
  EXPECT_TRUE(found("src/memory/x.h", "std::random_device d;"));
  EXPECT_FALSE(found("src/platform/x.cc", "std::thread t;"));
  EXPECT_FALSE(
      found("src/limiter/x.cc", "// std::thread is not for us\nconst char* s = \"std::thread\";"));
}

TEST(Mutexes, AreThoseThatATestCanSchedule) {
  const auto waits = unseen_waiting(source_files(kRoot));
  EXPECT_TRUE(waits.empty()) << joined(waits);
  EXPECT_EQ(unseen_waiting({{.path = "src/limiter/x.h", .text = "std::mutex m;"},
                            {.path = "src/memory/x.h", .text = "#include <mutex>\nbase::Mutex m;"},
                            {.path = "src/frontends/x.h", .text = "std::mutex m;"}})
                .size(),
            1u);
}

TEST(PublicHeaders, NeedOnlyTheStandardLibrary) {
  const std::regex angle(R"re(#\s*include\s*<([^>]+)>)re");
  for (const SourceFile& file : source_files(kRoot)) {
    if (file.room() != "weir") continue;
    for (auto i = std::sregex_iterator(file.text.begin(), file.text.end(), angle);
         i != std::sregex_iterator(); ++i) {
      const std::string header = (*i)[1].str();
      EXPECT_EQ(header.find_first_of("/."), std::string::npos)
          << file.path << " includes <" << header << ">";
    }
  }
}

}  // namespace
}  // namespace weir::house

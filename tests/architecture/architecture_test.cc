// Rules of the source tree: which module may include which, which module may use the operating
// system, and what the public headers may need.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/architecture/source_tree.h"

namespace weir::architecture {
namespace {

const std::filesystem::path kRoot = WEIR_SOURCE_DIR;
// Each module with the modules that it includes.
using Dependencies = std::map<std::string, std::set<std::string>>;

Dependencies read_layers() {
  std::ifstream in(kRoot / "tests/architecture/layers.txt");
  Dependencies layers;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    std::istringstream names(line.substr(colon + 1));
    std::set<std::string>& allowed = layers[line.substr(0, colon)];
    for (std::string name; names >> name;) allowed.insert(name);
  }
  return layers;
}

Dependencies includes_of(const std::vector<SourceFile>& files) {
  Dependencies includes;
  for (const SourceFile& file : files) {
    if (file.is_test()) continue;
    std::set<std::string>& included = includes[file.module()];
    for (const std::string& module : file.included_modules()) {
      if (module != file.module()) included.insert(module);
    }
  }
  return includes;
}

std::vector<std::string> wrong_includes(const Dependencies& layers,
                                        const std::vector<SourceFile>& files) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : files) {
    if (file.is_test()) continue;
    const auto layer = layers.find(file.module());
    if (layer == layers.end()) {
      wrong.push_back(file.path + ": its module is not in layers.txt");
      continue;
    }
    for (const std::string& module : file.included_modules()) {
      if (module == file.module() || layer->second.contains(module)) continue;
      wrong.push_back(file.path + " includes " + module);
    }
  }
  return wrong;
}

// A cycle of any length, as "a -> b -> c -> a"; empty if there is none. A depth-first search: a
// module that is still on the path when it is reached again closes a cycle.
class CycleSearch {
 public:
  explicit CycleSearch(const Dependencies& dependencies) : dependencies_(dependencies) {}

  [[nodiscard]] std::string find() {
    for (const auto& [module, below] : dependencies_) {
      if (std::string cycle = visit(module); !cycle.empty()) return cycle;
    }
    return {};
  }

 private:
  [[nodiscard]] std::string visit(const std::string& module) {
    if (const auto on_path = std::find(path_.begin(), path_.end(), module);
        on_path != path_.end()) {
      std::string cycle;
      for (auto each = on_path; each != path_.end(); ++each) cycle += *each + " -> ";
      return cycle + module;
    }
    if (!finished_.insert(module).second) return {};
    path_.push_back(module);
    if (const auto found = dependencies_.find(module); found != dependencies_.end()) {
      for (const std::string& below : found->second) {
        if (std::string cycle = visit(below); !cycle.empty()) return cycle;
      }
    }
    path_.pop_back();
    return {};
  }

  const Dependencies& dependencies_;
  std::vector<std::string> path_;
  std::set<std::string> finished_;  // visited, perhaps still on the path
};

std::string cycle_in(const Dependencies& dependencies) {
  return CycleSearch(dependencies).find();
}

// Only src/platform may use the OS clock, sleep, threads, entropy and signals.
const std::regex kSystem(
    R"(_clock::now|\bclock_gettime\b|\bgettimeofday\b|\btime\(nullptr\)|\btime\(NULL\)|sleep_for|sleep_until)"
    R"(|\busleep\b|\bnanosleep\b|std::thread\b|std::jthread\b|pthread_create|std::async\b|random_device)"
    R"(|\bgetrandom\b|/dev/u?random|std::signal\b|\bsigaction\b|\brand\(\))");

std::vector<std::string> uses_of_the_system(const std::vector<SourceFile>& files) {
  std::vector<std::string> uses;
  for (const SourceFile& file : files) {
    // Tests start threads, and benchmarks measure time.
    if (file.is_test() || file.module() == "platform" || file.module() == "bench") continue;
    const std::string code = file.code();
    std::smatch found;
    if (std::regex_search(code, found, kSystem)) uses.push_back(file.path + ": " + found.str());
  }
  return uses;
}

// tests/schedule cannot schedule a thread that waits for one of these, and would hang.
const std::regex kUnscheduledWait(
    R"(std::(recursive_|shared_|timed_)?mutex\b|std::condition_variable)");

std::vector<std::string> unscheduled_waits(const std::vector<SourceFile>& files) {
  const std::set<std::string> scheduled = {"memory", "regional", "global", "decide"};
  std::vector<std::string> waits;
  for (const SourceFile& file : files) {
    if (file.is_test() || !scheduled.contains(file.module())) continue;
    const std::string code = file.code();
    std::smatch found;
    if (std::regex_search(code, found, kUnscheduledWait)) {
      waits.push_back(file.path + ": " + found.str() + " instead of base::Mutex");
    }
  }
  return waits;
}

const std::vector<SourceFile>& all_files() {
  static const std::vector<SourceFile> kFiles = source_files(kRoot);
  return kFiles;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

TEST(Layers, AllowAllIncludes) {
  const auto wrong = wrong_includes(read_layers(), all_files());
  EXPECT_TRUE(wrong.empty()) << joined(wrong);
}

TEST(Layers, NameOnlyKnownModules) {
  const Dependencies layers = read_layers();
  for (const auto& [module, allowed] : layers) {
    for (const std::string& other : allowed) {
      EXPECT_TRUE(layers.contains(other)) << module << " names " << other;
    }
  }
}

TEST(Layers, HaveNoCycle) {
  EXPECT_EQ(cycle_in(read_layers()), "");
}

TEST(Layers, HaveNoCycleInTheActualIncludes) {
  EXPECT_EQ(cycle_in(includes_of(all_files())), "");
}

TEST(Layers, FailOnAPlantedWrongInclude) {
  const Dependencies layers = read_layers();
  std::vector<SourceFile> files = {
      {.path = "src/algorithms/planted.cc", .text = "#include \"memory/table.h\"\n"}};
  EXPECT_EQ(wrong_includes(layers, files),
            std::vector<std::string>{"src/algorithms/planted.cc includes memory"});
  files.back() = {.path = "src/unlisted/planted.cc", .text = ""};
  EXPECT_EQ(wrong_includes(layers, files).size(), 1u);
  files.back() = {.path = "include/weir/planted.h", .text = "  #  include \"base/check.h\"\n"};
  EXPECT_EQ(wrong_includes(layers, files).size(), 1u);
  files.back() = {.path = "src/regional/planted.cc",
                  .text = "#include \"decide/request_context.h\"\n"};
  EXPECT_EQ(wrong_includes(layers, files).size(), 1u);
  files.back() = {.path = "src/regional/planted.cc", .text = "#include \"global/regions.h\"\n"};
  EXPECT_EQ(wrong_includes(layers, files).size(), 1u);
  files.back() = {.path = "src/memory/planted.cc",
                  .text = "// #include\n#include \"base/check.h\"\n"};
  EXPECT_TRUE(wrong_includes(layers, files).empty());
}

TEST(Layers, FailOnPlantedCyclesOfAnyLength) {
  EXPECT_EQ(cycle_in({{"a", {"b"}}, {"b", {"c"}}, {"c", {}}}), "");
  EXPECT_EQ(cycle_in({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}), "");
  EXPECT_EQ(cycle_in({{"a", {"a"}}}), "a -> a");
  EXPECT_EQ(cycle_in({{"a", {"b"}}, {"b", {"a"}}}), "a -> b -> a");
  EXPECT_EQ(cycle_in({{"a", {"b"}}, {"b", {"c"}}, {"c", {"d"}}, {"d", {"b"}}}), "b -> c -> d -> b");
  Dependencies layers = read_layers();
  layers["base"].insert("decide");
  EXPECT_NE(cycle_in(layers), "");
  layers = read_layers();
  layers["memory"].insert("global");
  EXPECT_NE(cycle_in(layers), "");
  auto files = all_files();
  files.push_back({.path = "src/algorithms/planted.h", .text = "#include \"memory/slot.h\"\n"});
  EXPECT_NE(cycle_in(includes_of(files)), "");
}

TEST(System, IsUsedOnlyByThePlatformModule) {
  const auto uses = uses_of_the_system(all_files());
  EXPECT_TRUE(uses.empty()) << joined(uses);
}

TEST(System, IsFoundWhereItsUseIsPlanted) {
  const auto found = [](const std::string& path, const std::string& text) {
    return !uses_of_the_system({{.path = path, .text = text}}).empty();
  };
  EXPECT_TRUE(found("src/decide/x.cc", "auto t = std::chrono::steady_clock::now();"));
  EXPECT_TRUE(found("src/decide/x.cc", "std::this_thread::sleep_for(ms);"));
  EXPECT_TRUE(found("sim/x.cc", "std::thread t;"));
  EXPECT_TRUE(found("src/memory/x.h", "std::random_device d;"));
  EXPECT_FALSE(found("src/platform/x.cc", "std::thread t;"));
  EXPECT_FALSE(
      found("src/decide/x.cc", "// no std::thread here\nconst char* s = \"std::thread\";"));
}

TEST(Mutexes, AreThoseThatTheTestSchedulerControls) {
  const auto waits = unscheduled_waits(all_files());
  EXPECT_TRUE(waits.empty()) << joined(waits);
  EXPECT_EQ(
      unscheduled_waits({{.path = "src/decide/x.h", .text = "std::mutex m;"},
                         {.path = "src/global/x.h", .text = "std::shared_mutex m;"},
                         {.path = "src/memory/x.h", .text = "#include <mutex>\nbase::Mutex m;"},
                         {.path = "src/frontends/x.h", .text = "std::mutex m;"}})
          .size(),
      2u);
}

TEST(PublicHeaders, NeedOnlyTheStandardLibrary) {
  const std::regex angle(R"re(#\s*include\s*<([^>]+)>)re");
  for (const SourceFile& file : all_files()) {
    if (file.module() != "weir") continue;
    for (auto i = std::sregex_iterator(file.text.begin(), file.text.end(), angle);
         i != std::sregex_iterator(); ++i) {
      const std::string header = (*i)[1].str();
      EXPECT_EQ(header.find_first_of("/."), std::string::npos)
          << file.path << " includes <" << header << ">";
    }
  }
}

}  // namespace
}  // namespace weir::architecture

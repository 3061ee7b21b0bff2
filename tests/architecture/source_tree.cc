#include "tests/architecture/source_tree.h"

#include <fstream>
#include <regex>
#include <sstream>

namespace weir::architecture {
namespace {

namespace fs = std::filesystem;

std::string first_folder(const std::string& path) {
  return path.substr(0, path.find('/'));
}

// The module of a path as files include it. The simulator's program is a module of its own, because
// it may include more than the simulator.
std::string module_of(const std::string& path) {
  return path.starts_with("sim/command/") ? "sim/command" : first_folder(path);
}

}  // namespace

std::string SourceFile::module() const {
  if (path.starts_with("include/")) return "weir";
  return module_of(path.starts_with("src/") ? path.substr(4) : path);
}

bool SourceFile::is_test() const {
  return path.find("_test.") != std::string::npos || first_folder(path) == "tests";
}

std::vector<std::string> SourceFile::included_modules() const {
  static const std::regex kInclude(R"re((?:^|\n)\s*#\s*include\s*"([^"]+)")re");
  std::vector<std::string> modules;
  for (auto i = std::sregex_iterator(text.begin(), text.end(), kInclude);
       i != std::sregex_iterator(); ++i) {
    modules.push_back(module_of((*i)[1].str()));
  }
  return modules;
}

std::string SourceFile::code() const {
  std::string code;
  enum class Within { kCode, kLine, kBlock, kString, kChar } within = Within::kCode;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (within) {
      case Within::kCode:
        if (c == '/' && next == '/')
          within = Within::kLine;
        else if (c == '/' && next == '*')
          within = Within::kBlock;
        else if (c == '"')
          within = Within::kString;
        // A quote after a digit is a digit separator.
        else if (c == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))
          within = Within::kChar;
        if (within == Within::kCode) code += c;
        break;
      case Within::kLine:
        if (c == '\n') within = Within::kCode, code += c;
        break;
      case Within::kBlock:
        if (c == '*' && next == '/') within = Within::kCode, ++i;
        break;
      case Within::kString:
      case Within::kChar:
        if (c == '\\')
          ++i;
        else if (c == (within == Within::kString ? '"' : '\''))
          within = Within::kCode;
        break;
    }
  }
  return code;
}

std::vector<SourceFile> source_files(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const char* top : {"include", "src", "sim", "bench", "examples", "tests"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (!entry.is_regular_file() || (extension != ".h" && extension != ".cc")) continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      files.push_back(
          {.path = fs::relative(entry.path(), root).generic_string(), .text = text.str()});
    }
  }
  return files;
}

}  // namespace weir::architecture

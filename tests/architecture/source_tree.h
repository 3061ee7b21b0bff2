// The repository as text: its source files, their modules and their includes.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weir::architecture {

struct SourceFile {
  std::string path;  // relative to the repository's root
  std::string text;

  // "memory" for src/memory/table.cc, "weir" for include/weir/clock.h, else the top folder.
  [[nodiscard]] std::string module() const;
  [[nodiscard]] bool is_test() const;
  // The modules of its quoted includes.
  [[nodiscard]] std::vector<std::string> included_modules() const;
  // The text without comments and string literals.
  [[nodiscard]] std::string code() const;
};

[[nodiscard]] std::vector<SourceFile> source_files(const std::filesystem::path& root);

}  // namespace weir::architecture

// The repository as text: which files there are, in which room, and what they include.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weir::house {

struct SourceFile {
  std::string path;  // from the repository's root
  std::string text;

  // "memory" for src/memory/table.cc, "weir" for include/weir/clock.h, else the top folder.
  [[nodiscard]] std::string room() const;
  [[nodiscard]] bool is_test() const;
  // The rooms named by its quoted includes.
  [[nodiscard]] std::vector<std::string> included_rooms() const;
  // The text without comments and string literals, so that words about a thing are not
  // taken for the thing.
  [[nodiscard]] std::string code() const;
};

[[nodiscard]] std::vector<SourceFile> source_files(const std::filesystem::path& root);

}  // namespace weir::house

// A temporary folder for a test; the destructor deletes it.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weir::servers {

class TemporaryFolder {
 public:
  // `label` is a part of its name.
  explicit TemporaryFolder(const std::string& label) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / ("weir-" + label + "-XXXXXX")).string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace weir::servers

#include "server/password.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace weir::server {
namespace {

std::string first_line_of(const std::string& setting, const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file.is_open() || !std::getline(file, line) || line.empty()) {
    throw std::runtime_error(
        fmt::format("{} is '{}': it must be a readable file with the password in its first line",
                    setting, path));
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

std::string password_from(const std::string& setting, const std::string& file,
                          const char* variable) {
  if (!file.empty()) return first_line_of(setting, file);
  const char* given = std::getenv(variable);
  return given == nullptr ? "" : given;
}

}  // namespace weir::server

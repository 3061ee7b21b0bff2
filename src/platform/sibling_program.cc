#include "platform/sibling_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace weir::platform {

std::string exec_sibling_program(const std::string& name,
                                 const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "/proc/self/exe: " + error.message();
  const std::string path = self.parent_path() / name;
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& each : arguments) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  ::execv(path.c_str(), words.data());
  return path + ": " + std::strerror(errno);
}

}  // namespace weir::platform

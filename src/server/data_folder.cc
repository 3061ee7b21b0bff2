#include "server/data_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "platform/entropy.h"

namespace weir::server {
namespace {

[[noreturn]] void give_up(const std::string& what, const std::string& path) {
  throw std::runtime_error(fmt::format("cannot {} {}: {}; choose another folder with --data", what,
                                       path, std::strerror(errno)));
}

// For its owner only, if it was not there before.
std::error_code make_private(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) chmod(folder.c_str(), 0700);
  return error;
}

// Readable by its owner only, and never there in part.
void write_privately(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) give_up("write", draft);
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(file) == 0;
  if (close(file) != 0 || !written) give_up("write", draft);
  if (rename(draft.c_str(), path.c_str()) != 0) give_up("write", path);
}

}  // namespace

std::string root_key_file(const std::string& folder) {
  return (std::filesystem::path(folder) / "root_key.sha256").string();
}

std::string ledger_file(const std::string& folder) {
  return (std::filesystem::path(folder) / "ledger.db").string();
}

std::string make_folder(const std::string& folder) {
  const std::error_code error = make_private(folder);
  if (error) return error.message();
  return access(folder.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

RootKey open_root_key(const std::string& folder) {
  if (const std::error_code error = make_private(folder)) {
    errno = error.value();
    give_up("make the folder", folder);
  }
  const std::string path = root_key_file(folder);
  if (std::ifstream file(path); file) {
    std::string text;
    file >> text;
    const auto hash = rules::from_hex(text);
    if (!hash) {
      throw std::runtime_error(fmt::format(
          "{} does not hold the hash of a key; remove it, and the next start makes a new key",
          path));
    }
    return {.hash = *hash};
  }
  // One that cannot be read must not be replaced: its key is in use.
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    give_up("read", path);
  }
  const std::string key =
      rules::make_key({platform::entropy(), platform::entropy(), platform::entropy()});
  const rules::KeyHash hash = rules::hash_of(key);
  write_privately(path, rules::to_hex(hash) + "\n");
  return {.hash = hash, .fresh = key};
}

}  // namespace weir::server

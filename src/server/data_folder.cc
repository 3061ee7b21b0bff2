#include "server/data_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "platform/entropy.h"
#include "platform/thread_group.h"

namespace weir::server {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path) {
  throw std::runtime_error(fmt::format("cannot {} {}: {}; choose another folder with --data",
                                       action, path, std::strerror(errno)));
}

// With mode 0700, if the folder is new.
std::error_code make_private(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) chmod(folder.c_str(), 0700);
  return error;
}

// Creates a file with mode 0600 atomically. False: another process has created it.
bool write_privately(const std::string& path, const std::string& text) {
  const std::string draft = fmt::format("{}.{:016x}", path, platform::entropy());
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail("write", draft);
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(file) == 0;
  if (close(file) != 0 || !written) {
    unlink(draft.c_str());
    fail("write", draft);
  }
  // link(), unlike rename(), does not replace an existing file.
  const bool created = link(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(draft.c_str());
  errno = error;
  if (!created && errno != EEXIST) fail("write", path);
  return created;
}

// nullopt: there is no file.
std::optional<rules::KeyHash> find_root_key(const std::string& path) {
  if (std::ifstream file(path); file) {
    std::string text;
    file >> text;
    const auto hash = rules::from_hex(text);
    if (!hash) {
      throw std::runtime_error(fmt::format(
          "{} does not contain the hash of a key; remove it, and the next start creates a new key",
          path));
    }
    return hash;
  }
  // A file that is not readable must not be replaced: its key is in use.
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    fail("read", path);
  }
  return std::nullopt;
}

// The process in a lock file.
std::string holder_of(int file) {
  char text[32] = "";
  const ssize_t got = pread(file, text, sizeof text - 1, 0);
  const std::string pid(text, got > 0 ? static_cast<size_t>(got) : 0);
  const size_t digits = pid.find_first_not_of("0123456789");
  return digits == 0 || pid.empty() ? "another process" : "process " + pid.substr(0, digits);
}

}  // namespace

std::string root_key_path(const std::string& folder) {
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

std::string lock_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "weir.lock").string();
}

std::string state_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "state.log").string();
}

void expect_folder(const std::string& folder) {
  std::error_code ignored;
  const auto status = std::filesystem::status(folder, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) return;
  throw std::runtime_error(
      fmt::format("data is '{}': it is a file, not a folder; choose another with --data", folder));
}

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = lock_path(folder);
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) fail("write", path);
  int failed = flock(file_, LOCK_EX | LOCK_NB);
  // A command that asks is_locked() holds it for an instant.
  for (int i = 0; i < 5 && failed != 0 && errno == EWOULDBLOCK; ++i) {
    platform::ThreadGroup::sleep(Millis(10));
    failed = flock(file_, LOCK_EX | LOCK_NB);
  }
  if (failed != 0) {
    const bool taken = errno == EWOULDBLOCK;
    const std::string holder = holder_of(file_);
    close(file_);
    if (!taken) fail("lock", path);
    throw std::runtime_error(fmt::format(
        "data is '{}': {} already uses it; stop it, or choose another folder with --data", folder,
        holder));
  }
  // For the error message of the next process; optional, so a full disk is ignored.
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(file_, 0) != 0 || pwrite(file_, pid.data(), pid.size(), 0) < 0) return;
}

FolderLock::~FolderLock() {
  close(file_);
}

bool is_locked(const std::string& folder) {
  const int file = open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool locked = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return locked;
}

rules::KeyHash read_root_key(const std::string& folder) {
  const auto hash = find_root_key(root_key_path(folder));
  if (!hash) throw std::runtime_error(fmt::format("{} does not exist", root_key_path(folder)));
  return *hash;
}

RootKey open_root_key(const std::string& folder) {
  if (const std::error_code error = make_private(folder)) {
    errno = error.value();
    fail("create the folder", folder);
  }
  const std::string path = root_key_path(folder);
  if (const auto known = find_root_key(path)) return {.hash = *known};
  const std::string key = rules::make_key(
      "weir_root_", {platform::entropy(), platform::entropy(), platform::entropy()});
  const rules::KeyHash hash = rules::hash_of(key);
  if (write_privately(path, rules::to_hex(hash) + "\n")) return {.hash = hash, .fresh = key};
  return {.hash = read_root_key(folder)};
}

}  // namespace weir::server

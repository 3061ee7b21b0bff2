// The data folder of a server: the hash of its root key, the default ledger, and the state of the
// algorithms that no ledger stores. One server at a time stores counts in a folder.

#pragma once

#include <optional>
#include <string>

#include "rules/root_keys.h"

namespace weir::server {

struct RootKey {
  rules::KeyHash hash{};
  std::optional<std::string> fresh{};  // the key itself, if it was just created
};

// Creates a folder for its owner only, unless it exists. Returns why it is not writable; empty: it
// is.
[[nodiscard]] std::string make_folder(const std::string& folder);

// The root key of a folder; creates the folder and the key if there is none. If two processes
// create a key at once, one key is stored and one caller gets it. Throws std::runtime_error if the
// folder is not usable.
[[nodiscard]] RootKey open_root_key(const std::string& folder);

// The stored hash. Throws std::runtime_error if there is none.
[[nodiscard]] rules::KeyHash read_root_key(const std::string& folder);

// Throws std::runtime_error if the path is not a folder.
void expect_folder(const std::string& folder);

// Locks a folder until it is destroyed or the process ends.
class FolderLock {
 public:
  // Throws std::runtime_error with the pid of the process that holds the lock.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

// Whether a process holds the lock of the folder.
[[nodiscard]] bool is_locked(const std::string& folder);

// The paths of the files in a folder.
[[nodiscard]] std::string root_key_path(const std::string& folder);
[[nodiscard]] std::string ledger_file(const std::string& folder);
[[nodiscard]] std::string lock_path(const std::string& folder);
[[nodiscard]] std::string state_path(const std::string& folder);

}  // namespace weir::server

// What a server keeps between two starts: the hash of its root key, the usual ledger, and the state
// of algorithms that no ledger keeps. One server at a time keeps counts in a folder.

#pragma once

#include <optional>
#include <string>

#include "rules/root_keys.h"

namespace weir::server {

struct RootKey {
  rules::KeyHash hash{};
  std::optional<std::string> fresh{};  // the key itself, if it was made just now
};

// Makes a folder for its owner only, unless it is there, and says what is wrong if it cannot be
// written to; nothing, if it can.
[[nodiscard]] std::string make_folder(const std::string& folder);

// The root key of a folder, which is made with a new key if there is none; of two that make one at
// once, one key stands and one caller gets it. Throws std::runtime_error if the folder cannot be
// used.
[[nodiscard]] RootKey open_root_key(const std::string& folder);

// The hash in a folder that has one. Throws std::runtime_error if there is none.
[[nodiscard]] rules::KeyHash read_root_key(const std::string& folder);

// Throws std::runtime_error if there is something else than a folder at this path.
void expect_folder(const std::string& folder);

// Holds a folder until it is destroyed or the process ends, however it ends.
class FolderLock {
 public:
  // Throws std::runtime_error with the pid of whoever holds the folder.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

// Where they are kept.
[[nodiscard]] std::string root_key_path(const std::string& folder);
[[nodiscard]] std::string ledger_file(const std::string& folder);
[[nodiscard]] std::string lock_path(const std::string& folder);
[[nodiscard]] std::string state_path(const std::string& folder);

}  // namespace weir::server

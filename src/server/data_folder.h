// What a server keeps between two starts: the hash of its root key, and the usual ledger.

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

// The root key of a folder, which is made with a new key if there is none. Throws
// std::runtime_error if the folder cannot be used.
[[nodiscard]] RootKey open_root_key(const std::string& folder);

// Where they are kept.
[[nodiscard]] std::string root_key_file(const std::string& folder);
[[nodiscard]] std::string ledger_file(const std::string& folder);

}  // namespace weir::server

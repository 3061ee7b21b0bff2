// Tells when a file has changed and is complete: it was the same in two checks.
//
// One thread at a time.

#pragma once

#include <cstdint>
#include <string>
#include <tuple>

namespace weir::server {

class FileWatch {
 public:
  // Watches nothing if the path is empty.
  explicit FileWatch(std::string path);

  // Whether the file differs from when it was last reported, or from the start. Reported once.
  [[nodiscard]] bool has_changed();

 private:
  using State = std::tuple<uint64_t, int64_t, int64_t, int64_t>;  // inode, size, s, ns
  [[nodiscard]] State state() const;

  const std::string path_;
  State reported_;
  State seen_;
};

}  // namespace weir::server

// A Unix socket that several loops accept from.
//
// The file is made with mode 0660, before anyone can connect: its owner and its group may. What a
// process left behind that ended without removing it is removed; where someone still listens, or
// where the file is no socket, it stays and opening fails. It is removed with this object, unless
// another process has taken its place meanwhile.
//
// One thread at a time.

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "weir/error.h"

namespace weir::frontends {

// sun_path with the zero behind it.
inline constexpr size_t kMaxSocketPath = 107;

class UnixSocket {
 public:
  [[nodiscard]] static Result<std::shared_ptr<UnixSocket>> open(const std::string& path);
  ~UnixSocket();
  UnixSocket(const UnixSocket&) = delete;
  UnixSocket& operator=(const UnixSocket&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // A descriptor of its own for a loop, which closes it.
  [[nodiscard]] Result<int> duplicate() const;
  // All loops have theirs: when they have closed them, connecting fails at once.
  void leave_to_loops();

 private:
  UnixSocket(std::string path, int listener, int file)
      : path_(std::move(path)), file_(file), listener_(listener) {}
  [[nodiscard]] bool is_ours() const;

  const std::string path_;
  const int file_;  // the file itself: while it is held, no other one has its number
  int listener_;    // -1: closed
};

}  // namespace weir::frontends

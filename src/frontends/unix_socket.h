// A Unix socket that several loops accept from.
//
// The file gets mode 0660 before a client can connect: its owner and its group may. open() removes
// the stale file of a process that did not remove it. It fails if another process listens there, or
// if the file is not a socket. The destructor removes the file, unless another process has replaced
// it.
//
// One thread at a time.

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "weir/error.h"

namespace weir::frontends {

// The size of sun_path without the terminating zero.
inline constexpr size_t kMaxSocketPath = 107;

class UnixSocket {
 public:
  [[nodiscard]] static Result<std::shared_ptr<UnixSocket>> open(const std::string& path);
  ~UnixSocket();
  UnixSocket(const UnixSocket&) = delete;
  UnixSocket& operator=(const UnixSocket&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // A duplicate of the listening descriptor; the caller closes it.
  [[nodiscard]] Result<int> duplicate() const;
  // Closes the own descriptor once all loops have duplicates. After they close theirs, connecting
  // fails at once.
  void close_listener();

 private:
  UnixSocket(std::string path, int listener, int file)
      : path_(std::move(path)), file_(file), listener_(listener) {}
  [[nodiscard]] bool is_ours() const;

  const std::string path_;
  const int file_;  // an O_PATH descriptor: no other file can get its inode number
  int listener_;    // -1: closed
};

}  // namespace weir::frontends

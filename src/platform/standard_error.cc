#include "platform/standard_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::platform {

std::string redirect_stderr(const std::string& path) {
  // Standard error at the start of the process.
  static const int original = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  const int file = path.empty()
                       ? fcntl(original, F_DUPFD_CLOEXEC, 3)
                       : open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (file < 0) return std::strerror(errno);
  const bool moved = dup2(file, STDERR_FILENO) >= 0;
  const int error = errno;
  close(file);
  return moved ? "" : std::strerror(error);
}

}  // namespace weir::platform

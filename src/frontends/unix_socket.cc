#include "frontends/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "frontends/listening.h"

namespace weir::frontends {
namespace {

constexpr mode_t kOwnerAndGroup = 0660;

Error cannot_listen_at(const std::string& path, const std::string& reason, const std::string& fix) {
  return {.code = ErrorCode::kUnavailable,
          .field = path,
          .detail = "cannot listen at the Unix socket " + path + ": " + reason,
          .fix = fix};
}

Error failed_at(const std::string& path, int error) {
  const bool folder = error == ENOENT || error == ENOTDIR;
  const bool files = error == EMFILE || error == ENFILE;
  return cannot_listen_at(path, std::strerror(error),
                          folder  ? "create its folder first"
                          : files ? "raise the limit of open files (ulimit -n)"
                                  : "choose a path in a folder that this user may write to");
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Whether a process accepts connections there.
bool has_listener(const sockaddr_un& address) {
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (client < 0) return true;
  const int got = connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool served = got == 0 || errno != ECONNREFUSED;
  close(client);
  return served;
}

}  // namespace

Result<std::shared_ptr<UnixSocket>> UnixSocket::open(const std::string& path) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return cannot_listen_at(path, "the path has " + std::to_string(path.size()) + " bytes",
                            "give it 1 to " + std::to_string(kMaxSocketPath));
  }
  const sockaddr_un address = address_of(path);
  struct stat existing {};
  if (lstat(path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return cannot_listen_at(path, "the file is not a socket",
                              "choose another path, or remove the file");
    }
    if (has_listener(address)) {
      return cannot_listen_at(path, "another process listens there",
                              "choose another path, or stop that process");
    }
    if (unlink(path.c_str()) != 0) return failed_at(path, errno);
  }
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return failed_at(path, errno);
  // No client can connect before listen().
  const bool bound =
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int file = bound ? ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
  if (file < 0 || chmod(path.c_str(), kOwnerAndGroup) != 0 || ::listen(listener, kBacklog) != 0) {
    const int error = errno;
    if (bound) unlink(path.c_str());
    if (file >= 0) close(file);
    close(listener);
    return failed_at(path, error);
  }
  return std::shared_ptr<UnixSocket>(new UnixSocket(path, listener, file));
}

// Whether the file at the path is still the one that open() made.
bool UnixSocket::is_ours() const {
  struct stat made {};
  struct stat existing {};
  return fstat(file_, &made) == 0 && lstat(path_.c_str(), &existing) == 0 &&
         made.st_dev == existing.st_dev && made.st_ino == existing.st_ino;
}

UnixSocket::~UnixSocket() {
  if (is_ours()) unlink(path_.c_str());
  close_listener();
  close(file_);
}

void UnixSocket::close_listener() {
  if (listener_ >= 0) close(std::exchange(listener_, -1));
}

Result<int> UnixSocket::duplicate() const {
  const int copy = fcntl(listener_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return failed_at(path_, errno);
  return copy;
}

}  // namespace weir::frontends

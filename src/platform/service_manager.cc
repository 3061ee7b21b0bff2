#include "platform/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace weir::platform {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Half of the allowed time, as systemd recommends. WATCHDOG_PID is the process it applies to.
std::optional<Millis> watchdog_pause() {
  const auto allowed = number_in<int64_t>(variable("WATCHDOG_USEC"));
  if (!allowed || *allowed <= 0) return std::nullopt;
  const std::string_view pid = variable("WATCHDOG_PID");
  if (!pid.empty() && number_in<pid_t>(pid) != getpid()) return std::nullopt;
  return std::max(Millis(1), Millis(*allowed / 2000));
}

}  // namespace

ServiceManager::ServiceManager() : path_(variable("NOTIFY_SOCKET")) {
  const bool known = path_.starts_with('/') || path_.starts_with('@');
  if (!known || path_.size() >= sizeof(sockaddr_un::sun_path)) {
    path_.clear();
    return;
  }
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  watchdog_ = watchdog_pause();
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) close(socket_);
}

void ServiceManager::reloading() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  send("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
}

void ServiceManager::send(std::string_view state) const {
  if (socket_ < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  // '@' marks an abstract socket name, which starts with a zero byte.
  if (path_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  (void)sendto(socket_, state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace weir::platform

// Notifies systemd of the state of a service of Type=notify: datagrams to the socket in
// NOTIFY_SOCKET (sd_notify(3)). Without that variable nothing is sent.
//
// One thread at a time.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weir/time.h"

namespace weir::platform {

class ServiceManager {
 public:
  ServiceManager();
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  void ready() const { send("READY=1"); }
  void stopping() const { send("STOPPING=1"); }
  // Until the next ready().
  void reloading() const;
  void alive() const { send("WATCHDOG=1"); }

  // The longest time between two calls of alive(); none without a watchdog.
  [[nodiscard]] std::optional<Millis> watchdog() const { return watchdog_; }

 private:
  void send(std::string_view state) const;

  std::string path_;  // empty: not under systemd
  int socket_ = -1;
  std::optional<Millis> watchdog_;
};

}  // namespace weir::platform

// An IP address and a port.

#pragma once

#include <cstdint>
#include <string>

namespace weir::frontends {

// Port 0 lets the system choose when listening.
struct Address {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

[[nodiscard]] std::string to_string(const Address& address);

}  // namespace weir::frontends

// The address of a client, whole and as one number: an IPv4 address, or the /64 prefix of an IPv6
// address, because one client usually controls a whole /64.

#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "frontends/client_address.h"

namespace weir::frontends {

// 0: no IP address (a Unix socket).
[[nodiscard]] uint64_t peer_of(const sockaddr_storage& address);

// nullopt: no IP address.
[[nodiscard]] std::optional<IpAddress> ip_of(const sockaddr_storage& address);

// "203.0.113.7", "2001:db8:1:2::/64", or "a local socket".
[[nodiscard]] std::string peer_text(uint64_t peer);

}  // namespace weir::frontends

#include "frontends/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace weir::frontends {
namespace {

// ffff::/16 is multicast, so no client has such an address.
constexpr uint64_t kFour = uint64_t{0xffff} << 48;

uint64_t four(const void* bytes) {
  uint32_t address = 0;
  std::memcpy(&address, bytes, sizeof address);
  return kFour | ntohl(address);
}

}  // namespace

uint64_t peer_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return four(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.ss_family != AF_INET6) return 0;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return four(six.s6_addr + 12);
  uint64_t prefix = 0;
  for (int i = 0; i < 8; ++i) prefix = prefix << 8 | six.s6_addr[i];
  return prefix == 0 ? 1 : prefix;  // ::1; 0 means no address
}

std::optional<IpAddress> ip_of(const sockaddr_storage& address) {
  IpAddress ip;
  if (address.ss_family == AF_INET) {
    ip.bytes[10] = ip.bytes[11] = 0xff;
    std::memcpy(ip.bytes.data() + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    return ip;
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  std::memcpy(ip.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  return ip;
}

std::string peer_text(uint64_t peer) {
  if (peer == 0) return "a local socket";
  if (peer == 1) return "::1";
  char text[INET6_ADDRSTRLEN] = "";
  if (peer >> 48 == kFour >> 48) {
    const uint32_t address = htonl(static_cast<uint32_t>(peer));
    inet_ntop(AF_INET, &address, text, sizeof text);
    return text;
  }
  in6_addr six{};
  for (int i = 0; i < 8; ++i) six.s6_addr[i] = static_cast<uint8_t>(peer >> (56 - 8 * i));
  inet_ntop(AF_INET6, &six, text, sizeof text);
  return std::string(text) + "/64";
}

}  // namespace weir::frontends

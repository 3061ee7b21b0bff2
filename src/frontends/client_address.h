// The address of the client behind trusted proxies, in one canonical form.
//
// The list of a header grows to the right: each proxy appends the address that it was called from.
// So the list is read from the right, as long as trusted proxies have written it. The text of an
// untrusted client never becomes the result: only what is parsed completely is an address.
//
// Pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::frontends {

// IPv4 is stored as ::ffff:a.b.c.d, so that an address has one form.
struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  [[nodiscard]] bool is_v4() const;
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

struct IpNetwork {
  IpAddress address{};
  int bits = 128;  // of the 128 of IpAddress

  [[nodiscard]] bool contains(const IpAddress& other) const;
  friend bool operator==(const IpNetwork&, const IpNetwork&) = default;
};

// "203.0.113.7", "2001:db8::7" or "::ffff:203.0.113.7"; nothing else.
[[nodiscard]] std::optional<IpAddress> parse_ip(std::string_view text);

// The same with a port ("203.0.113.7:80", "[2001:db8::7]:80"), brackets or a zone ("fe80::1%eth0"),
// all of which are dropped.
[[nodiscard]] std::optional<IpAddress> parse_node(std::string_view text);

// "10.0.0.0/8", "2001:db8::/32", or an address. nullopt also if bits beyond the prefix are set.
[[nodiscard]] std::optional<IpNetwork> parse_network(std::string_view text);

// "203.0.113.7", or an IPv6 address cut to its prefix: "2001:db8:1:2::/64". A prefix of 128 bits is
// not written.
[[nodiscard]] std::string to_text(const IpAddress& address, int ipv6_prefix);

// The header that the proxies write. The other one is ignored: a proxy passes it on as the client
// sent it.
enum class AddressHeader : uint8_t { kXForwardedFor, kForwarded };

struct ClientAddressRules {
  std::vector<IpNetwork> trusted_proxies{};
  bool trust_unix = false;  // peers at a Unix socket
  AddressHeader header = AddressHeader::kXForwardedFor;
  int ipv6_prefix = 64;

  friend bool operator==(const ClientAddressRules&, const ClientAddressRules&) = default;
};

// The peer; if it is a trusted proxy, the right-most address in `lines`, the values of the header
// in their order, that is not a trusted proxy. If all are, the left-most. An element that is not an
// address ends the search: the result is the address to its right. nullopt: the peer is at a Unix
// socket, and no address is known.
[[nodiscard]] std::optional<IpAddress> client_address(const std::optional<IpAddress>& peer,
                                                      std::span<const std::string_view> lines,
                                                      const ClientAddressRules& rules);

}  // namespace weir::frontends

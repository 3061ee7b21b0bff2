#include "frontends/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace weir::frontends {
namespace {

sockaddr_storage address_of(const char* text) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
    address.ss_family = AF_INET6;
  } else {
    address.ss_family = AF_UNIX;
  }
  return address;
}
uint64_t peer_of_text(const char* text) {
  return peer_of(address_of(text));
}

TEST(Peer, IsAnIpv4AddressOrAnIpv6Prefix) {
  EXPECT_EQ(peer_text(peer_of_text("203.0.113.7")), "203.0.113.7");
  EXPECT_EQ(peer_text(peer_of_text("::ffff:203.0.113.7")), "203.0.113.7");
  EXPECT_EQ(peer_text(peer_of_text("255.255.255.255")), "255.255.255.255");
  EXPECT_EQ(peer_text(peer_of_text("2001:db8:1:2::7")), "2001:db8:1:2::/64");
  EXPECT_EQ(peer_of_text("2001:db8:1:2::7"), peer_of_text("2001:db8:1:2:ffff::8"));
  EXPECT_NE(peer_of_text("2001:db8:1:2::7"), peer_of_text("2001:db8:1:3::7"));
  EXPECT_NE(peer_of_text("127.0.0.1"), peer_of_text("127.0.0.2"));
  EXPECT_EQ(peer_text(peer_of_text("::1")), "::1");
}

TEST(Peer, HasAWholeAddress) {
  for (const char* const text : {"203.0.113.7", "2001:db8:1:2:3:4:5:6", "::1"}) {
    EXPECT_EQ(to_text(ip_of(address_of(text)).value(), 128), text);
  }
  EXPECT_EQ(ip_of(address_of("::ffff:203.0.113.7")), ip_of(address_of("203.0.113.7")));
  EXPECT_FALSE(ip_of(address_of("/run/weir.sock")));
}

TEST(Peer, IsZeroWithoutAnIpAddress) {
  EXPECT_EQ(peer_of_text("/run/weir.sock"), 0u);
  EXPECT_EQ(peer_text(0), "a local socket");
}

}  // namespace
}  // namespace weir::frontends

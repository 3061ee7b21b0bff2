#include "frontends/client_address.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace weir::frontends {
namespace {

std::string text_of(const std::optional<IpAddress>& address, int ipv6_prefix = 128) {
  return address ? to_text(*address, ipv6_prefix) : "none";
}

ClientAddressRules trusting(const std::vector<std::string>& networks,
                            AddressHeader header = AddressHeader::kXForwardedFor) {
  ClientAddressRules rules{.header = header};
  for (const std::string& network : networks) {
    if (network == "unix") {
      rules.trust_unix = true;
    } else {
      rules.trusted_proxies.push_back(parse_network(network).value());
    }
  }
  return rules;
}

// The client of a peer in 10.0.0.0/8, which is trusted.
std::string client(const std::vector<std::string_view>& lines,
                   AddressHeader header = AddressHeader::kXForwardedFor) {
  return text_of(client_address(parse_ip("10.0.0.1"), lines, trusting({"10.0.0.0/8"}, header)));
}
std::string forwarded(const std::vector<std::string_view>& lines) {
  return client(lines, AddressHeader::kForwarded);
}

TEST(IpText, IsReadStrictly) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"203.0.113.7", "203.0.113.7"},
           {"::ffff:203.0.113.7", "203.0.113.7"},
           {"::FFFF:CB00:7107", "203.0.113.7"},
           {"2001:DB8:0:0:0:0:0:7", "2001:db8::7"},
           {"2001:db8:0:1::", "2001:db8:0:1::"},
           {"::", "::"},
           {"", "none"},
           {"203.0.113", "none"},
           {"203.0.113.256", "none"},
           {"203.0.113.07", "none"},
           {"0xcb.0.113.7", "none"},
           {"3405803783", "none"},
           {" 203.0.113.7", "none"},
           {"203.0.113.7 ", "none"},
           {"203.0.113.7:80", "none"},
           {"[2001:db8::7]", "none"},
           {"2001:db8::7%eth0", "none"},
           {"2001:db8::7::", "none"},
           {std::string("203.0.113.7\0", 12), "none"},
           {std::string(100, '1'), "none"},
       }) {
    EXPECT_EQ(text_of(parse_ip(text)), expected) << text;
  }
}

TEST(IpText, MayHaveAPortBracketsOrAZoneInAHeader) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"203.0.113.7", "203.0.113.7"},
           {"203.0.113.7:80", "203.0.113.7"},
           {"203.0.113.7:_port", "203.0.113.7"},
           {"2001:db8::7", "2001:db8::7"},
           {"[2001:db8::7]", "2001:db8::7"},
           {"[2001:db8::7]:443", "2001:db8::7"},
           {"[2001:db8::7]:_a.b-c", "2001:db8::7"},
           {"fe80::7%eth0", "fe80::7"},
           {"[fe80::7%25eth0]:443", "fe80::7"},
           {"[::ffff:203.0.113.7]:80", "203.0.113.7"},
           {"203.0.113.7:", "none"},
           {"203.0.113.7:65536", "none"},
           {"203.0.113.7:x", "none"},
           {"203.0.113.7:-1", "none"},
           {"203.0.113.7:_", "none"},
           {"203.0.113.7%eth0", "none"},
           {"203.0.113.7/24", "none"},
           {"[203.0.113.7]", "none"},
           {"[2001:db8::7", "none"},
           {"2001:db8::7]", "none"},
           {"[2001:db8::7]443", "none"},
           {"[2001:db8::7]:443x", "none"},
           {"fe80::7%", "none"},
           {"unknown", "none"},
           {"_hidden", "none"},
           {"localhost", "none"},
           {"", "none"},
           {"[]", "none"},
           {":", "none"},
       }) {
    EXPECT_EQ(text_of(parse_node(text)), expected) << text;
  }
}

TEST(IpText, OfIpv6IsCutToThePrefix) {
  const IpAddress address = parse_ip("2001:db8:1:2:3:4:5:6").value();
  EXPECT_EQ(to_text(address, 64), "2001:db8:1:2::/64");
  EXPECT_EQ(to_text(address, 56), "2001:db8:1::/56");
  EXPECT_EQ(to_text(address, 63), "2001:db8:1:2::/63");
  EXPECT_EQ(to_text(address, 127), "2001:db8:1:2:3:4:5:6/127");
  EXPECT_EQ(to_text(address, 128), "2001:db8:1:2:3:4:5:6");
  EXPECT_EQ(to_text(parse_ip("::1").value(), 64), "::/64");
  EXPECT_EQ(to_text(parse_ip("203.0.113.7").value(), 32), "203.0.113.7");
}

TEST(IpNetwork, ContainsTheAddressesWithItsPrefix) {
  const auto contains = [](std::string_view network, std::string_view address) {
    return parse_network(network).value().contains(parse_ip(address).value());
  };
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.255.255"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
  EXPECT_TRUE(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
  EXPECT_TRUE(contains("127.0.0.1", "127.0.0.1"));
  EXPECT_FALSE(contains("127.0.0.1", "127.0.0.2"));
  EXPECT_FALSE(contains("127.0.0.1", "::1"));
  EXPECT_TRUE(contains("0.0.0.0/0", "203.0.113.7"));
  EXPECT_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(contains("192.0.2.4/31", "192.0.2.5"));
  EXPECT_FALSE(contains("192.0.2.4/31", "192.0.2.6"));
}

TEST(IpNetwork, HasNoBitsBehindItsPrefix) {
  for (const std::string_view text : {"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1",
                                      "10.0.0.0/8x", "/8", "2001:db8::1/64", "::/129", "x", ""}) {
    EXPECT_FALSE(parse_network(text)) << text;
  }
}

TEST(ClientAddress, IsThePeerIfItIsNoTrustedProxy) {
  const std::vector<std::string_view> lines = {"203.0.113.7"};
  EXPECT_EQ(text_of(client_address(parse_ip("192.0.2.1"), lines, trusting({"10.0.0.0/8"}))),
            "192.0.2.1");
  EXPECT_EQ(text_of(client_address(parse_ip("10.0.0.1"), lines, trusting({}))), "10.0.0.1");
  EXPECT_EQ(text_of(client_address(std::nullopt, lines, trusting({"0.0.0.0/0", "::/0"}))), "none");
}

TEST(ClientAddress, IsTheRightmostThatIsNoTrustedProxy) {
  EXPECT_EQ(client({}), "10.0.0.1");
  EXPECT_EQ(client({"203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(client({"198.51.100.1, 203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(client({"198.51.100.1, 203.0.113.7, 10.0.0.2"}), "203.0.113.7");
  EXPECT_EQ(client({"198.51.100.1,203.0.113.7 ,\t10.0.0.2:80,::ffff:10.0.0.3"}), "203.0.113.7");
  EXPECT_EQ(client({"198.51.100.1, [2001:db8::7]:443, 10.0.0.2"}), "2001:db8::7");
}

TEST(ClientAddress, ReadsSeveralLinesAsOneList) {
  EXPECT_EQ(client({"198.51.100.1", "203.0.113.7", "10.0.0.2"}), "203.0.113.7");
  EXPECT_EQ(client({"198.51.100.1, 203.0.113.7", "", "10.0.0.2, 10.0.0.3"}), "203.0.113.7");
}

TEST(ClientAddress, IsTheLeftmostIfAllAreTrusted) {
  EXPECT_EQ(client({"10.0.0.9, 10.0.0.2"}), "10.0.0.9");
}

TEST(ClientAddress, IsTheLastGoodOneToTheRightOfGarbage) {
  EXPECT_EQ(client({"garbage"}), "10.0.0.1");
  EXPECT_EQ(client({"203.0.113.7, garbage"}), "10.0.0.1");
  EXPECT_EQ(client({"203.0.113.7, garbage, 10.0.0.2"}), "10.0.0.2");
  EXPECT_EQ(client({"203.0.113.7, unknown", "10.0.0.2"}), "10.0.0.2");
  EXPECT_EQ(client({"203.0.113.7, , 10.0.0.2,,"}), "203.0.113.7");  // empty elements are legal
  EXPECT_EQ(client({"\"203.0.113.7\""}), "10.0.0.1");
}

TEST(ClientAddress, OfAUnixSocketIsTrustedOnRequest) {
  const std::vector<std::string_view> lines = {"203.0.113.7"};
  EXPECT_EQ(text_of(client_address(std::nullopt, lines, trusting({"unix"}))), "203.0.113.7");
  EXPECT_EQ(text_of(client_address(std::nullopt, {}, trusting({"unix"}))), "none");
}

TEST(ClientAddress, IsReadFromForwarded) {
  EXPECT_EQ(forwarded({"for=203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(forwarded({"For=\"203.0.113.7:80\";proto=https;by=10.0.0.1"}), "203.0.113.7");
  EXPECT_EQ(forwarded({"proto=https; FOR=\"[2001:db8::7]:443\" ;by=x, for=10.0.0.2"}),
            "2001:db8::7");
  EXPECT_EQ(forwarded({"for=198.51.100.1, for=203.0.113.7", "for=10.0.0.2"}), "203.0.113.7");
  EXPECT_EQ(forwarded({"host=\"a;for=198.51.100.1, b\";for=203.0.113.7"}), "203.0.113.7");
}

TEST(ClientAddress, IsNotReadFromADamagedElementOfForwarded) {
  for (const std::string_view element :
       {"for=unknown", "for=_hidden", "for=\"_hidden\"", "for=", "for", "proto=https",
        "203.0.113.7", "for=203.0.113.7;for=203.0.113.8", "for=\"203.0.113.7",
        "for=203.0.113.7;host=\"a\\\"b\"", "for =203.0.113.7", "for=2001:db8::7x"}) {
    EXPECT_EQ(forwarded({element}), "10.0.0.1") << element;
    EXPECT_EQ(forwarded({"for=203.0.113.9, " + std::string(element) + ", for=10.0.0.2"}),
              "10.0.0.2")
        << element;
  }
}

// A proxy escapes the quotes in a host that the client chose.
TEST(ClientAddress, IsNotReadFromAQuotedTextOfTheClient) {
  EXPECT_EQ(forwarded({"for=203.0.113.7;host=\"a\\\", for=198.51.100.1, x=\\\"b\""}), "10.0.0.1");
  EXPECT_EQ(forwarded({"proto=https;host=\"a\\\";for=198.51.100.1;x=\\\"b\""}), "10.0.0.1");
  EXPECT_EQ(forwarded({"for=\"x, for=203.0.113.7"}), "203.0.113.7");
}

TEST(ClientAddress, IsReadFromTheConfiguredHeaderOnly) {
  EXPECT_EQ(client({"for=203.0.113.7"}), "10.0.0.1");
  EXPECT_EQ(forwarded({"203.0.113.7"}), "10.0.0.1");
}

// Text that a client may send.
rc::Gen<std::string> client_text() {
  const auto piece = rc::gen::oneOf(
      rc::gen::element<std::string>("203.0.113.7", "10.0.0.9", "::1", "[2001:db8::1]:80",
                                    "for=", "\"", "\\\"", ",", ";", " ", "unknown", "%", "host=\"",
                                    "=", "for=198.51.100.1", "for=\"10.0.0.4\""),
      rc::gen::map(rc::gen::inRange(32, 127),
                   [](int c) { return std::string(1, static_cast<char>(c)); }));
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                      [](const std::vector<std::string>& pieces) {
                        std::string all;
                        for (const std::string& each : pieces) all += each;
                        return all;
                      });
}

RC_GTEST_PROP(ClientAddress, IsNeverChosenByTheClient, ()) {
  const std::string sent = *client_text();
  const std::string real = *rc::gen::element<std::string>("203.0.113.200", "2001:db8:ffff::1");
  const std::string proxies =
      *rc::gen::element<std::string>("", ", 10.0.0.2", ", 10.0.0.2,10.1.1.1");
  const std::string line = sent + ", " + real + proxies;
  RC_ASSERT(client({line}) == real);
  RC_ASSERT(client({sent, real + proxies}) == real);
  const std::string node = real.find(':') == std::string::npos ? real : "\"[" + real + "]\"";
  const std::string hops = proxies.empty() ? "" : ", proto=http;for=10.0.0.2";
  RC_ASSERT(forwarded({sent + ", for=" + node + ";proto=https" + hops}) == real);
  RC_ASSERT(forwarded({sent, "for=" + node + hops}) == real);
}

RC_GTEST_PROP(ClientAddress, IsThePeerOrAnElement, ()) {
  const std::string sent = *client_text();
  const std::string found = client({sent});
  if (found == "10.0.0.1") return;
  const auto again = parse_ip(found);
  RC_ASSERT(again.has_value());
  RC_ASSERT(to_text(*again, 128) == found);
}

RC_GTEST_PROP(IpText, HasOneFormPerAddress, ()) {
  IpAddress address;
  for (uint8_t& byte : address.bytes) byte = *rc::gen::element<uint8_t>(0, 1, 0xff, 0x80);
  const int prefix = *rc::gen::inRange(1, 129);
  const auto whole = parse_ip(to_text(address, 128));
  RC_ASSERT(whole.has_value());
  RC_ASSERT(*whole == address);
  const std::string text = to_text(address, prefix);
  const auto network = parse_network(text);
  RC_ASSERT(network.has_value());
  RC_ASSERT(network->contains(address));
  RC_ASSERT(to_text(network->address, prefix) == text);
}

}  // namespace
}  // namespace weir::frontends

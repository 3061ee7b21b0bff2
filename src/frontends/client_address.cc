#include "frontends/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weir::frontends {
namespace {

constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kMappedBits = 96;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

std::optional<int> decimal(std::string_view text, int max) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0 || number > max) return std::nullopt;
  return number;
}

// A port, or an obfuscated one as in RFC 7239: an underscore and a name.
bool is_port(std::string_view text) {
  if (!text.starts_with('_')) return decimal(text, 65535).has_value();
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return text.size() > 1 && std::all_of(text.begin(), text.end(), fits);
}

// Calls `visit` for each part between separators, from right to left, until it returns false.
// Separators in quotes do not count. An unpaired quote affects only the text to its left, which
// somebody farther away has written.
template <typename Visit>
bool each_from_right(std::string_view text, char separator, const Visit& visit) {
  bool quoted = false;
  size_t end = text.size();
  for (size_t i = text.size(); i-- > 0;) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] != separator || quoted) continue;
    if (!visit(trimmed(text.substr(i + 1, end - i - 1)))) return false;
    end = i;
  }
  return visit(trimmed(text.substr(0, end)));
}

bool is_for(std::string_view name) {
  return name.size() == 3 && (name[0] | 32) == 'f' && (name[1] | 32) == 'o' &&
         (name[2] | 32) == 'r';
}

// The address in an element of Forwarded: for=203.0.113.7;proto=https. An escape could hide the end
// of a text that a proxy has quoted, so no element with one is read.
std::optional<IpAddress> parse_forwarded(std::string_view element) {
  if (element.find('\\') != std::string_view::npos) return std::nullopt;
  std::optional<std::string_view> node;
  bool valid = true;
  (void)each_from_right(element, ';', [&](std::string_view pair) {
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || !is_for(pair.substr(0, equals))) return true;
    if (node) valid = false;
    node = pair.substr(equals + 1);
    return true;
  });
  if (!node || !valid) return std::nullopt;
  const bool quoted = node->size() >= 2 && node->front() == '"' && node->back() == '"';
  return parse_node(quoted ? node->substr(1, node->size() - 2) : *node);
}

bool is_trusted(const std::optional<IpAddress>& address, const ClientAddressRules& rules) {
  if (!address) return rules.trust_unix;
  return std::any_of(rules.trusted_proxies.begin(), rules.trusted_proxies.end(),
                     [&](const IpNetwork& network) { return network.contains(*address); });
}

// Clears all bits behind the first `bits`.
void cut(IpAddress& address, int bits) {
  for (int i = 0; i < 16; ++i) {
    const int kept = std::clamp(bits - 8 * i, 0, 8);
    address.bytes[i] = static_cast<uint8_t>(address.bytes[i] & (0xff00 >> kept));
  }
}

}  // namespace

bool IpAddress::is_v4() const {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

bool IpNetwork::contains(const IpAddress& other) const {
  IpAddress start = other;
  cut(start, bits);
  return start == address;
}

std::optional<IpAddress> parse_ip(std::string_view text) {
  char copy[INET6_ADDRSTRLEN] = "";  // inet_pton needs the terminating zero
  if (text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) return std::nullopt;
  std::copy(text.begin(), text.end(), copy);
  IpAddress address;
  if (inet_pton(AF_INET6, copy, address.bytes.data()) == 1) return address;
  std::copy(kMapped.begin(), kMapped.end(), address.bytes.begin());
  if (inet_pton(AF_INET, copy, address.bytes.data() + kMapped.size()) == 1) return address;
  return std::nullopt;
}

std::optional<IpAddress> parse_node(std::string_view text) {
  const size_t colon = text.find(':');
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view port = text.substr(end + 1);
    if (!port.empty() && (port[0] != ':' || !is_port(port.substr(1)))) return std::nullopt;
    text = text.substr(1, end - 1);
    if (text.find(':') == std::string_view::npos) return std::nullopt;  // IPv4 has no brackets
  } else if (colon != std::string_view::npos && text.find(':', colon + 1) == std::string::npos) {
    if (!is_port(text.substr(colon + 1))) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (const size_t zone = text.find('%'); zone != std::string_view::npos) {
    if (zone + 1 == text.size() || text.find(':') > zone) return std::nullopt;
    text = text.substr(0, zone);
  }
  return parse_ip(text);
}

std::optional<IpNetwork> parse_network(std::string_view text) {
  const size_t slash = text.find('/');
  const auto address = parse_ip(text.substr(0, slash));
  if (!address) return std::nullopt;
  IpNetwork network{.address = *address};
  if (slash != std::string_view::npos) {
    // ::ffff:10.0.0.0/104 is 10.0.0.0/8.
    const bool dotted = text.substr(0, slash).find(':') == std::string_view::npos;
    const auto bits = decimal(text.substr(slash + 1), dotted ? 32 : 128);
    if (!bits) return std::nullopt;
    network.bits = dotted ? kMappedBits + *bits : *bits;
  }
  if (!network.contains(*address)) return std::nullopt;
  return network;
}

std::string to_text(const IpAddress& address, int ipv6_prefix) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.is_v4()) {
    inet_ntop(AF_INET, address.bytes.data() + kMapped.size(), text, sizeof text);
    return text;
  }
  IpAddress start = address;
  cut(start, ipv6_prefix);
  inet_ntop(AF_INET6, start.bytes.data(), text, sizeof text);
  return ipv6_prefix == 128 ? text : text + ("/" + std::to_string(ipv6_prefix));
}

std::optional<IpAddress> client_address(const std::optional<IpAddress>& peer,
                                        std::span<const std::string_view> lines,
                                        const ClientAddressRules& rules) {
  std::optional<IpAddress> client = peer;
  if (!is_trusted(peer, rules)) return client;
  const bool forwarded = rules.header == AddressHeader::kForwarded;
  const auto visit = [&](std::string_view element) {
    if (element.empty()) return true;  // lists may have empty elements
    const auto address = forwarded ? parse_forwarded(element) : parse_node(element);
    if (!address) return false;
    client = address;
    return is_trusted(client, rules);
  };
  for (size_t i = lines.size(); i-- > 0;) {
    if (!each_from_right(lines[i], ',', visit)) break;
  }
  return client;
}

}  // namespace weir::frontends

// A header of forwarded addresses yields the peer or an address in canonical form. What a client
// sends does not change the address that a trusted proxy appends.

#include "frontends/client_address.h"
#include "fuzz/input.h"

using weir::fuzz::must;
using namespace weir::frontends;

namespace {

std::string found(std::string_view first, std::string_view second, AddressHeader header) {
  static const IpAddress peer = parse_ip("10.0.0.1").value();
  static const IpNetwork trusted = parse_network("10.0.0.0/8").value();
  const weir::fuzz::Exact one(first);
  const weir::fuzz::Exact two(second);
  const std::string_view lines[] = {one.view(), two.view()};
  const auto client = client_address(peer, lines, {.trusted_proxies = {trusted}, .header = header});
  must(client.has_value(), "a peer with an address has a client with one");
  const std::string text = to_text(*client, 128);
  must(parse_ip(text) == client, "a text has one address");
  const std::string prefix = to_text(*client, 64);
  must(parse_network(prefix).value().contains(*client), "a prefix contains its address");
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const size_t cut = input.cut();
  const std::string_view text = input.text();
  const std::string sent(text);
  for (const AddressHeader header : {AddressHeader::kXForwardedFor, AddressHeader::kForwarded}) {
    (void)found(text.substr(0, cut), text.substr(cut), header);
    const std::string prefix = header == AddressHeader::kForwarded ? "for=" : "";
    const std::string appended = prefix + "203.0.113.7, " + prefix + "10.0.0.2";
    must(found("", sent + ", " + appended, header) == "203.0.113.7", "proxies append to a line");
    must(found(sent, appended, header) == "203.0.113.7", "proxies add a line");
  }
  const weir::fuzz::Exact exact(text);
  if (const auto network = parse_network(exact.view())) {
    must(network->contains(network->address) && network->bits >= 0 && network->bits <= 128,
         "a network contains its address");
  }
  return 0;
}

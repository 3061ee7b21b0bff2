// An HTTP connection answers the same wherever its input is split, with two exceptions: interim
// 100 Continue responses, and the values on the metrics page.

#include "frontends/fixture_test.h"
#include "frontends/http/http_session.h"
#include "fuzz/input.h"

using namespace weir::frontends;

namespace {

// One rule for each kind of value.
CheckRules check_rules() {
  CheckRules all;
  all.address.trusted_proxies.push_back(parse_network("10.0.0.0/8").value());
  for (const char* const identifier :
       {"{address}", "{method} {path}", "{host}|{header:x-api-key}", "all"}) {
    CheckRule rule{.name = "r", .ns = "r", .limit = 2, .duration = weir::Millis(60'000)};
    weir::fuzz::must(parse_identifier(identifier, rule.identifier).empty(), "it is valid");
    all.rules.push_back(rule);
  }
  all.rules[0].match = {.methods = {"POST"}, .path = "/login", .headers = {{"x-api-key", ""}}};
  all.rules[1].match = {.path = "/", .path_is_prefix = true, .host = "h"};
  return all;
}

std::string answers(std::string_view first, std::string_view second) {
  Fixture fixture;
  HttpScratch scratch(1);
  HttpSession session(fixture.service, scratch);
  fixture.service.check_rules.replace(check_rules());
  session.set_peer_address(parse_ip("10.0.0.1"));
  TestConnection line{fixture, session};
  std::string received = line.send(first);
  if (line.next != Next::kClose) received += line.send(second);
  constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
  for (size_t at = received.find(kInterim); at != received.npos; at = received.find(kInterim, at)) {
    received.erase(at, kInterim.size());
  }
  return received;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const size_t cut = input.cut();
  const std::string whole = answers(input.text(), "");
  const std::string split = answers(input.text().substr(0, cut), input.text().substr(cut));
  if (whole.find("\nweir_requests_total") != whole.npos) return 0;
  weir::fuzz::must_equal(whole, split, "whole and split input get the same answers");
  return 0;
}

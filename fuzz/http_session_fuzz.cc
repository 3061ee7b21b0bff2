// A connection of HTTP answers the same wherever what it hears is split, but for two things:
// who is told to continue, and what the metrics have counted by then.

#include "frontends/fixture_test.h"
#include "frontends/http/http_session.h"
#include "fuzz/input.h"

using namespace weir::frontends;

namespace {

std::string answers(std::string_view first, std::string_view second) {
  Fixture fixture;
  HttpScratch scratch(1);
  HttpSession session(fixture.service, scratch);
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
  weir::fuzz::must_equal(whole, split, "whole and split are answered alike");
  return 0;
}

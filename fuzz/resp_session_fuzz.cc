// A connection of the Redis protocol answers the same wherever what it hears is split.

#include "frontends/fixture_test.h"
#include "frontends/resp/resp_session.h"
#include "fuzz/input.h"

using namespace weir::frontends;

namespace {

std::string answers(KeyPolicy keys, std::string_view first, std::string_view second) {
  Fixture fixture;
  fixture.service.resp_key_policy = keys;
  static RespScratch scratch;
  RespSession session(fixture.service, scratch, 1);
  TestConnection line{fixture, session};
  std::string received = line.send(first);
  if (line.next != Next::kClose) received += line.send(second);
  return received;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const KeyPolicy keys = input.number(1) == 0 ? KeyPolicy::kNotRequired : KeyPolicy::kRequired;
  const size_t cut = input.cut();
  weir::fuzz::must_equal(answers(keys, input.text(), ""),
                         answers(keys, input.text().substr(0, cut), input.text().substr(cut)),
                         "whole and split are answered alike");
  return 0;
}

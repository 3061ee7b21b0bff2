// A connection of the Redis protocol answers the same wherever its input is split.

#include "frontends/front_test.h"
#include "frontends/resp/resp_session.h"
#include "fuzz/input.h"

using namespace weir::frontends;

namespace {

std::string answers(Keys keys, std::string_view first, std::string_view second) {
  Front front;
  front.service.resp_keys = keys;
  static RespDesk desk;
  RespSession session(front.service, desk, 1);
  Line line{front, session};
  std::string received = line.say(first);
  if (line.next != Next::kClose) received += line.say(second);
  return received;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const Keys keys = input.number(1) == 0 ? Keys::kNotWanted : Keys::kWanted;
  const size_t cut = input.cut();
  weir::fuzz::must_equal(answers(keys, input.text(), ""),
                         answers(keys, input.text().substr(0, cut), input.text().substr(cut)),
                         "whole and split input get the same answers");
  return 0;
}

// The Redis protocol's parser finds the same requests wherever the bytes are split.

#include "frontends/resp/resp_parser.h"
#include "fuzz/input.h"

using weir::frontends::RespParser;
using weir::fuzz::Exact;
using weir::fuzz::must;

namespace {

// What was understood, as text.
class Listener {
 public:
  void hear(std::string_view piece) {
    unread_ += piece;
    while (!broken_) {
      const Exact bytes(unread_);
      const auto status = parser_.parse(bytes.view());
      if (status == RespParser::Status::kIncomplete) return;
      if (status == RespParser::Status::kBroken) {
        broken_ = true;
        story_ += std::string("broken: ") + parser_.error();
        return;
      }
      must(parser_.bytes() > 0 && parser_.bytes() <= bytes.size(), "a request has bytes");
      for (const std::string_view argument : parser_.arguments()) {
        must(bytes.holds(argument), "an argument is a view of the bytes");
        story_ += std::to_string(argument.size()) + ":" + std::string(argument) + " ";
      }
      story_ += "\n";
      unread_.erase(0, parser_.bytes());
    }
  }
  [[nodiscard]] const std::string& story() const { return story_; }

 private:
  RespParser parser_;
  std::string unread_;
  std::string story_;
  bool broken_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::must_be_received_alike<Listener>({data, size});
  return 0;
}

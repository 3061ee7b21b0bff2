// The parser of the Redis protocol finds the same requests wherever the bytes are split.

#include "frontends/resp/resp_parser.h"
#include "fuzz/input.h"

using weir::frontends::RespParser;
using weir::fuzz::Exact;
using weir::fuzz::must;

namespace {

// Records parsed requests as text.
class Recorder {
 public:
  void read(std::string_view piece) {
    unread_ += piece;
    while (!broken_) {
      const Exact bytes(unread_);
      const auto status = parser_.parse(bytes.view());
      if (status == RespParser::Status::kIncomplete) return;
      if (status == RespParser::Status::kBroken) {
        broken_ = true;
        summary_ += std::string("broken: ") + parser_.error();
        return;
      }
      must(parser_.bytes() > 0 && parser_.bytes() <= bytes.size(), "a request has bytes");
      for (const std::string_view argument : parser_.arguments()) {
        must(bytes.holds(argument), "an argument is a view of the bytes");
        summary_ += std::to_string(argument.size()) + ":" + std::string(argument) + " ";
      }
      summary_ += "\n";
      unread_.erase(0, parser_.bytes());
    }
  }
  [[nodiscard]] const std::string& summary() const { return summary_; }

 private:
  RespParser parser_;
  std::string unread_;
  std::string summary_;
  bool broken_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::must_parse_the_same<Recorder>({data, size});
  return 0;
}

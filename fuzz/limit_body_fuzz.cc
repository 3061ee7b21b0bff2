// A body yields either a request within its ranges or problems that can be reported, and bytes
// after it in the buffer do not change the result.

#include "frontends/bytes.h"
#include "frontends/http/limit_body.h"
#include "fuzz/input.h"

using weir::Request;
using weir::frontends::BodyProblems;
using weir::frontends::Bytes;
using weir::frontends::LimitBodyReader;
using weir::fuzz::must;

namespace {

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : byte >> 5 == 6 ? 2 : byte >> 4 == 14 ? 3 : 4;
    if ((length == 4 && byte >> 3 != 30) || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((text[i + k] & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

std::string summary_of(const BodyProblems& problems) {
  std::string summary;
  must(problems.size() <= 20, "problems are bounded");
  for (const auto& problem : problems) {
    must(!problem.message.empty() && !problem.fix.empty(), "a problem has a message and a fix");
    must(problem.location.starts_with("body"), "a problem has a location");
    must(is_utf8(problem.location) && is_utf8(problem.message), "a problem can be written as JSON");
    summary += problem.location + ": " + problem.message + "; " + problem.fix + "\n";
  }
  return summary;
}

std::string summary_of(const Request& request) {
  const auto is_name = [](std::string_view name) {
    return !name.empty() && name.size() <= weir::kMaxNameBytes && is_utf8(name);
  };
  must(is_name(request.ns) && is_name(request.identifier), "names are names");
  must(request.limit <= weir::kMaxLimit, "the limit is in range, or was not sent");
  must(request.cost <= weir::kMaxLimit, "the cost is in range");
  must(request.duration == weir::Millis(0) ||
           (request.duration >= weir::kMinDuration && request.duration <= weir::kMaxDuration),
       "the duration is in range, or was not sent");
  must(request.burst.value_or(1) >= 1 && request.burst.value_or(1) <= weir::kMaxLimit,
       "the burst is in range");
  return std::string(request.ns) + " " + std::string(request.identifier) + " " +
         std::to_string(request.limit) + " " + std::to_string(request.duration.count()) + " " +
         std::to_string(request.cost) + " " + std::string(to_string(request.algorithm)) + " " +
         std::to_string(request.burst.value_or(0)) + "\n";
}

std::string read(std::string_view json, std::string_view after) {
  static LimitBodyReader reader;
  Bytes body;
  body.append(json);
  body.append(after);
  const std::string_view text = body.unread().substr(0, json.size());
  std::string summary;
  BodyProblems problems;
  Request one;
  reader.read_one(text, one, problems);
  summary += problems.empty() ? summary_of(one) : summary_of(problems);
  std::vector<Request> many;
  reader.read_many(text, many, problems);
  if (!problems.empty()) return summary + summary_of(problems);
  must(!many.empty() && many.size() <= weir::kMaxBatch, "a batch has 1 to 100 items");
  for (const Request& request : many) summary += summary_of(request);
  return summary;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  weir::fuzz::must_equal(read(json, ""), read(json, "\",\"cost\":1}]}]GET / HTTP/1.1\r\n"),
                         "bytes after a body do not change the result");
  return 0;
}

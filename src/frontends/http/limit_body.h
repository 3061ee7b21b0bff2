// Parses the JSON bodies of ratelimit.limit and ratelimit.multiLimit.
//
// All fields are checked: one response lists every problem with its location and its fix. Strings
// in the requests are views that are valid until the next body is read.
//
// One thread at a time.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/error.h"
#include "weir/request.h"

namespace weir::frontends {

struct BodyProblem {
  std::string location;  // "body.duration", "body[3].cost"
  std::string message;
  std::string fix;
};

using BodyProblems = std::vector<BodyProblem>;

// The most problems that are named of a body.
inline constexpr size_t kMaxProblems = 20;

// The start of a UTF-8 text for a message: at most `limit` bytes, and no partial character.
[[nodiscard]] std::string_view prefix(std::string_view text, size_t limit);

class LimitBodyReader {
 public:
  LimitBodyReader();
  ~LimitBodyReader();
  LimitBodyReader(const LimitBodyReader&) = delete;
  LimitBodyReader& operator=(const LimitBodyReader&) = delete;

  // Bytes::kPadding bytes behind `json` must be readable. `request` is valid if there are no
  // problems; its limit and its duration are 0 if they were not sent.
  void read_one(std::string_view json, Request& request, BodyProblems& problems);
  void read_many(std::string_view json, std::vector<Request>& requests, BodyProblems& problems);

 private:
  struct Json;
  std::unique_ptr<Json> json_;
};

// An error of the limiter as a problem of the body.
[[nodiscard]] BodyProblem problem_of(const Error& error);

}  // namespace weir::frontends

// Reads the fields of a JSON object, and collects its problems, at most kMaxProblems, each with its
// location and its remedy. For bodies that are read seldom; limit_body.h reads those of decisions.
//
// One thread at a time.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/http/limit_body.h"
#include "frontends/range.h"

namespace weir::frontends {

class BodyFields {
 public:
  // Bytes::kPadding bytes behind `json` must be readable.
  BodyFields(std::string_view json, BodyProblems& problems);
  ~BodyFields();
  BodyFields(const BodyFields&) = delete;
  BodyFields& operator=(const BodyFields&) = delete;

  // A field with a problem, or a missing one, has an empty value. The range of a text is that of
  // its bytes.
  [[nodiscard]] std::string text(std::string_view name, Range bytes = {1, kMaxNameBytes});
  [[nodiscard]] std::optional<std::string> optional_text(std::string_view name,
                                                         Range bytes = {1, kMaxNameBytes});
  [[nodiscard]] int64_t number(std::string_view name, Range range);
  [[nodiscard]] std::optional<int64_t> optional_number(std::string_view name, Range range);
  [[nodiscard]] std::vector<std::string> texts(std::string_view name);
  // A text that `parse` knows; `choices` lists what it knows.
  template <typename Parse>
  [[nodiscard]] auto optional_choice(std::string_view name, const Parse& parse,
                                     std::string_view choices) -> decltype(parse({})) {
    const auto given = optional_text(name);
    if (!given) return std::nullopt;
    auto value = parse(*given);
    if (!value) {
      add(name, "is \"" + std::string(prefix(*given, 40)) + "\"", "choose " + std::string(choices));
    }
    return value;
  }
  // Whether the field was sent, with any value.
  [[nodiscard]] bool has(std::string_view name);

  // After all fields were read: whether there was no problem and no other field.
  [[nodiscard]] bool finish();

  // Adds a problem of a field.
  void add(std::string_view name, std::string_view message, std::string fix);

 private:
  struct Json;
  std::unique_ptr<Json> json_;  // its object is empty if the body is no object
  BodyProblems& problems_;
  std::vector<std::string> read_;
};

}  // namespace weir::frontends

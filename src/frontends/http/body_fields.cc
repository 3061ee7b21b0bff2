#include "frontends/http/body_fields.h"

#include <simdjson.h>

#include <algorithm>

#include "frontends/bytes.h"

namespace weir::frontends {

namespace dom = simdjson::dom;

struct BodyFields::Json {
  dom::parser parser;
  dom::object object;
  bool valid = false;

  // None: it was not sent.
  [[nodiscard]] std::optional<dom::element> find(std::string_view name) const {
    dom::element element;
    if (!valid || object.at_key(name).get(element) != simdjson::SUCCESS) return std::nullopt;
    return element;
  }
};

BodyFields::BodyFields(std::string_view json, BodyProblems& problems)
    : json_(std::make_unique<Json>()), problems_(problems) {
  dom::element root;
  const auto error = json_->parser.parse(json.data(), json.size(), false).get(root);
  if (error != simdjson::SUCCESS) {
    problems_.assign(1,
                     {.location = "body",
                      .message = std::string("not valid JSON: ") + simdjson::error_message(error),
                      .fix = "send one JSON document in UTF-8"});
  } else if (root.get_object().get(json_->object) != simdjson::SUCCESS) {
    problems_.assign(1, {.location = "body",
                         .message = "the body is not a JSON object",
                         .fix = "send a JSON object"});
  } else {
    json_->valid = true;
  }
}

BodyFields::~BodyFields() = default;

void BodyFields::add(std::string_view name, std::string_view message, std::string fix) {
  if (!json_->valid || problems_.size() >= kMaxProblems) return;
  problems_.push_back({.location = "body." + std::string(name),
                       .message = std::string(name) + " " + std::string(message),
                       .fix = std::move(fix)});
}

bool BodyFields::has(std::string_view name) {
  return json_->find(name).has_value();
}

std::optional<std::string> BodyFields::optional_text(std::string_view name, Range bytes) {
  read_.emplace_back(name);
  const auto element = json_->find(name);
  if (!element) return std::nullopt;
  std::string_view text;
  const bool is_text = element->get_string().get(text) == simdjson::SUCCESS;
  if (is_text && bytes.holds(static_cast<int64_t>(text.size()))) return std::string(text);
  add(name, is_text ? "has " + std::to_string(text.size()) + " bytes" : "is not a string",
      "give it a string of " + std::to_string(bytes.min) + " to " + std::to_string(bytes.max) +
          " bytes in UTF-8");
  return std::nullopt;
}

std::string BodyFields::text(std::string_view name, Range bytes) {
  if (!has(name)) add(name, "is missing", "give it a value");
  return optional_text(name, bytes).value_or("");
}

std::optional<int64_t> BodyFields::optional_number(std::string_view name, Range range) {
  read_.emplace_back(name);
  const auto element = json_->find(name);
  if (!element) return std::nullopt;
  int64_t number = 0;
  const bool is_number = element->get_int64().get(number) == simdjson::SUCCESS;
  if (is_number && range.holds(number)) return number;
  add(name, "is " + std::string(prefix(simdjson::minify(*element), 40)), "choose " + range.text());
  return std::nullopt;
}

int64_t BodyFields::number(std::string_view name, Range range) {
  if (!has(name)) add(name, "is missing", "give it a value");
  return optional_number(name, range).value_or(0);
}

std::vector<std::string> BodyFields::texts(std::string_view name) {
  read_.emplace_back(name);
  std::vector<std::string> texts;
  const auto element = json_->find(name);
  if (!element) return texts;
  dom::array array;
  bool valid = element->get_array().get(array) == simdjson::SUCCESS;
  if (valid) {
    for (const dom::element each : array) {
      std::string_view text;
      valid = valid && each.get_string().get(text) == simdjson::SUCCESS;
      if (valid) texts.emplace_back(text);
    }
  }
  if (!valid) add(name, "is not an array of strings", "send an array of strings");
  return texts;
}

// A field is one that was read, or a problem. So what is compared with is short, and the time for a
// body is linear.
bool BodyFields::finish() {
  if (!json_->valid) return false;
  std::string known;
  for (const std::string& each : read_) known += (known.empty() ? "" : ", ") + each;
  std::vector<std::string_view> seen;
  for (const auto& [name, value] : json_->object) {
    if (problems_.size() >= kMaxProblems) break;
    if (std::ranges::find(seen, name) != seen.end()) {
      add(prefix(name, 64), "is given twice", "give it once");
      continue;
    }
    seen.push_back(name);
    if (std::ranges::find(read_, name) != read_.end()) continue;
    add(prefix(name, 64), "is not a field of this request", "remove it; the fields are " + known);
  }
  return problems_.empty();
}

}  // namespace weir::frontends

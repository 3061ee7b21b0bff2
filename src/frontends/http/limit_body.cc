#include "frontends/http/limit_body.h"

#include <simdjson.h>

#include <optional>
#include <string>

#include "frontends/bytes.h"
#include "frontends/limit_names.h"
#include "frontends/range.h"

namespace weir::frontends {

namespace ondemand = simdjson::ondemand;

static_assert(Bytes::kPadding >= simdjson::SIMDJSON_PADDING);

struct LimitBodyReader::Json {
  ondemand::parser parser;
};

namespace {

enum Field : unsigned {
  kNamespace,
  kIdentifier,
  kLimit,
  kDuration,
  kCost,
  kAlgorithm,
  kBurst,
  kConsistency,
  kFields,
};
constexpr std::string_view kNames[kFields] = {"namespace", "identifier", "limit", "duration",
                                              "cost",      "algorithm",  "burst", "consistency"};
// A namespace may have a limit and a duration of its own.
constexpr unsigned kRequired = 1u << kNamespace | 1u << kIdentifier;

// A value as it was written, cut after 40 bytes.
std::string_view as_written(std::string_view token) {
  constexpr size_t kMax = 40;
  const size_t end = token.find_last_not_of(" \t\r\n");
  return prefix(token.substr(0, end + 1), kMax);
}

std::string location_of(std::optional<size_t> item) {
  return item ? "body[" + std::to_string(*item) + "]" : "body";
}

// Parses one object into a request.
class ItemReader {
 public:
  // `item` is the number of the object in an array; nullopt: it is the body.
  ItemReader(std::optional<size_t> item, Request& request, BodyProblems& problems)
      : item_(item), request_(request), problems_(problems) {}

  // Returns an error if the JSON is invalid; then the rest cannot be parsed.
  simdjson::error_code read(ondemand::object object) {
    for (auto member : object) {
      std::string_view name;
      if (const auto error = member.unescaped_key().get(name)) return error;
      ondemand::value value;
      if (const auto error = member.value().get(value)) return error;
      if (const auto error = read_field(name, value)) return error;
    }
    const unsigned missing = kRequired & ~seen_;
    if (missing == 0) [[likely]]
      return simdjson::SUCCESS;
    for (unsigned field = 0; field < kFields; ++field) {
      if (missing >> field & 1) add_problem(kNames[field], "is missing", "give it a value");
    }
    return simdjson::SUCCESS;
  }

 private:
  void add_problem(std::string_view field, std::string_view message, std::string fix) {
    if (problems_.size() >= kMaxProblems) return;
    problems_.push_back({.location = location_of(item_) + "." + std::string(field),
                         .message = std::string(field) + " " + std::string(message),
                         .fix = std::move(fix)});
  }

  simdjson::error_code read_field(std::string_view name, ondemand::value value) {
    unsigned field = 0;
    while (field < kFields && kNames[field] != name) ++field;
    if (field == kFields) {
      add_problem(
          prefix(name, 64), "is not a field of this request",
          "remove it; the fields are namespace, identifier, limit, duration, cost, algorithm, "
          "burst and consistency");
      return simdjson::SUCCESS;
    }
    if (seen_ >> field & 1) {
      add_problem(name, "is given twice", "give it once");
      return simdjson::SUCCESS;
    }
    seen_ |= 1u << field;
    switch (static_cast<Field>(field)) {
      case kNamespace: return read_name(name, value, request_.ns);
      case kIdentifier: return read_name(name, value, request_.identifier);
      case kLimit: return read_count(name, value, {1, kMaxLimit}, request_.limit);
      case kCost: return read_count(name, value, {0, kMaxLimit}, request_.cost);
      case kAlgorithm: return read_algorithm(value);
      case kDuration: {
        int64_t duration = 0;
        const auto error =
            read_number(name, value, {kMinDuration.count(), kMaxDuration.count()}, duration);
        request_.duration = Millis(duration);
        return error;
      }
      case kBurst: return read_count(name, value, {1, kMaxLimit}, request_.burst.emplace());
      case kConsistency: return read_consistency(value);
      case kFields: break;
    }
    return simdjson::SUCCESS;
  }

  // Whether the value has the wrong type, as opposed to invalid JSON.
  static bool other_type(simdjson::error_code error) {
    return error == simdjson::INCORRECT_TYPE || error == simdjson::NUMBER_ERROR ||
           error == simdjson::NUMBER_OUT_OF_RANGE;
  }

  simdjson::error_code read_name(std::string_view name, ondemand::value value,
                                 std::string_view& out) {
    const auto error = value.get_string().get(out);
    if (error != simdjson::SUCCESS && !other_type(error)) return error;
    if (error == simdjson::SUCCESS && !out.empty() && out.size() <= kMaxNameBytes) return error;
    add_problem(name,
                error == simdjson::SUCCESS ? "has " + std::to_string(out.size()) + " bytes"
                                           : "is not a string",
                "give it a string of 1 to " + std::to_string(kMaxNameBytes) + " bytes in UTF-8");
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_number(std::string_view name, ondemand::value value, Range range,
                                   int64_t& out) {
    const auto error = value.get_int64().get(out);
    if (error != simdjson::SUCCESS && !other_type(error)) return error;
    if (error == simdjson::SUCCESS && range.holds(out)) return error;
    add_problem(
        name,
        "is " + (error == simdjson::SUCCESS ? std::to_string(out)
                                            : std::string(as_written(value.raw_json_token()))),
        "choose " + range.text());
    return simdjson::SUCCESS;
  }

  // Parsed with its sign, so that the problem shows a negative number as it was sent.
  simdjson::error_code read_count(std::string_view name, ondemand::value value, Range range,
                                  Count& out) {
    int64_t number = 0;
    const auto error = read_number(name, value, range, number);
    if (range.holds(number)) out = static_cast<Count>(number);
    return error;
  }

  // A name that `parse` knows; otherwise a problem with the choices.
  template <typename Parse, typename Value>
  simdjson::error_code read_choice(std::string_view field, ondemand::value value,
                                   const Parse& parse, std::string_view choices, Value& out) {
    std::string_view name;
    const auto error = value.get_string().get(name);
    if (error != simdjson::SUCCESS && !other_type(error)) return error;
    if (const auto known = error == simdjson::SUCCESS ? parse(name) : std::nullopt) {
      out = *known;
    } else {
      add_problem(field,
                  error == simdjson::SUCCESS ? "is \"" + std::string(prefix(name, 40)) + "\""
                                             : "is not a string",
                  "choose " + std::string(choices));
    }
    return simdjson::SUCCESS;
  }
  simdjson::error_code read_algorithm(ondemand::value value) {
    return read_choice("algorithm", value, algorithm_from, kAlgorithmNames, request_.algorithm);
  }
  simdjson::error_code read_consistency(ondemand::value value) {
    return read_choice("consistency", value, consistency_from, kConsistencyNames,
                       request_.consistency);
  }

  const std::optional<size_t> item_;
  Request& request_;
  BodyProblems& problems_;
  unsigned seen_ = 0;
};

bool at_end(ondemand::document& document) {
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

void malformed(simdjson::error_code error, BodyProblems& problems) {
  problems.assign(1, {.location = "body",
                      .message = std::string("not valid JSON: ") + simdjson::error_message(error),
                      .fix = "send one JSON document in UTF-8"});
}

void wrong_type(const char* expected, BodyProblems& problems) {
  problems.assign(1, {.location = "body",
                      .message = std::string("the body is not ") + expected,
                      .fix = std::string("send ") + expected});
}

}  // namespace

std::string_view prefix(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (text[limit] & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

LimitBodyReader::LimitBodyReader() : json_(std::make_unique<Json>()) {}
LimitBodyReader::~LimitBodyReader() = default;

void LimitBodyReader::read_one(std::string_view json, Request& request, BodyProblems& problems) {
  problems.clear();
  request = {};
  ondemand::document document;
  auto error =
      json_->parser.iterate(json.data(), json.size(), json.size() + Bytes::kPadding).get(document);
  ondemand::object object;
  if (error == simdjson::SUCCESS) error = document.get_object().get(object);
  if (error == simdjson::INCORRECT_TYPE) return wrong_type("a JSON object", problems);
  if (error == simdjson::SUCCESS) error = ItemReader(std::nullopt, request, problems).read(object);
  if (error == simdjson::SUCCESS && !at_end(document)) error = simdjson::TRAILING_CONTENT;
  if (error != simdjson::SUCCESS) malformed(error, problems);
}

void LimitBodyReader::read_many(std::string_view json, std::vector<Request>& requests,
                                BodyProblems& problems) {
  problems.clear();
  requests.clear();
  ondemand::document document;
  auto error =
      json_->parser.iterate(json.data(), json.size(), json.size() + Bytes::kPadding).get(document);
  ondemand::array array;
  if (error == simdjson::SUCCESS) error = document.get_array().get(array);
  if (error == simdjson::INCORRECT_TYPE) return wrong_type("a JSON array", problems);
  if (error != simdjson::SUCCESS) return malformed(error, problems);
  size_t count = 0;
  for (auto element : array) {
    if (++count > kMaxBatch) break;
    ondemand::object object;
    error = element.get_object().get(object);
    if (error == simdjson::INCORRECT_TYPE) {
      if (problems.size() < kMaxProblems) {
        problems.push_back(
            {.location = location_of(count - 1),
             .message = "the item is not a JSON object",
             .fix = "send an object with namespace, identifier, limit and duration"});
      }
      error = simdjson::SUCCESS;
      continue;
    }
    if (error != simdjson::SUCCESS) return malformed(error, problems);
    error = ItemReader(count - 1, requests.emplace_back(), problems).read(object);
    if (error != simdjson::SUCCESS) return malformed(error, problems);
  }
  if (count == 0 || count > kMaxBatch) {
    problems.assign(1, {.location = "body",
                        .message = count == 0 ? "the array is empty"
                                              : "the array has more than " +
                                                    std::to_string(kMaxBatch) + " items",
                        .fix = "send 1 to " + std::to_string(kMaxBatch) + " items"});
    return;
  }
  if (!at_end(document)) malformed(simdjson::TRAILING_CONTENT, problems);
}

BodyProblem problem_of(const Error& error) {
  // "requests[3].burst" in a batch, otherwise "burst".
  constexpr std::string_view kBatch = "requests";
  const std::string location = error.field.starts_with(kBatch)
                                   ? "body" + error.field.substr(kBatch.size())
                                   : "body." + error.field;
  return {.location = location, .message = error.detail, .fix = error.fix};
}

}  // namespace weir::frontends

// Builds JSON objects and arrays. Names of members need no escape.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frontends/bytes.h"
#include "frontends/http/json_text.h"

namespace weir::frontends {

class JsonObject {
 public:
  JsonObject() { out_.append('{'); }
  JsonObject& add(std::string_view name, std::string_view text) {
    key(name);
    append_json(out_, text);
    return *this;
  }
  JsonObject& add(std::string_view name, uint64_t number) {
    key(name);
    out_.append(number);
    return *this;
  }
  JsonObject& add_flag(std::string_view name, bool value) {
    key(name);
    out_.append(value ? std::string_view("true") : "false");
    return *this;
  }
  JsonObject& add_raw(std::string_view name, std::string_view json) {
    key(name);
    out_.append(json);
    return *this;
  }
  template <typename Number>
  JsonObject& add_optional(std::string_view name, const std::optional<Number>& number) {
    if (number) add(name, static_cast<uint64_t>(*number));
    return *this;
  }
  [[nodiscard]] std::string text() {
    out_.append('}');
    return std::string(out_.unread());
  }

 private:
  void key(std::string_view name) {
    if (!first_) out_.append(',');
    first_ = false;
    out_.append_all('"', name, std::string_view("\":"));
  }
  Bytes out_;
  bool first_ = true;
};

// Of items that are JSON.
inline std::string json_array(std::span<const std::string> items) {
  std::string text = "[";
  for (const std::string& item : items) text += (text.size() > 1 ? "," : "") + item;
  return text + "]";
}

// Of texts.
inline std::string json_texts(std::span<const std::string> texts) {
  Bytes out;
  out.append('[');
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.append(',');
    append_json(out, texts[i]);
  }
  out.append(']');
  return std::string(out.unread());
}

}  // namespace weir::frontends

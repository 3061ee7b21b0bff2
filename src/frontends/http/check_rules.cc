#include "frontends/http/check_rules.h"

#include <algorithm>

namespace weir::frontends {
namespace {

using Kind = IdentifierPart::Kind;

constexpr std::string_view kHeaderPrefix = "header:";
constexpr std::string_view kPlaceholders =
    "{address}, {method}, {path}, {host} and {header:NAME}, like {header:x-api-key}";

std::optional<IdentifierPart> placeholder(std::string_view name) {
  if (name == "address") return IdentifierPart{.kind = Kind::kAddress};
  if (name == "method") return IdentifierPart{.kind = Kind::kMethod};
  if (name == "path") return IdentifierPart{.kind = Kind::kPath};
  if (name == "host") return IdentifierPart{.kind = Kind::kHost};
  if (!name.starts_with(kHeaderPrefix) || name.size() == kHeaderPrefix.size()) return std::nullopt;
  IdentifierPart part{.kind = Kind::kHeader,
                      .text = std::string(name.substr(kHeaderPrefix.size()))};
  for (char& c : part.text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (!std::all_of(part.text.begin(), part.text.end(), fits)) return std::nullopt;
  return part;
}

// The characters to encode in values.
std::string separators(const std::vector<IdentifierPart>& parts) {
  const auto is_value = [](const IdentifierPart& part) { return part.kind != Kind::kText; };
  if (std::count_if(parts.begin(), parts.end(), is_value) < 2) return {};
  std::string characters = "%";
  for (const IdentifierPart& part : parts) {
    if (!is_value(part) && characters.find(part.text[0]) == std::string::npos) {
      characters += part.text[0];
    }
  }
  return characters;
}

}  // namespace

std::string parse_identifier(std::string_view text, Identifier& identifier) {
  identifier = {};
  if (text.empty() || text.size() > kMaxNameBytes) {
    return "must have 1 to " + std::to_string(kMaxNameBytes) + " bytes, like \"{address}\"";
  }
  std::vector<IdentifierPart>& parts = identifier.parts;
  while (!text.empty()) {
    if (text[0] == '}') return "has a } without {: the values are " + std::string(kPlaceholders);
    if (text[0] != '{') {
      const size_t end = std::min(text.find_first_of("{}"), text.size());
      parts.push_back({.kind = Kind::kText, .text = std::string(text.substr(0, end))});
      text.remove_prefix(end);
      continue;
    }
    const size_t end = text.find('}');
    const auto part =
        end == std::string_view::npos ? std::nullopt : placeholder(text.substr(1, end - 1));
    if (!part) {
      return "has '" + std::string(text.substr(0, std::min(end, text.size() - 1) + 1)) +
             "' in it: the values are " + std::string(kPlaceholders);
    }
    if (!parts.empty() && parts.back().kind != Kind::kText) {
      return "has two values without a text between them: write a space or | between } and {";
    }
    parts.push_back(*part);
    text.remove_prefix(end + 1);
  }
  identifier.encoded = separators(parts);
  return {};
}

}  // namespace weir::frontends

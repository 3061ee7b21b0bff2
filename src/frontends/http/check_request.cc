#include "frontends/http/check_request.h"

#include <algorithm>

#include "frontends/http/normal_path.h"
#include "rules/root_keys.h"

namespace weir::frontends {
namespace {

using Kind = IdentifierPart::Kind;

constexpr std::string_view kPath = "/v1/check";

// Lower case, without a port and a dot at the end.
void normalize_host(std::string_view text, std::string& out) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  text = text.substr(0, colon);
  if (text.ends_with('.')) text.remove_suffix(1);
  out = text;
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
}

void append_encoded(std::string_view value, std::string_view encoded, std::string& out) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : value) {
    if (encoded.find(c) == std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
}

}  // namespace

bool is_check_path(std::string_view path) {
  return path.starts_with(kPath) && (path.size() == kPath.size() || path[kPath.size()] == '/');
}

void CheckRequest::read(const HttpHead& head) {
  fields_.clear();
  HttpFields all(head);
  for (HttpField each; all.next(each);) fields_.push_back(each);
  if (head.path.size() > kPath.size()) {
    query_ = {};
    normalize_host(head.host, host_);
    read_method(head.method);
    read_path(head.path.substr(kPath.size()));
    return;
  }
  query_ = head.query;
  const auto either = [this](std::string_view first, std::string_view second) {
    const std::string_view value = last_field(first);
    return value.empty() ? last_field(second) : value;
  };
  const std::string_view method = either("x-forwarded-method", "x-original-method");
  read_method(method.empty() ? head.method : method);
  read_path(either("x-forwarded-uri", "x-original-uri"));
  const std::string_view host = last_field("x-forwarded-host");
  normalize_host(host.empty() ? head.host : host, host_);
}

// Some applications take "post" for POST.
void CheckRequest::read_method(std::string_view method) {
  method_ = method;
  for (char& c : method_) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
}

void CheckRequest::read_path(std::string_view target) {
  normalize_path(target, path_);
  other_readings(target, other_paths_);
}

HttpHead CheckRequest::with_key(const HttpHead& head) {
  HttpHead keyed = head;
  const std::string_view key = last_field("x-weir-key");
  if (key.empty()) return keyed;
  authorization_ = "Bearer ";
  authorization_ += key;
  keyed.authorization = authorization_;
  return keyed;
}

std::optional<int> CheckRequest::denied_status(const CheckRules& rules) const {
  constexpr std::string_view kName = "denied=";
  std::string_view rest = query_;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view parameter = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!parameter.starts_with(kName)) continue;
    const std::string_view status = parameter.substr(kName.size());
    if (status == "403") return 403;
    if (status == "429") return 429;
    return std::nullopt;
  }
  return rules.denied_status;
}

void CheckRequest::match(const CheckRules& rules, const std::optional<IpAddress>& peer,
                         std::vector<Request>& requests) {
  requests.clear();
  matched_.clear();
  read_address(rules, peer);
  for (const CheckRule& rule : rules.rules) {
    if (identifiers_.size() <= requests.size()) identifiers_.emplace_back();
    std::string& identifier = identifiers_[requests.size()];
    if (!matches(rule.match) || !identify(rule.identifier, identifier)) continue;
    matched_.push_back(&rule);
    requests.push_back(rule.request(identifier));
  }
}

void CheckRequest::read_address(const CheckRules& rules, const std::optional<IpAddress>& peer) {
  const bool forwarded = rules.address.header == AddressHeader::kForwarded;
  address_lines_.clear();
  for (const HttpField& each : fields_) {
    if (equal_ignoring_case(each.name, forwarded ? "forwarded" : "x-forwarded-for")) {
      address_lines_.push_back(each.value);
    }
  }
  const auto client = client_address(peer, address_lines_, rules.address);
  address_ = client ? to_text(*client, rules.address.ipv6_prefix) : "unix";
}

// Of several readings, the first that matches: a client must not choose among identifiers.
bool CheckRequest::matches_path(const CheckMatch& match) {
  const auto fits = [&](std::string_view path) {
    const bool fit = match.path_is_prefix ? path.starts_with(match.path) : path == match.path;
    if (fit || match.path.empty()) matched_path_ = path;
    return fit || match.path.empty();
  };
  return std::ranges::any_of(other_paths_, fits) || fits(path_);
}

bool CheckRequest::matches(const CheckMatch& match) {
  const auto& methods = match.methods;
  if (!methods.empty() && std::find(methods.begin(), methods.end(), method_) == methods.end()) {
    return false;
  }
  if (!matches_path(match)) return false;
  if (!match.host.empty() && host_ != match.host) return false;
  return std::all_of(match.headers.begin(), match.headers.end(),
                     [this](const auto& header) { return field(header.first) == header.second; });
}

bool CheckRequest::identify(const Identifier& identifier, std::string& out) const {
  out.clear();
  for (const IdentifierPart& part : identifier.parts) {
    std::string_view value;
    switch (part.kind) {
      case Kind::kText: out += part.text; continue;
      case Kind::kAddress: value = address_; break;
      case Kind::kMethod: value = method_; break;
      case Kind::kPath: value = matched_path_; break;
      case Kind::kHost: value = host_; break;
      case Kind::kHeader: value = field(part.text); break;
    }
    if (value.empty()) return false;
    append_encoded(value, identifier.encoded, out);
  }
  // The client chose the length: an error would let it pass where a gateway ignores errors.
  if (out.size() > kMaxNameBytes) out = "sha256:" + rules::to_hex(rules::hash_of(out));
  return true;
}

std::string_view CheckRequest::field(std::string_view name) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const HttpField& each) {
    return equal_ignoring_case(each.name, name);
  });
  return found == fields_.end() ? std::string_view() : found->value;
}

std::string_view CheckRequest::last_field(std::string_view name) const {
  const auto found = std::find_if(fields_.rbegin(), fields_.rend(), [&](const HttpField& each) {
    return equal_ignoring_case(each.name, name);
  });
  return found == fields_.rend() ? std::string_view() : found->value;
}

}  // namespace weir::frontends

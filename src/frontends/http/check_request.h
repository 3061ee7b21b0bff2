// A request at /v1/check: a gateway asks before it passes another request on.
//
// /v1/check          the headers describe the original request: X-Forwarded-Method, -Uri and -Host,
//                    or X-Original-Method and -URI
// /v1/check/PATH     the request itself is the original one, and PATH its path (Envoy). Its query
//                    and these headers come from the client, so they are not read.
//
// One object per loop: it keeps its buffers.

#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/client_address.h"
#include "frontends/http/check_rules.h"
#include "frontends/http/http_parser.h"
#include "weir/request.h"
#include "weir/verdict.h"

namespace weir::frontends {

[[nodiscard]] bool is_check_path(std::string_view path);

class CheckRequest {
 public:
  // Reads the head. The views of the following functions point into it and into this object.
  void read(const HttpHead& head);

  // The head with X-Weir-Key, if there is one, in place of Authorization, which may be the original
  // client's.
  [[nodiscard]] HttpHead with_key(const HttpHead& head);

  // The status of a denial: the parameter `denied`, or that of the rules. nullopt: the parameter is
  // invalid.
  [[nodiscard]] std::optional<int> denied_status(const CheckRules& rules) const;

  // Fills `requests` with those of all rules that match, in their order. A rule does not match if
  // its identifier needs a header that is missing or empty.
  void match(const CheckRules& rules, const std::optional<IpAddress>& peer,
             std::vector<Request>& requests);
  // The rule of a request.
  [[nodiscard]] const CheckRule& rule(size_t index) const { return *matched_[index]; }

 private:
  void read_method(std::string_view method);
  void read_path(std::string_view target);
  void read_address(const CheckRules& rules, const std::optional<IpAddress>& peer);
  // Sets matched_path_.
  [[nodiscard]] bool matches(const CheckMatch& match);
  [[nodiscard]] bool matches_path(const CheckMatch& match);
  // False: a header is missing.
  [[nodiscard]] bool identify(const Identifier& identifier, std::string& out) const;
  // The first header of this name; empty: none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  // The last one. A gateway that adds a header instead of replacing the client's adds it at the
  // end.
  [[nodiscard]] std::string_view last_field(std::string_view name) const;

  std::vector<HttpField> fields_;
  std::vector<std::string_view> address_lines_;
  std::string_view query_;
  std::string method_;  // in upper case
  std::string host_;
  std::string path_;
  std::vector<std::string> other_paths_;  // as an application may read it, too
  std::string_view matched_path_;         // of these
  std::string address_;
  std::string authorization_;
  std::vector<const CheckRule*> matched_;
  std::deque<std::string> identifiers_;  // a deque: views of its texts stay valid
};

}  // namespace weir::frontends

#include "frontends/http/http_session.h"

#include <chrono>

#include "frontends/http/http_date.h"
#include "frontends/http/json_text.h"
#include "frontends/http/request_id.h"

namespace weir::frontends {

void HttpSession::begin_response() {
  set_status(HttpError::kNone);
  content_type_ = "application/json";
  scratch_.body.clear();
  scratch_.fields.clear();
}

void HttpSession::set_status(HttpError error) {
  status_ = info_of(error).status;
  reason_ = info_of(error).title;
}

void HttpSession::refuse_body() {
  fail(HttpError::kInvalidBody, scratch_.problems.size() == 1
                                    ? scratch_.problems[0].message
                                    : "the body has several problems; see errors");
}

void HttpSession::fail(HttpError error, std::string_view detail) {
  begin_response();
  service_.http.stats.add(telemetry::FrontendStat::kBad);
  set_status(error);
  Bytes& out = scratch_.body;
  if (accepts_problem_) {
    append_problem(kErrorUrn, info_of(error).type, detail);
    out.append(R"(,"errors":[)");
  } else {
    out.append(R"({"meta":{"requestId":")");
    append_request_id(out, scratch_.id_state);
    out.append_all(std::string_view(R"("},"error":{"title":")"), reason_,
                   std::string_view(R"(","detail":)"));
    append_json(out, detail);
    out.append_all(std::string_view(R"(,"status":)"), status_, std::string_view(R"(,"type":")"),
                   kErrorUrn, info_of(error).type, std::string_view(R"(","errors":[)"));
  }
  for (size_t i = 0; i < scratch_.problems.size(); ++i) {
    const BodyProblem& problem = scratch_.problems[i];
    out.append(i == 0 ? std::string_view(R"({"location":)") : R"(,{"location":)");
    append_json(out, problem.location);
    out.append(R"(,"message":)");
    append_json(out, problem.message);
    out.append(R"(,"fix":)");
    append_json(out, problem.fix);
    out.append('}');
  }
  out.append(accepts_problem_ ? std::string_view("]}") : "]}}");
  scratch_.problems.clear();
}

void HttpSession::append_problem(std::string_view space, std::string_view type,
                                 std::string_view detail) {
  content_type_ = "application/problem+json";
  Bytes& out = scratch_.body;
  out.append_all(std::string_view(R"({"type":")"), space, type, std::string_view(R"(","title":")"),
                 reason_, std::string_view(R"(","status":)"), status_,
                 std::string_view(R"(,"detail":)"));
  append_json(out, detail);
  out.append(R"(,"requestId":")");
  append_request_id(out, scratch_.id_state);
  out.append('"');
}

void HttpSession::send(const HttpHead* head, Bytes& out) {
  const int64_t second =
      std::chrono::floor<std::chrono::seconds>(now_.wall.time_since_epoch()).count();
  if (scratch_.date_second != second) {
    scratch_.date_second = second;
    scratch_.date = http_date(second);
  }
  out.append_all(std::string_view("HTTP/1.1 "), status_, ' ', reason_,
                 std::string_view("\r\nDate: "), std::string_view(scratch_.date),
                 std::string_view("\r\n"));
  if (status_ != 204) {
    out.append_all(std::string_view("Content-Type: "), content_type_,
                   std::string_view("\r\nContent-Length: "), scratch_.body.size(),
                   std::string_view("\r\n"));
  }
  out.append(scratch_.fields.unread());
  if (close_) {
    out.append("Connection: close\r\n");
  } else if (head != nullptr && head->minor_version == 0) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append("\r\n");
  const bool bodyless = status_ == 204 || (head != nullptr && head->method == "HEAD");
  if (!bodyless) out.append(scratch_.body.unread());
}

}  // namespace weir::frontends

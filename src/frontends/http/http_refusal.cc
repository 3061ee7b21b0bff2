#include "frontends/http/http_refusal.h"

#include <string>

#include "frontends/http/http_errors.h"

namespace weir::frontends {

std::string_view http_refusal(Refusal reason) {
  static const auto text = [](std::string_view detail) {
    constexpr const HttpErrorInfo& kInfo = info_of(HttpError::kUnavailable);
    const std::string status = std::to_string(kInfo.status);
    const std::string title(kInfo.title);
    const std::string body = R"({"meta":{"requestId":""},"error":{"title":")" + title +
                             R"(","detail":")" + std::string(detail) + R"(","status":)" + status +
                             R"(,"type":")" + std::string(kErrorUrn) + std::string(kInfo.type) +
                             R"(","errors":[]}})";
    return "HTTP/1.1 " + status + " " + title +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + body;
  };
  static const std::string kConnections =
      text("max number of clients reached: close connections, or raise max-connections");
  static const std::string kAddress = text(
      "max number of clients reached for this address: close connections, or raise "
      "max-connections-per-address");
  static const std::string kMemory =
      text("no memory for this request: send it again later, or raise connection-memory");
  switch (reason) {
    case Refusal::kConnections: return kConnections;
    case Refusal::kAddress: return kAddress;
    case Refusal::kMemory: break;
  }
  return kMemory;
}

}  // namespace weir::frontends

#include "ledgers/sql/ledger_address.h"

#include <charconv>

#include "base/percent.h"

namespace weir::ledgers {
namespace {

constexpr std::string_view kTlsWords[] = {"off", "preferred", "required", "verify"};

Error wrong(std::string detail, std::string fix) {
  return {.code = ErrorCode::kInvalidArgument,
          .retry = Retry::kPointless,
          .field = "ledger",
          .detail = std::move(detail),
          .fix = std::move(fix)};
}

Error bad_percent() {
  return wrong("the address has a '%' without two hexadecimal digits behind it",
               "write %25 for a '%' itself");
}

// Truncates `text` at the separator and returns the part behind it; none without a separator.
std::optional<std::string_view> cut_at(std::string_view& text, size_t at) {
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

// None if the parameter is valid.
std::optional<Error> read_parameter(std::string_view name, const std::string& value,
                                    LedgerAddress& address) {
  if (name == "tls") {
    for (size_t i = 0; i < std::size(kTlsWords); ++i) {
      if (value != kTlsWords[i]) continue;
      address.tls = static_cast<LedgerTls>(i);
      return std::nullopt;
    }
    return wrong("the address has an unknown value of tls",
                 "use tls=off, preferred, required or verify");
  }
  if (name == "tls-ca" || name == "socket") {
    if (value.empty()) {
      return wrong("the address has an empty " + std::string(name), "name a file, or leave it out");
    }
    (name == "socket" ? address.socket : address.tls_ca) = value;
    return std::nullopt;
  }
  return wrong("the address has an unknown parameter",
               "use tls, tls-ca and socket only, like ?tls=verify&tls-ca=/etc/ssl/ca.pem");
}

std::optional<Error> read_parameters(std::string_view text, LedgerAddress& address) {
  for (;;) {
    const auto rest = cut_at(text, text.find('&'));
    std::string_view name = text;
    const auto value = cut_at(name, name.find('='));
    const auto decoded = base::percent_decoded(value.value_or(""));
    if (!decoded) return bad_percent();
    if (auto error = read_parameter(name, *decoded, address)) return error;
    if (!rest) break;
    text = *rest;
  }
  if (!address.tls_ca.empty() && address.tls == LedgerTls::kOff) {
    return wrong("the address has a tls-ca, but tls=off", "use tls=verify, or leave tls-ca out");
  }
  return std::nullopt;
}

std::optional<Error> read_host(std::string_view text, LedgerAddress& address) {
  if (!text.ends_with(']')) {
    if (const auto port = cut_at(text, text.rfind(':'))) {
      const char* const end = port->data() + port->size();
      const auto [stop, error] = std::from_chars(port->data(), end, address.port);
      if (error != std::errc() || stop != end || address.port == 0) {
        return wrong("the address has an invalid port",
                     "use a number from 1 to 65535, and brackets around an IPv6 address");
      }
    }
  }
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  } else if (text.find(':') != std::string_view::npos) {
    return wrong("the address has more than one ':' in its host",
                 "put brackets around an IPv6 address, like [::1]:3306");
  }
  if (text.find_first_of(" @[]") != std::string_view::npos) {
    return wrong("the address has an invalid host",
                 "use a name or an IP address; write %40 for a '@' in user or password");
  }
  address.host = text;
  return std::nullopt;
}

Result<LedgerAddress> parse_server(std::string_view text) {
  LedgerAddress address{.kind = LedgerKind::kMySql};
  // A password may contain '/' or '?', so split at the last '@' first; a '@' in a parameter is
  // written %40.
  std::string_view rest = text;
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    std::string_view credentials = text.substr(0, at);
    rest = text.substr(at + 1);
    const auto password = cut_at(credentials, credentials.find(':'));
    const auto user = base::percent_decoded(credentials);
    const auto secret = base::percent_decoded(password.value_or(""));
    if (!user || !secret) return bad_percent();
    address.user = *user;
    address.password = *secret;
  }
  if (const auto parameters = cut_at(rest, rest.find('?'))) {
    if (auto error = read_parameters(*parameters, address)) return *error;
  }
  const auto database = cut_at(rest, rest.find('/'));
  if (auto error = read_host(rest, address)) return *error;
  if (address.host.empty() && address.socket.empty()) {
    return wrong("the address has no host", "name one, like mysql://user:password@host/weir");
  }
  const auto name = base::percent_decoded(database.value_or(""));
  if (!name) return bad_percent();
  if (name->empty() || name->find('/') != std::string::npos) {
    return wrong("the address has no database name",
                 "add one after the host, like mysql://user:password@host/weir");
  }
  address.database = *name;
  return address;
}

}  // namespace

Result<LedgerAddress> parse_ledger_address(std::string_view text) {
  constexpr std::string_view kFile = "sqlite:";
  if (text.starts_with(kFile)) {
    const std::string path(text.substr(kFile.size()));
    if (path.empty()) return wrong("the address has no file", "name one, like sqlite:ledger.db");
    return LedgerAddress{.kind = LedgerKind::kSqlite, .path = path};
  }
  for (const std::string_view scheme : {"mysql://", "mariadb://"}) {
    if (text.starts_with(scheme)) return parse_server(text.substr(scheme.size()));
  }
  return wrong("the address begins with none of sqlite:, mysql:// and mariadb://",
               "use sqlite:PATH, or mysql://[user[:password]@]host[:port]/database, like "
               "mysql://weir@127.0.0.1/weir");
}

std::string to_string(const LedgerAddress& address) {
  if (address.kind == LedgerKind::kSqlite) return "sqlite:" + address.path;
  const bool brackets = address.host.find(':') != std::string::npos;
  std::string text = brackets ? "mysql://[" : "mysql://";
  text += address.host;
  if (brackets) text += ']';
  if (address.socket.empty()) text.append(1, ':').append(std::to_string(address.port));
  text.append(1, '/').append(address.database).append("?tls=");
  text += kTlsWords[static_cast<size_t>(address.tls)];
  if (!address.tls_ca.empty()) text += "&tls-ca=" + address.tls_ca;
  if (!address.socket.empty()) text += "&socket=" + address.socket;
  return text;
}

}  // namespace weir::ledgers

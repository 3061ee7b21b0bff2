#include "ledgers/sql/ledger_address.h"

#include <gtest/gtest.h>

namespace weir::ledgers {
namespace {

LedgerAddress valid(std::string_view text) {
  const auto parsed = parse_ledger_address(text);
  if (!parsed) {
    ADD_FAILURE() << text << ": " << parsed.error().detail;
    return {};
  }
  return *parsed;
}

TEST(LedgerAddress, ParsesAFile) {
  EXPECT_EQ(valid("sqlite:/var/lib/weir.db").path, "/var/lib/weir.db");
  EXPECT_EQ(valid("sqlite:a b%.db").path, "a b%.db");
  EXPECT_EQ(to_string(valid("sqlite:x.db")), "sqlite:x.db");
}

TEST(LedgerAddress, ParsesAServer) {
  const LedgerAddress plain = valid("mysql://db/weir");
  EXPECT_EQ(plain, (LedgerAddress{.kind = LedgerKind::kMySql, .host = "db", .database = "weir"}));
  EXPECT_EQ(plain.port, 3306);
  const LedgerAddress full =
      valid("mariadb://me:secret@10.0.0.1:3307/weir?tls=verify&tls-ca=/etc/ca%20.pem");
  EXPECT_EQ(full, (LedgerAddress{.kind = LedgerKind::kMySql,
                                 .host = "10.0.0.1",
                                 .port = 3307,
                                 .user = "me",
                                 .password = "secret",
                                 .database = "weir",
                                 .tls = LedgerTls::kVerify,
                                 .tls_ca = "/etc/ca .pem"}));
  EXPECT_EQ(to_string(full), "mysql://10.0.0.1:3307/weir?tls=verify&tls-ca=/etc/ca .pem");
}

TEST(LedgerAddress, ParsesPercentEncodingAndBrackets) {
  const LedgerAddress address = valid("mysql://m%40e:p%2F%3A@x?y/z%25@[::1]:7/weir?tls=off");
  EXPECT_EQ(address.user, "m@e");
  EXPECT_EQ(address.password, "p/:@x?y/z%");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, 7);
  EXPECT_EQ(address.tls, LedgerTls::kOff);
  EXPECT_EQ(valid("mysql://[::1]/weir").host, "::1");
  EXPECT_EQ(to_string(address), "mysql://[::1]:7/weir?tls=off");
}

TEST(LedgerAddress, ParsesASocket) {
  const LedgerAddress address = valid("mysql://me@/weir?socket=/run/db.sock");
  EXPECT_EQ(address.socket, "/run/db.sock");
  EXPECT_EQ(to_string(address), "mysql:///weir?tls=preferred&socket=/run/db.sock");
}

TEST(LedgerAddress, RejectsMalformedUrlsWithoutRepeatingThePassword) {
  for (const char* text : {"",
                           "sqlite:",
                           "http://me:secret@host/db",
                           "mysql://me:secret@",
                           "mysql://me:secret@host",
                           "mysql://me:secret@host/",
                           "mysql://me:secret@host/a/b",
                           "mysql://me:secret@host:0/db",
                           "mysql://me:secret@host:65536/db",
                           "mysql://me:secret@host:x/db",
                           "mysql://me:secret@::1/db",
                           "mysql://me:secret@ho st/db",
                           "mysql://me:secret%4@host/db",
                           "mysql://me:secret@host/db%",
                           "mysql://me:secret@host/db?tls=maybe",
                           "mysql://me:secret@host/db?x=1",
                           "mysql://me:secret@host/db?tls",
                           "mysql://me:secret@host/db?",
                           "mysql://me:secret@host/db?tls-ca=",
                           "mysql://me:secret@/db",
                           "mysql://me:secret@host/db?tls=off&tls-ca=/ca"}) {
    const auto parsed = parse_ledger_address(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(parsed.error().detail.empty());
    EXPECT_FALSE(parsed.error().fix.empty());
    EXPECT_EQ((parsed.error().detail + parsed.error().fix).find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::ledgers

// The calls that change and read the catalog, through a session.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "catalog/changes.h"
#include "frontends/fixture_test.h"
#include "frontends/http/http_session.h"
#include "frontends/memory_catalog_test.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct CatalogCalls : testing::Test {
  MemoryCatalog* database = new MemoryCatalog;  // owned by the catalog
  Fixture fixture{{}, std::unique_ptr<catalog::CatalogStore>(database)};
  doubles::ManualExecutor executor{fixture.clock};
  HttpScratch scratch{1};
  HttpSession session{fixture.service, scratch};
  TestConnection line{fixture, session};
  const catalog::Author author{.actor = "root", .now = fixture.clock.now().wall};

  void SetUp() override {
    session.bind(executor, [] {});
    fixture.service.random = [] {
      static uint64_t last = 1000;
      return ++last;
    };
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  }
  // The answer to a call, after the catalog has written.
  std::string call(const std::string& operation, const std::string& body,
                   const std::string& key = std::string(kKey)) {
    std::string answer =
        line.send("POST /v2/" + operation + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + key +
                  "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    if (line.next != Next::kWait) return answer;
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
    executor.run();
    return line.send("");
  }
  catalog::NewKey make_key(const catalog::KeyValues& values) {
    const uint64_t seed = ++random_;
    auto key = catalog::create_key(author, values, {seed, seed, seed});
    write({key.write});
    return key;
  }
  void write(const std::vector<catalog::CatalogWrite>& writes) {
    EXPECT_TRUE(database->write(writes));
    EXPECT_EQ(fixture.catalog.poll_once(), nullptr);
  }

 private:
  uint64_t random_ = 100;
};

// The text of a field of an answer.
std::string text_in(const std::string& answer, const std::string& field) {
  const std::string begin = "\"" + field + "\":\"";
  const size_t at = answer.find(begin);
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  return answer.substr(from, answer.find('"', from) - from);
}

TEST_F(CatalogCalls, RotateAKeyWithinTheBoundsOfTheCaller) {
  const catalog::KeyValues free{.workspace = catalog::kDefaultWorkspace,
                                .name = "free",
                                .permissions = {"ratelimit.*.limit"}};
  catalog::KeyValues bounded = free;
  bounded.permissions = {"ratelimit.*.*", "key.*.*"};
  bounded.expires = author.now + Millis(60'000);
  bounded.per_second = 50;
  catalog::KeyValues narrow = free;
  narrow.expires = author.now + Millis(30'000);
  narrow.per_second = 10;
  const catalog::NewKey caller = make_key(bounded);
  const auto rotated = [&](const catalog::KeyValues& values, const std::string& key) {
    const std::string answer = call(
        "keys.rotateKey", R"({"keyId":")" + make_key(values).key.id + R"(","grace":1000})", key);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
    const auto* const fresh = fixture.catalog.snapshot()->find_key_by_id(text_in(answer, "keyId"));
    return fresh == nullptr ? catalog::Key{} : fresh->record;
  };
  const catalog::Key first = rotated(free, caller.secret);
  EXPECT_EQ(first.expires, bounded.expires);
  EXPECT_EQ(first.per_second, bounded.per_second);
  const catalog::Key second = rotated(narrow, caller.secret);
  EXPECT_EQ(second.expires, narrow.expires);
  EXPECT_EQ(second.per_second, narrow.per_second);
  const catalog::Key third = rotated(free, std::string(kKey));
  EXPECT_EQ(third.expires, std::nullopt);
  EXPECT_EQ(third.per_second, std::nullopt);
}

TEST_F(CatalogCalls, RotateNoExpiredKey) {
  const catalog::NewKey key = make_key({.workspace = catalog::kDefaultWorkspace,
                                        .name = "k",
                                        .permissions = {"ratelimit.*.limit"},
                                        .expires = author.now + Millis(1000)});
  fixture.clock.advance(Millis(1000));
  const size_t rows = database->rows.size();
  const std::string answer = call("keys.rotateKey", R"({"keyId":")" + key.key.id + R"("})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(answer, HasSubstr("has expired: create another one with keys.createKey"));
  EXPECT_EQ(database->rows.size(), rows);
}

}  // namespace
}  // namespace weir::frontends

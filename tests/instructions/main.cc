// The work that instructions.mjs counts: requests to each front end and fast decisions, from fixed
// bytes and fixed times, so that each run executes the same instructions.
//
//   instructions_test           runs all cases
//   instructions_test --build   prints the architecture, the requests per case, compiler and flags
//
// Valgrind counts while a case collects, and writes one file per case. Outside of Valgrind the
// program runs the same requests and counts nothing. One thread.

#include <fmt/format.h>
#include <valgrind/callgrind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "catalog/catalog.h"
#include "catalog/changes.h"
#include "frontends/http/http_session.h"
#include "frontends/resp/resp_session.h"
#include "frontends/service.h"
#include "weir/limiter.h"
#include "weir/testing.h"

namespace weir {
namespace {

using namespace frontends;

constexpr size_t kRequests = 2048;  // of each case; instructions.mjs divides by it
constexpr size_t kManyKeys = 512;
constexpr size_t kBatch = 16;
constexpr Count kHigh = 1'000'000;
const std::string kRootKey(40, 'r');

// Runs `once` until everything is in memory, then counts `kRequests` requests.
template <typename Once>
void measure(const char* name, size_t requests_of_each, Once once) {
  const size_t calls = kRequests / requests_of_each;
  for (size_t i = 0; i < calls; ++i) once(i);
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  for (size_t i = 0; i < calls; ++i) once(i);
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(name);
}

// Rows that were there before the process started.
class Rows final : public catalog::CatalogStore {
 public:
  void add(const catalog::CatalogWrite& write) {
    rows_.push_back(write.row);
    rows_.back().revision = rows_.size();
  }
  [[nodiscard]] Result<uint64_t> write(std::span<const catalog::CatalogWrite>) override {
    return uint64_t{rows_.size()};
  }
  [[nodiscard]] Result<Heads> read_heads(uint64_t known) override {
    return Heads{.last = {.revision = rows_.size(), .nonce = rows_.size()}, .known_nonce = known};
  }
  [[nodiscard]] Result<std::vector<catalog::CatalogRow>> read_after(
      const catalog::CatalogPosition& position, size_t) override {
    std::vector<catalog::CatalogRow> rows;
    for (const catalog::CatalogRow& row : rows_) {
      if (row.revision > position.revision) rows.push_back(row);
    }
    return rows;
  }
  [[nodiscard]] Result<std::vector<catalog::AuditEntry>> read_audit(const std::string&,
                                                                    const catalog::AuditPosition&,
                                                                    size_t) override {
    return std::vector<catalog::AuditEntry>();
  }
  [[nodiscard]] Result<std::optional<catalog::CatalogRow>> read_row(
      const std::string& id) override {
    std::optional<catalog::CatalogRow> found;
    for (const catalog::CatalogRow& row : rows_) {
      if (row.id == id) found = row;
    }
    return found;
  }
  [[nodiscard]] Result<CleanedRows> clean_rows(const std::string&, WallTime, size_t) override {
    return CleanedRows{};
  }
  [[nodiscard]] Result<CleanedAudit> clean_audit(uint64_t, const catalog::AuditBounds&,
                                                 size_t) override {
    return CleanedAudit{};
  }

 private:
  std::vector<catalog::CatalogRow> rows_;
};

// A key of the catalog, and namespaces: "cl" and "api" as requests create them, "plans" with
// overrides.
catalog::NewKey fill(Rows& rows, WallTime now) {
  const catalog::Author author{.actor = "test", .now = now};
  catalog::NewKey key = catalog::create_key(author,
                                            {.workspace = catalog::kDefaultWorkspace,
                                             .name = "key",
                                             .permissions = {"ratelimit.*.limit"}},
                                            {1, 2, 3});
  rows.add(key.write);
  for (const std::string_view name : {"cl", "api", "plans"}) {
    const catalog::Namespace ns =
        catalog::new_namespace(catalog::kDefaultWorkspace, std::string(name), now);
    rows.add(catalog::set_namespace(author, ns, "namespace.create"));
    if (name != "plans") continue;
    for (const std::string_view identifier : {"customer-*", "visitor-*"}) {
      rows.add(catalog::set_override(
          author, ns,
          {.identifier = std::string(identifier), .limit = kHigh, .duration = Millis(60'000)}));
    }
  }
  return key;
}

std::string identifier_of(size_t i) {
  return fmt::format("customer-{}-user-00000", 1000 + i % kManyKeys);
}

std::string command(const std::vector<std::string_view>& words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) text += fmt::format("${}\r\n{}\r\n", word.size(), word);
  return text;
}

std::string throttle(std::string_view key) {
  return command({"CL.THROTTLE", key, "999999", "1000000", "60", "1"});
}

std::string limit(std::string_view ns, std::string_view identifier) {
  return command({"WEIR.LIMIT", ns, identifier, "1000000", "60000"});
}

std::string post(std::string_view path, std::string_view key, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      path, key, body.size(), body);
}

std::string limit_body(std::string_view ns, std::string_view identifier) {
  return fmt::format(R"({{"namespace":"{}","identifier":"{}","limit":1000000,"duration":60000}})",
                     ns, identifier);
}

// A server without sockets.
struct Server {
  test::ManualClock clock;
  Limiter limiter = Limiter::create(clock, Options{.capacity = 1 << 14, .seed = 1}).value();
  NullBackend null_backend;
  LimiterBackend limiter_backend{limiter};
  rules::RootKeys roots;
  std::string key;
  std::unique_ptr<catalog::Catalog> catalog;
  std::unique_ptr<Service> service;
  RespScratch resp;
  HttpScratch http{1};

  enum class Deciding : uint8_t { kNull, kLimiter };
  explicit Server(Deciding deciding) {
    auto rows = std::make_unique<Rows>();
    key = fill(*rows, clock.now().wall).secret;
    catalog = std::make_unique<catalog::Catalog>(clock, std::move(rows));
    WEIR_CHECK(catalog->poll_once() == nullptr);
    roots.add(rules::hash_of(kRootKey));
    Backend* const backend =
        deciding == Deciding::kNull ? static_cast<Backend*>(&null_backend) : &limiter_backend;
    service.reset(new Service{.clock = clock,
                              .backend = *backend,
                              .limiter = limiter,
                              .keys = roots,
                              .catalog = *catalog,
                              .region = "here",
                              .node = "node-1"});
  }

  // Sends the requests in groups of `pipeline`, again and again, and reads what is answered.
  void run(const char* name, Session& session, const std::vector<std::string>& requests,
           size_t pipeline, std::string_view expected) {
    std::vector<std::string> reads;
    for (size_t at = 0; at < std::max(requests.size(), pipeline); at += pipeline) {
      std::string& read = reads.emplace_back();
      for (size_t i = 0; i < pipeline; ++i) read += requests[(at + i) % requests.size()];
    }
    Bytes in;
    Bytes out;
    size_t bytes = 0;
    measure(name, pipeline, [&](size_t i) {
      in.append(reads[i % reads.size()]);
      const Next next = session.process(clock.now(), in, out);
      WEIR_CHECK(next == Next::kRead && in.empty());
      if (i == 0) WEIR_CHECK(out.unread().find(expected) != std::string_view::npos);
      bytes += out.size();
      out.clear();
      if (i % kBatch == 0) clock.advance(Millis(1));
    });
    WEIR_CHECK(bytes > 0);
  }

  void run_resp(const char* name, const std::vector<std::string>& requests, size_t pipeline,
                std::string_view expected, std::string_view key_of_client = {}) {
    RespSession session(*service, resp, 1);
    if (!key_of_client.empty()) {
      Bytes in;
      Bytes out;
      in.append(command({"AUTH", key_of_client}));
      WEIR_CHECK(session.process(clock.now(), in, out) == Next::kRead && out.unread() == "+OK\r\n");
    }
    run(name, session, requests, pipeline, expected);
  }
  void run_http(const char* name, const std::vector<std::string>& requests,
                std::string_view expected) {
    HttpSession session(*service, http);
    run(name, session, requests, 1, expected);
  }
};

void run_front_ends() {
  constexpr std::string_view kAdmitted = "*5\r\n:0\r\n";
  constexpr std::string_view kSuccess = R"("success":true)";
  const std::string one = identifier_of(0);
  std::vector<std::string> many;
  for (size_t i = 0; i < kManyKeys; ++i) many.push_back(throttle(identifier_of(i)));
  {
    Server server(Server::Deciding::kNull);
    server.run_resp("resp.null.throttle.pipeline-1", {throttle(one)}, 1, kAdmitted);
    server.run_resp("resp.null.throttle.pipeline-16", {throttle(one)}, 16, kAdmitted);
    server.run_resp("resp.null.throttle.pipeline-64", {throttle(one)}, 64, kAdmitted);
    server.run_resp("resp.null.limit.pipeline-16", {limit("api", one)}, 16, "success");
    server.run_resp("resp.null.limit.key-and-override", {limit("plans", one)}, 16, "success",
                    server.key);
    server.run_http("http.null.limit.root-key",
                    {post("/v2/ratelimit.limit", kRootKey, limit_body("api", one))}, kSuccess);
    server.run_http("http.null.limit.key-and-override",
                    {post("/v2/ratelimit.limit", server.key, limit_body("plans", one))}, kSuccess);
    server.run_http(
        "http.null.multi-limit",
        {post("/v2/ratelimit.multiLimit", kRootKey,
              fmt::format("[{},{}]", limit_body("api", one), limit_body("plans", one)))},
        "HTTP/1.1 200");
  }
  Server server(Server::Deciding::kLimiter);
  server.run_resp("resp.limiter.throttle.pipeline-1", {throttle(one)}, 1, kAdmitted);
  server.run_resp("resp.limiter.throttle.pipeline-16", {throttle(one)}, 16, kAdmitted);
  server.run_resp("resp.limiter.throttle.pipeline-64", {throttle(one)}, 64, kAdmitted);
  server.run_resp("resp.limiter.throttle.many-keys", many, 64, kAdmitted);
  server.run_resp("resp.limiter.limit.pipeline-16", {limit("api", one)}, 16, "success");
  server.run_http("http.limiter.limit.root-key",
                  {post("/v2/ratelimit.limit", kRootKey, limit_body("api", one))}, kSuccess);
}

// Decisions of the library, at times that advance by 1 ms with every 64.
class Decisions {
 public:
  Decisions() {
    for (size_t i = 0; i < kManyKeys; ++i) identifiers_.push_back(identifier_of(i));
  }

  void run() {
    for (int i = 0; i < kAlgorithmCount; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      const std::string_view name = to_string(algorithm);
      run_check(fmt::format("check.{}.one-key", name).c_str(), algorithm, 1);
      run_check(fmt::format("check.{}.many-keys", name).c_str(), algorithm, kManyKeys);
      run_check_each(fmt::format("check_each.{}.one-key", name).c_str(), algorithm, 1);
      run_check_each(fmt::format("check_each.{}.many-keys", name).c_str(), algorithm, kManyKeys);
    }
    run_denied();
    run_check_all();
  }

 private:
  [[nodiscard]] Request request_of(Algorithm algorithm, size_t i) const {
    return {.ns = "api",
            .identifier = identifiers_[i % kManyKeys],
            .limit = algorithm == Algorithm::kSlidingLog ? kMaxLogLimit : kHigh,
            .duration = Millis(60'000),
            .algorithm = algorithm};
  }
  // With memory for the logs of all keys.
  Limiter fresh() {
    return Limiter::create(clock_,
                           Options{.capacity = 1 << 12, .memory = uint64_t{256} << 20, .seed = 1})
        .value();
  }
  void tick(size_t requests) {
    requests_ += requests;
    if (requests_ % 64 == 0) clock_.advance(Millis(1));
  }

  void run_check(const char* name, Algorithm algorithm, size_t keys) {
    Limiter limiter = fresh();
    for (size_t i = 0; i < keys; ++i) (void)limiter.check(clock_.now(), request_of(algorithm, i));
    clock_.advance(Millis(60'000));  // the previous window has a count
    size_t admitted = 0;
    measure(name, 1, [&](size_t i) {
      admitted += limiter.check(clock_.now(), request_of(algorithm, i % keys))->admitted() ? 1 : 0;
      tick(1);
    });
    WEIR_CHECK(admitted == 2 * kRequests);
  }
  void run_check_each(const char* name, Algorithm algorithm, size_t keys) {
    Limiter limiter = fresh();
    for (size_t i = 0; i < keys; ++i) (void)limiter.check(clock_.now(), request_of(algorithm, i));
    clock_.advance(Millis(60'000));
    std::array<Request, kBatch> requests;
    std::array<Result<Verdict>, kBatch> verdicts;
    size_t admitted = 0;
    measure(name, kBatch, [&](size_t call) {
      for (size_t i = 0; i < kBatch; ++i) {
        requests[i] = request_of(algorithm, (call * kBatch + i) % keys);
      }
      limiter.check_each(clock_.now(), requests, verdicts);
      for (const Result<Verdict>& verdict : verdicts) admitted += verdict->admitted() ? 1 : 0;
      tick(kBatch);
    });
    WEIR_CHECK(admitted == 2 * kRequests);
  }
  void run_denied() {
    Limiter limiter = fresh();
    Request request = request_of(Algorithm::kSlidingWindow, 0);
    request.limit = 1;
    (void)limiter.check(clock_.now(), request);
    size_t denied = 0;
    measure("check.denied", 1,
            [&](size_t) { denied += limiter.check(clock_.now(), request)->admitted() ? 0 : 1; });
    WEIR_CHECK(denied == 2 * kRequests);
  }
  void run_check_all() {
    Limiter limiter = fresh();
    size_t admitted = 0;
    measure("check_all.3-tuples", 1, [&](size_t) {
      const std::array<Request, 3> requests{request_of(Algorithm::kSlidingWindow, 0),
                                            request_of(Algorithm::kSlidingWindow, 1),
                                            request_of(Algorithm::kSlidingWindow, 2)};
      admitted += limiter.check_all(clock_.now(), requests)->admitted() ? 1 : 0;
      tick(1);
    });
    WEIR_CHECK(admitted == 2 * kRequests);
  }

  test::ManualClock clock_;
  std::vector<std::string> identifiers_;
  size_t requests_ = 0;
};

}  // namespace
}  // namespace weir

int main(int count, char** arguments) {
  if (count > 1 && std::string_view(arguments[1]) == "--build") {
    std::printf("%s %zu %s\n", WEIR_ARCHITECTURE, weir::kRequests, WEIR_BUILD);
    return 0;
  }
  weir::run_front_ends();
  weir::Decisions().run();
  return 0;
}

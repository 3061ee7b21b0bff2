#include "bench/catalog/sessions.h"

#include <fmt/format.h>
#include <time.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "catalog/catalog.h"
#include "catalog/changes.h"
#include "frontends/http/http_session.h"
#include "frontends/service.h"
#include "weir/clock.h"

namespace weir::bench {
namespace {

constexpr size_t kIdentifiers = 10'000;
constexpr size_t kConnections = 32;

double cpu_nanos() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
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
      const catalog::CatalogPosition& position, size_t most) override {
    std::vector<catalog::CatalogRow> page;
    const size_t read = position.revision - (position.id.empty() ? 1 : 0);
    for (size_t i = position.revision == 0 ? 0 : read; i < rows_.size() && page.size() < most;
         ++i) {
      page.push_back(rows_[i]);
    }
    return page;
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

// Names of one length.
std::string padded(std::string_view name) {
  return fmt::format("{:_<10}", name);
}

std::vector<std::string> requests_of(std::string_view key, std::string_view ns, Count limit) {
  std::vector<std::string> texts;
  for (size_t i = 1; i <= kIdentifiers; ++i) {
    const std::string body = fmt::format(
        R"({{"namespace":"{}","identifier":"customer-{}-user-{}","limit":{},"duration":60000}})",
        padded(ns), i, i % 7, limit);
    texts.push_back(
        fmt::format("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    "Authorization: Bearer {}\r\nContent-Type: application/json\r\n"
                    "Content-Length: {}\r\n\r\n{}",
                    key, body.size(), body));
  }
  return texts;
}

bool is_expected(std::string_view answer, bool has_override) {
  return answer.find(R"("success":true)") != std::string_view::npos &&
         (answer.find("overrideId") != std::string_view::npos) == has_override;
}

}  // namespace

std::vector<SessionCost> measure_sessions(size_t overrides, size_t rounds) {
  using namespace frontends;
  const Clock& clock = system_clock();
  const catalog::Author author{.actor = "bench", .now = clock.now().wall};
  auto store = std::make_unique<Rows>();
  const catalog::NewKey key = catalog::create_key(author,
                                                  {.workspace = catalog::kDefaultWorkspace,
                                                   .name = "bench",
                                                   .permissions = {"ratelimit.*.limit"}},
                                                  {1, 2, 3});
  store->add(key.write);
  // Each kind has its own tuples.
  struct Space {
    std::string_view name;
    size_t overrides;
  };
  for (const Space& space :
       {Space{"one", 0}, {"two", 0}, {"three", 0}, {"four", 1}, {"five", overrides}}) {
    const catalog::Namespace ns =
        catalog::new_namespace(catalog::kDefaultWorkspace, padded(space.name), author.now);
    store->add(catalog::set_namespace(author, ns, "namespace.create"));
    for (size_t i = 1; i <= space.overrides; ++i) {
      const std::string identifier =
          space.overrides == 1 ? "customer-*" : fmt::format("customer-{}-*", i);
      store->add(catalog::set_override(
          author, ns, {.identifier = identifier, .limit = 1'000'000, .duration = Millis(60'000)}));
    }
  }
  catalog::Catalog catalog(clock, std::move(store));
  WEIR_CHECK(catalog.poll_once() == nullptr);

  Limiter limiter = Limiter::create(clock, Options{.capacity = 1 << 17}).value();
  LimiterBackend backend(limiter);
  // As long as a key of the catalog.
  const std::string root(key.secret.size(), 'r');
  rules::RootKeys roots;
  roots.add(rules::hash_of(root));
  Service service{.clock = clock,
                  .backend = backend,
                  .limiter = limiter,
                  .keys = roots,
                  .catalog = catalog,
                  .region = "here",
                  .node = "node-1"};
  HttpScratch scratch(1);

  struct Load {
    SessionCost cost;
    std::vector<std::string> requests;
    bool has_override = false;
    std::vector<std::unique_ptr<HttpSession>> sessions = {};
  };
  std::vector<Load> loads;
  loads.push_back({{"root key, no override"}, requests_of(root, "one", 1'000'000)});
  loads.push_back({{"the same, longer answer"}, requests_of(root, "two", kMaxLimit)});
  loads.push_back({{"key, no override"}, requests_of(key.secret, "three", 1'000'000)});
  loads.push_back({{"root key, 1 override"}, requests_of(root, "four", 1'000'000), true});
  loads.push_back({{"key and overrides"}, requests_of(key.secret, "five", 1'000'000), true});
  for (Load& load : loads) {
    for (size_t i = 0; i < kConnections; ++i) {
      load.sessions.push_back(std::make_unique<HttpSession>(service, scratch));
    }
  }
  Bytes in;
  Bytes out;
  for (size_t round = 0; round <= rounds; ++round) {
    for (size_t at = 0; at < loads.size(); ++at) {
      // No kind always follows the same one, which leaves the caches as it needs them.
      Load& load = loads[(round * 2 + at) % loads.size()];
      const double start = cpu_nanos();
      for (size_t i = 0; i < kIdentifiers; ++i) {
        in.append(load.requests[i]);
        (void)load.sessions[i % kConnections]->process(clock.now(), in, out);
        load.cost.answer_bytes = out.size();
        WEIR_CHECK(i > 0 || is_expected(out.unread(), load.has_override));
        out.clear();
      }
      // The first round creates the tuples.
      if (round > 0) load.cost.ns.push_back((cpu_nanos() - start) / kIdentifiers);
    }
  }
  std::vector<SessionCost> costs;
  for (Load& load : loads) costs.push_back(std::move(load.cost));
  return costs;
}

}  // namespace weir::bench

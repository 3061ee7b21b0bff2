// Measures how long it takes to find the override of an identifier, by the number of overrides and
// their form, and what keys and overrides cost a session. Prints JSON.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/split_mix.h"
#include "bench/catalog/sessions.h"
#include "bench/command_line.h"
#include "catalog/changes.h"
#include "catalog/override_index.h"
#include "catalog/sql_catalog.h"
#include "weir/clock.h"

namespace weir::bench {
namespace {

struct Shape {
  std::string name;
  std::function<std::string(size_t)> pattern;
};

const std::vector<Shape> kShapes{
    {"exact", [](size_t i) { return fmt::format("customer-{:07}", i); }},
    {"begin*", [](size_t i) { return fmt::format("customer-{}-*", i); }},
    {"*end", [](size_t i) { return fmt::format("*@tenant{}.example", i); }},
    {"begin*end", [](size_t i) { return fmt::format("customer-*-{}", i); }},
    // As many as are allowed; the others are a beginning.
    {"*middle*",
     [](size_t i) {
       const bool allowed = i < catalog::OverrideIndex::kMostWithMiddle;
       return fmt::format("{}-team{}-*", allowed ? "*" : "org", i);
     }},
};

// Identifiers of the forms that the patterns match, most of them without an override.
std::vector<std::string> make_identifiers(size_t count) {
  std::vector<std::string> identifiers;
  uint64_t random = 1;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t a = base::split_mix(random) % 20'000;
    const uint64_t b = base::split_mix(random) % 20'000;
    switch (i % 4) {
      case 0: identifiers.push_back(fmt::format("customer-{:07}", a)); break;
      case 1: identifiers.push_back(fmt::format("customer-{}-user-{}", a, b)); break;
      case 2: identifiers.push_back(fmt::format("user{}@tenant{}.example", a, b)); break;
      default: identifiers.push_back(fmt::format("org-{}-team{}-x", a, b));
    }
  }
  return identifiers;
}

double measure(const catalog::OverrideIndex& index, const std::vector<std::string>& identifiers,
               size_t& found) {
  const MonoTime start = system_clock().now().mono;
  for (const std::string& identifier : identifiers) {
    found += index.find(identifier) != nullptr ? 1 : 0;
  }
  const Nanos took = system_clock().now().mono - start;
  return static_cast<double>(took.count()) / static_cast<double>(identifiers.size());
}

// Nanoseconds per look-up.
std::vector<std::string> measure_lookups(size_t repetitions, size_t identifier_count) {
  const std::vector<std::string> identifiers = make_identifiers(identifier_count);
  std::vector<std::string> rows;
  std::vector<Shape> shapes = kShapes;
  shapes.push_back({"all forms", [](size_t i) { return kShapes[i % kShapes.size()].pattern(i); }});
  for (const Shape& shape : shapes) {
    for (const size_t count : {size_t{10}, size_t{1000}, size_t{10'000}}) {
      std::vector<std::shared_ptr<const catalog::Override>> overrides;
      for (size_t i = 0; i < count; ++i) {
        catalog::Override override;
        override.identifier = shape.pattern(i);
        overrides.push_back(std::make_shared<catalog::Override>(std::move(override)));
      }
      const catalog::OverrideIndex index(std::move(overrides));
      double least = 1e9;
      size_t found = 0;
      for (size_t i = 0; i < repetitions; ++i) {
        found = 0;
        least = std::min(least, measure(index, identifiers, found));
      }
      rows.push_back(fmt::format(
          R"({{"form":"{}","overrides":{},"ns":{:.0f},"found":{:.3f}}})", shape.name, count, least,
          static_cast<double>(found) / static_cast<double>(identifiers.size())));
    }
  }
  return rows;
}

// Writes a catalog into a new SQLite file: in each workspace a namespace with nine tenths of its
// overrides, and the rest in the others. Prints what a client needs.
int fill(const std::string& path, size_t overrides, size_t workspaces, size_t namespaces) {
  using namespace catalog;
  const auto store =
      make_catalog_store(system_clock(), {.kind = ledgers::LedgerKind::kSqlite, .path = path});
  const Author author{.actor = "bench", .now = system_clock().now().wall};
  std::vector<CatalogWrite> writes;
  const auto flush = [&] {
    WEIR_CHECK(writes.empty() || store->write(writes));
    writes.clear();
  };
  const auto add = [&](CatalogWrite write) {
    writes.push_back(std::move(write));
    if (writes.size() == 1000) flush();
  };
  const size_t each = overrides / workspaces;
  const size_t largest = namespaces > 1 ? each - each / 10 : each;
  std::string shown;
  for (size_t w = 0; w < workspaces; ++w) {
    CatalogWrite workspace = create_workspace(author, fmt::format("tenant-{}", w), w);
    const std::string id = workspace.row.id;
    add(std::move(workspace));
    const NewKey key = create_key(
        author, {.workspace = id, .name = "bench", .permissions = {"ratelimit.*.*", "key.*.*"}},
        {w + 1, 2, 3});
    add(key.write);
    std::vector<Namespace> all;
    for (size_t n = 0; n < namespaces; ++n) {
      all.push_back(new_namespace(id, fmt::format("namespace-{}", n), author.now));
      add(set_namespace(author, all.back(), "namespace.create"));
    }
    for (size_t i = 0; i < each; ++i) {
      const Namespace& ns = i < largest ? all[0] : all[1 + i % (namespaces - 1)];
      add(set_override(author, ns,
                       {.identifier = fmt::format("customer-{:07}", i),
                        .limit = 100 + i % 10,
                        .duration = Millis(60'000)}));
    }
    shown =
        fmt::format(R"({{"key":"{}","keyId":"{}","namespace":"{}","small":"{}","of_largest":{}}})",
                    key.secret, key.key.id, all.front().name, all.back().name, largest);
  }
  flush();
  fmt::print("{}\n", shown);
  return 0;
}

int run(int argc, char** argv) {
  size_t repetitions = 5;  // of look-ups; the least time is printed; 0: none
  size_t identifiers = 1'000'000;
  size_t rounds = 40;  // of sessions, 10,000 requests of each kind in turn; 0: none
  size_t overrides = 10'000;
  CommandLine options("weir_catalog_bench");
  options.number<size_t>("--repetitions", repetitions, 0, 1000);
  options.number<size_t>("--identifiers", identifiers, 1, 100'000'000);
  options.number<size_t>("--rounds", rounds, 0, 10'000);
  options.number<size_t>("--overrides", overrides, 1, 1'000'000);
  std::string file;  // to fill instead
  size_t workspaces = 1;
  size_t namespaces = 1;
  options.text("--fill", file);
  options.number<size_t>("--workspaces", workspaces, 1, 1000);
  options.number<size_t>("--namespaces", namespaces, 1, 10'000);
  if (!options.parse(argc, argv)) return 2;
  if (!file.empty()) return fill(file, overrides, workspaces, namespaces);
  std::vector<std::string> lookups;
  if (repetitions > 0) lookups = measure_lookups(repetitions, identifiers);
  std::vector<std::string> sessions;
  if (rounds > 0) {
    for (const SessionCost& cost : measure_sessions(overrides, rounds)) {
      sessions.push_back(fmt::format(R"({{"kind":"{}","answer":{},"ns":[{:.1f}]}})", cost.kind,
                                     cost.answer_bytes, fmt::join(cost.ns, ",")));
    }
  }
  fmt::print(R"({{"lookups":[{}],"sessions":[{}]}})"
             "\n",
             fmt::join(lookups, ","), fmt::join(sessions, ","));
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  return weir::bench::run(argc, argv);
}

// A call that reads or changes the catalog has a response that is JSON, also about names that are
// not UTF-8, and writes only records that can be read back. Bytes after the body do not change it.

#include <simdjson.h>

#include "catalog/changes.h"
#include "frontends/bytes.h"
#include "frontends/http/catalog_api.h"
#include "frontends/http/json_text.h"
#include "frontends/memory_catalog_test.h"
#include "fuzz/input.h"
#include "tests/doubles/manual_clock.h"

using namespace weir::frontends;
using namespace weir::catalog;
using weir::fuzz::must;

namespace {

// Records of each kind, also with names that are not UTF-8.
std::unique_ptr<MemoryCatalog> make_store() {
  auto store = std::make_unique<MemoryCatalog>();
  const Author author{.actor = "root", .now = weir::WallTime(weir::Millis(1))};
  const Namespace ns = new_namespace(kDefaultWorkspace, "api", author.now);
  const Namespace bytes = new_namespace(kDefaultWorkspace, "\xc3(\x80", author.now);
  std::vector<CatalogWrite> writes{
      set_namespace(author, ns, "namespace.create"),
      set_namespace(author, bytes, "namespace.create"),
      create_key(author, {.workspace = kDefaultWorkspace, .name = "k\xff"}, {1, 2, 3}).write,
      create_workspace(author, "\xf0\x9f", 7)};
  for (const std::string_view identifier : {"a*", "\xed\xa0\x80*"}) {
    writes.push_back(set_override(
        author, ns, {.identifier = identifier, .limit = 1, .duration = weir::Millis(1000)}));
  }
  must(store->write(writes).ok(), "the records are written");
  return store;
}

// The catalog with these records, and the rights of the root key.
struct World {
  weir::doubles::ManualClock clock;
  Catalog catalog{clock, make_store()};
  std::shared_ptr<const Snapshot> snapshot;
  Access access;
  CatalogReader reader;

  World() {
    must(catalog.poll_once() == nullptr, "the records are read");
    must(access.refresh(catalog, reader, {}) == KeyState::kValid, "the root key is valid");
    snapshot = reader.pin();
  }
};

void must_be_json(const std::string& text) {
  static simdjson::dom::parser parser;
  simdjson::dom::element element;
  must(parser.parse(text).get(element) == simdjson::SUCCESS, "a response is JSON");
}

std::string run(const CatalogOperation& operation, std::string_view json, std::string_view after) {
  static World world;
  Bytes body;
  body.append(json);
  body.append(after);
  const CatalogReply reply = operation.run({.access = world.access,
                                            .snapshot = *world.snapshot,
                                            .body = body.unread().substr(0, json.size()),
                                            .now = weir::WallTime(weir::Millis(1000)),
                                            .random = [] { return uint64_t{7}; }});
  for (const auto& write : reply.writes) {
    const auto record = record_of(write.row);
    must(record.has_value(), "a record can be read");
    must(row_of(*record) == write.row, "a record is read as it was written");
    must(write.row.name.size() <= weir::kMaxNameBytes, "a name fits its column");
    must(write.row.body.size() <= kMaxBodyBytes, "a body is bounded");
    must(write.audit.detail.size() <= 4096, "an entry of the audit log fits its column");
  }
  must_be_json(reply.data);
  if (!reply.pagination.empty()) must_be_json(reply.pagination);
  Bytes detail;
  append_json(detail, reply.detail);
  must_be_json(std::string(detail.unread()));
  must(reply.error == HttpError::kNone || !reply.detail.empty(), "an error has a detail");
  must(reply.error == HttpError::kNone || reply.writes.empty(), "an error changes nothing");
  return std::to_string(static_cast<int>(reply.error)) + reply.detail + reply.data +
         reply.pagination;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto operations = catalog_operations();
  const CatalogOperation& operation = operations[data[0] % operations.size()];
  const std::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  weir::fuzz::must_equal(run(operation, json, ""), run(operation, json, "\"}]}GET / HTTP/1.1"),
                         "bytes after a body do not change the result");
  return 0;
}

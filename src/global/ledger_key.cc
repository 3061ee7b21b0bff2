#include "global/ledger_key.h"

#include <utility>

#include "base/word_packer.h"
#include "memory/tuple_key.h"

namespace weir::global {
namespace {

// The bytes of the names, and the duration.
bool are_valid(size_t workspace, size_t ns, size_t identifier, Millis duration) {
  const auto is_name = [](size_t bytes) { return bytes > 0 && bytes <= kMaxNameBytes; };
  return workspace <= kMaxNameBytes && is_name(ns) && is_name(identifier) &&
         duration >= kMinDuration && duration <= kMaxDuration;
}

}  // namespace

LedgerKey ledger_key_of(const std::string& tuple) {
  memory::KeyNames names = memory::names_of(tuple);
  LedgerKey key;
  key.workspace = std::move(names.workspace);
  key.ns = std::move(names.ns);
  key.identifier = std::move(names.identifier);
  key.duration = memory::header_of(tuple).duration();
  return key;
}

Tenant tenant_of(const std::string& tuple) {
  LedgerKey key = ledger_key_of(tuple);
  return {.workspace = std::move(key.workspace), .ns = std::move(key.ns)};
}

bool are_of_one_tenant(const std::string& tuple, const std::string& other) {
  const memory::KeyHeader ours = memory::header_of(tuple);
  const memory::KeyHeader theirs = memory::header_of(other);
  const size_t words =
      base::words_for(ours.workspace_bytes()) + base::words_for(ours.namespace_bytes());
  return ours.workspace_bytes() == theirs.workspace_bytes() &&
         ours.namespace_bytes() == theirs.namespace_bytes() &&
         tuple.compare(sizeof ours.word, words * sizeof(uint64_t), other, sizeof ours.word,
                       words * sizeof(uint64_t)) == 0;
}

Request request_of(const LedgerKey& key) {
  return {.workspace = key.workspace,
          .ns = key.ns,
          .identifier = key.identifier,
          .limit = 1,
          .duration = key.duration};
}

bool is_valid(const LedgerKey& key) {
  return are_valid(key.workspace.size(), key.ns.size(), key.identifier.size(), key.duration);
}

bool is_window_tuple(std::string_view bytes) {
  if (bytes.size() < sizeof(memory::KeyHeader::word)) return false;
  const memory::KeyHeader header = memory::header_of(bytes);
  return header.cell_class() == memory::CellClass::kWindow &&
         bytes.size() == sizeof header.word + header.words() * sizeof(uint64_t) &&
         are_valid(header.workspace_bytes(), header.namespace_bytes(), header.identifier_bytes(),
                   header.duration());
}

}  // namespace weir::global

#include "global/ledger_key.h"

#include <utility>

#include "base/word_packer.h"
#include "memory/tuple_key.h"

namespace weir::global {

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
  const auto is_name = [](const std::string& name) {
    return !name.empty() && name.size() <= kMaxNameBytes;
  };
  return key.workspace.size() <= kMaxNameBytes && is_name(key.ns) && is_name(key.identifier) &&
         key.duration >= kMinDuration && key.duration <= kMaxDuration;
}

bool is_window_tuple(const std::string& bytes) {
  if (bytes.size() < sizeof(memory::KeyHeader::word)) return false;
  const memory::KeyHeader header = memory::header_of(bytes);
  return header.cell_class() == memory::CellClass::kWindow &&
         bytes.size() == sizeof header.word + header.words() * sizeof(uint64_t) &&
         is_valid(ledger_key_of(bytes));
}

}  // namespace weir::global

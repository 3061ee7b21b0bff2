#include "ledgers/memory_ledger.h"
#include "weir/testing.h"

namespace weir::test {

struct MemoryLedgerStore::Store {
  explicit Store(const Clock& clock) : ledger(clock) {}
  ledgers::MemoryLedger ledger;
};

MemoryLedgerStore::MemoryLedgerStore(const Clock& clock) : store_(std::make_unique<Store>(clock)) {}
MemoryLedgerStore::~MemoryLedgerStore() = default;

std::shared_ptr<GlobalLedger> MemoryLedgerStore::connect() const {
  return store_->ledger.another_client();
}

void MemoryLedgerStore::clear() {
  store_->ledger.clear();
}

std::vector<LedgerRow> MemoryLedgerStore::rows() const {
  return store_->ledger.contents();
}

}  // namespace weir::test

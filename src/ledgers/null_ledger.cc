// The ledger of a single region: it accepts every row and returns none.

#include "weir/ledger.h"

namespace weir::ledgers {
namespace {

class NullLedger final : public GlobalLedger {
 public:
  void publish(LedgerNews batch, PublishReply reply) override { reply(batch.rows.size()); }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    reply(LedgerChanges{.news = {}, .next = cursor});
  }
  void read_page(LedgerPosition /*position*/, PageReply reply) override { reply(LedgerPage{}); }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    reply(LedgerFleet{.regions = {std::move(self)}, .rules = rules});
  }
  void clean(size_t /*most*/, CleaningReply reply) override { reply(LedgerCleaning{}); }
};

}  // namespace
}  // namespace weir::ledgers

namespace weir {

std::shared_ptr<GlobalLedger> make_null_ledger() {
  return std::make_shared<ledgers::NullLedger>();
}

std::string_view to_string(PublishPolicy policy) {
  return policy == PublishPolicy::kFloor ? "floor" : "bounded";
}

}  // namespace weir

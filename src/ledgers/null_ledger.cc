// The ledger of a single region: it accepts every row and returns none.

#include <algorithm>

#include "weir/ledger.h"

namespace weir::ledgers {
namespace {

class NullLedger final : public GlobalLedger {
 public:
  void publish(std::string /*region*/, FeedPosition known, std::vector<LedgerRow> /*rows*/,
               PublishReply reply) override {
    reply(FeedPosition{.epoch = std::max<uint64_t>(known.epoch, 1), .number = known.number + 1});
  }
  void read_feeds(std::vector<RegionFeed> /*after*/, FeedReply reply) override {
    reply(FeedChanges{});
  }
  void read_page(std::string /*region*/, LedgerPosition /*position*/, PageReply reply) override {
    reply(LedgerPage{});
  }
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

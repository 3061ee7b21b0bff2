#include "sim/stores/ledger_link.h"

#include <algorithm>

namespace weir::sim {

namespace {

Error failure(const char* detail) {
  return {.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = detail};
}

// Another transaction holds a lock on one of the rows.
Error deadlock(const char* field) {
  Error error = failure("a deadlock");
  error.field = field;
  return error;
}

const RegionFeed* find(const std::vector<RegionFeed>& feeds, const std::string& region) {
  const auto found = std::find_if(feeds.begin(), feeds.end(),
                                  [&](const RegionFeed& feed) { return feed.region == region; });
  return found == feeds.end() ? nullptr : &*found;
}

// Whether a batch between the requested position and the last one delivered is missing.
bool has_gap(const std::vector<RegionFeed>& after, const FeedChanges& changes) {
  std::map<std::string, uint64_t> next;
  for (const RegionFeed& feed : after) next[feed.region] = feed.at.number + 1;
  for (const FeedBatch& batch : changes.batches) {
    if (batch.at.number != next[batch.region]++) return true;
  }
  for (const RegionFeed& head : changes.heads) {
    const RegionFeed* const feed = find(after, head.region);
    if (feed == nullptr || feed->at.epoch != head.at.epoch || changes.more) continue;
    if (next[head.region] != head.at.number + 1 && feed->at.number < head.at.number) return true;
  }
  return false;
}

}  // namespace

template <typename Answer>
void LedgerLink::send(Call<Answer> call, Reply<Answer> reply, Write write) {
  if (abandoned_) return;
  if (faults.connectivity == Connectivity::kRefused) {
    note_disruption();
    return reply(failure("refused"));
  }
  if (faults.connectivity == Connectivity::kSilent || random_.permille(faults.lose_permille))
    return note_disruption();
  auto once = std::make_shared<Reply<Answer>>(std::move(reply));
  const int copies = random_.permille(faults.repeat_permille) ? 2 : 1;
  const bool fails = random_.permille(faults.fail_permille);
  if (fails || faults.slow > Millis(0)) note_disruption();
  const char* const field = write == Write::kRows ? "rows" : "";
  for (int copy = 0; copy < copies; ++copy) {
    timeline_.post_in(delay(), [this, call, once, fails, field] {
      if (faults.connectivity != Connectivity::kUp) return note_disruption();
      if (fails) return send_reply<Answer>(once, deadlock(field));
      call([this, once](Result<Answer> answer) { send_reply(once, std::move(answer)); });
    });
  }
}

template <typename Answer>
void LedgerLink::send_reply(const std::shared_ptr<Reply<Answer>>& once, Result<Answer> answer) {
  if (abandoned_) return;
  if (faults.connectivity != Connectivity::kUp || random_.permille(faults.lose_permille)) {
    ++counters.lost_replies;
    return note_disruption();
  }
  auto value = std::make_shared<Result<Answer>>(std::move(answer));
  const auto arrive = [this, once, value] {
    if (abandoned_) return;
    if (const Reply<Answer> reply = std::exchange(*once, nullptr)) reply(std::move(*value));
  };
  timeline_.post_in(delay(), [this, arrive] {
    if (timeline_.now().mono >= paused_until_) return arrive();
    timeline_.post_at(paused_until_, arrive);
  });
}

bool LedgerLink::is_rejected(const std::vector<LedgerRow>& rows) const {
  return !rejected_name.empty() && std::any_of(rows.begin(), rows.end(), [&](const LedgerRow& row) {
    return row.key.identifier == rejected_name;
  });
}

void LedgerLink::publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
                         PublishReply reply) {
  if (bug == LedgerBug::kFalseAcks && random_.one_in(3)) return reply(ack_falsely(known));
  plant_in_rows(rows);
  if (is_rejected(rows)) {
    ++counters.rejected;
    note_disruption();
    // Rows of one tuple are rejected for good; of more, the process finds out which.
    const bool of_one_tuple = std::all_of(rows.begin(), rows.end(), [&](const LedgerRow& row) {
      return row.key.identifier == rejected_name;
    });
    if (watcher != nullptr && of_one_tuple) watcher->rejected(rows);
    return send<FeedPosition>(
        [](const PublishReply& done) {
          done(Error{.code = ErrorCode::kInvalidArgument,
                     .retry = Retry::kPointless,
                     .field = "rows",
                     .detail = "an invalid row"});
        },
        std::move(reply));
  }
  if (watcher != nullptr) watcher->sent(rows);
  const auto batch =
      std::make_shared<const Batch>(Batch{std::move(region), known, std::move(rows)});
  send<FeedPosition>(
      [this, batch](const PublishReply& done) {
        if (!accepts(batch->rows)) return done(failure("the ledger is read-only or full"));
        ledger_.commit(user_, *batch, done);
        if (watcher != nullptr) watcher->committed();
      },
      std::move(reply), Write::kRows);
}

bool LedgerLink::accepts(const std::vector<LedgerRow>& rows) const {
  if (!faults.read_only && !faults.full) return true;
  note_disruption();
  return !faults.read_only && std::all_of(rows.begin(), rows.end(), [&](const LedgerRow& row) {
    return ledger_.current({cell_of(row), row.region}) > 0;
  });
}

// Sometimes a lagging replica.
std::shared_ptr<GlobalLedger> LedgerLink::read_from() {
  if (!random_.permille(faults.stale_permille)) return store_;
  ++counters.stale;
  note_disruption();
  const Millis lag(random_.between(faults.stale.from.count(), faults.stale.to.count()));
  return ledger_.replica_at(timeline_.now().mono - lag);
}

void LedgerLink::read_feeds(std::vector<RegionFeed> after, FeedReply reply) {
  const auto feeds = std::make_shared<const std::vector<RegionFeed>>(std::move(after));
  send<FeedChanges>([this, feeds](const FeedReply& done) { read_from()->read_feeds(*feeds, done); },
                    [this, feeds, reply = std::move(reply)](Result<FeedChanges> changes) {
                      if (changes) receive(*feeds, changes.value());
                      reply(std::move(changes));
                    });
}

void LedgerLink::receive(const std::vector<RegionFeed>& after, FeedChanges& changes) {
  if (has_gap(after, changes)) {
    ++counters.gaps;
    note_disruption();
  }
  if (random_.permille(faults.cut_permille)) cut(changes);
  plant_in_feeds(after, changes);
  for (FeedBatch& batch : changes.batches) deliver(batch.rows);
}

// The reply ends in the middle.
void LedgerLink::cut(FeedChanges& changes) {
  if (changes.batches.size() < 2) return;
  ++counters.cut;
  note_disruption();
  changes.more = true;
  changes.batches.resize(changes.batches.size() / 2);
}

void LedgerLink::read_page(std::string region, LedgerPosition position, PageReply reply) {
  if (position.after.empty()) ++counters.full_reads;
  send<LedgerPage>([this, region = std::move(region), position](
                       const PageReply& done) { read_from()->read_page(region, position, done); },
                   [this, reply = std::move(reply)](Result<LedgerPage> page) {
                     if (page) deliver(page.value().rows);
                     reply(std::move(page));
                   });
}

void LedgerLink::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  send<LedgerFleet>(
      [this, self, rules](const FleetReply& done) { store_->heartbeat(self, rules, done); },
      [this, self, reply = std::move(reply)](Result<LedgerFleet> fleet) {
        if (fleet && bug == LedgerBug::kIgnoresLeaseEnd)
          fleet.value().rules.lease = Millis(86'400'000);
        if (fleet && bug == LedgerBug::kHidesRegions) {
          std::erase_if(fleet.value().regions,
                        [&](const LedgerRegion& each) { return each.region != self.region; });
        }
        reply(std::move(fleet));
      });
}

void LedgerLink::clean(size_t most, CleaningReply reply) {
  send<LedgerCleaning>([this, most](const CleaningReply& done) { store_->clean(most, done); },
                       std::move(reply));
}

FeedPosition LedgerLink::ack_falsely(const FeedPosition& known) const {
  return {.epoch = std::max<uint64_t>(known.epoch, 1), .number = known.number + 1};
}

void LedgerLink::plant_in_feeds(const std::vector<RegionFeed>& after, FeedChanges& changes) {
  if (bug == LedgerBug::kDropsChanges) {
    changes.batches.clear();
    changes.more = false;
    for (RegionFeed& head : changes.heads) {
      const RegionFeed* const feed = find(after, head.region);
      if (feed != nullptr && feed->at.epoch != 0) head.at = feed->at;
    }
  }
}

// Delivers what a correct process would receive, changed by a planted bug.
void LedgerLink::deliver(std::vector<LedgerRow>& rows) {
  if (watcher != nullptr) watcher->received(rows);
  if (bug == LedgerBug::kNone) return;
  for (LedgerRow& row : rows) {
    if (bug == LedgerBug::kHidesLimits) row.limit_seen = kMaxLimit;
    if (row.region == user_.name) continue;
    Count& received = received_[{cell_of(row), row.region}];
    if (bug == LedgerBug::kSumsChanges) {
      received += row.count;
      row.count = received;
    } else {
      received = std::max(received, row.count);
    }
    if (bug == LedgerBug::kOwnAsForeign) row.count += sent_[cell_of(row)];
  }
}

void LedgerLink::plant_in_rows(std::vector<LedgerRow>& rows) {
  if (bug == LedgerBug::kNone) return;
  for (LedgerRow& row : rows) {
    const CellId cell = cell_of(row);
    sent_[cell] = std::max(sent_[cell], row.count);
    if (bug == LedgerBug::kIgnoresLeaseEnd) {
      const WallTime until = timeline_.now().wall + ledger_.rules().lease;
      const int64_t last = until.time_since_epoch() / row.key.duration;
      row.leased_until = std::min(row.leased_until, WallTime((last + 1) * row.key.duration));
    }
    if (bug == LedgerBug::kShortensLeases) row.leased_until -= row.key.duration;
    if (bug != LedgerBug::kAddsForeign) continue;
    for (const auto& [position, count] : received_) {
      if (position.cell == cell) row.count += count;
    }
  }
}

}  // namespace weir::sim

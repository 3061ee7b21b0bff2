#include "sim/stores/ledger_link.h"

#include <algorithm>

namespace weir::sim {

namespace {

constexpr Millis kForever{1'000'000};

Error failure(const char* detail) {
  return {.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = detail};
}

}  // namespace

template <typename Answer>
void LedgerLink::send(Call<Answer> call, Reply<Answer> reply) {
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
  for (int copy = 0; copy < copies; ++copy) {
    timeline_.post_in(delay(), [this, call, once, fails] {
      if (faults.connectivity != Connectivity::kUp) return note_disruption();
      if (fails) return send_reply<Answer>(once, failure("a deadlock"));
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
  auto reply_value = std::make_shared<Result<Answer>>(std::move(answer));
  timeline_.post_in(delay(), [this, once, reply_value] {
    if (abandoned_) return;
    if (const Reply<Answer> reply = std::exchange(*once, nullptr)) reply(std::move(*reply_value));
  });
}

bool LedgerLink::is_rejected(const LedgerNews& news) const {
  return !rejected_name.empty() &&
         std::any_of(news.rows.begin(), news.rows.end(),
                     [&](const LedgerRow& row) { return row.key.identifier == rejected_name; });
}

void LedgerLink::publish(LedgerNews news, PublishReply reply) {
  if (bug == LedgerBug::kFalseAcks && random_.one_in(3)) return reply(news.rows.size());
  apply_bug(news);
  if (is_rejected(news)) {
    ++counters.rejected;
    note_disruption();
    if (watcher != nullptr && news.rows.size() == 1) watcher->rejected(news);
    return send<size_t>(
        [](const PublishReply& done) {
          done(Error{.code = ErrorCode::kInvalidArgument,
                     .retry = Retry::kPointless,
                     .detail = "an invalid row"});
        },
        std::move(reply));
  }
  if (watcher != nullptr) watcher->sent(news);
  send<size_t>(
      [this, news = std::make_shared<const LedgerNews>(std::move(news))](const PublishReply& done) {
        if (!accepts(*news)) return done(failure("the ledger is read-only or full"));
        const Millis late(random_.between(0, faults.late_commit.count()));
        if (late > Millis(0)) note_disruption();
        ledger_.commit(user_, *news, late, done);
      },
      std::move(reply));
}

bool LedgerLink::accepts(const LedgerNews& news) const {
  if (!faults.read_only && !faults.full) return true;
  note_disruption();
  return !faults.read_only &&
         std::all_of(news.rows.begin(), news.rows.end(), [&](const LedgerRow& row) {
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

void LedgerLink::changes_since(LedgerCursor cursor, ChangesReply reply) {
  send<LedgerChanges>(
      [this, cursor](const ChangesReply& done) { read_from()->changes_since(cursor, done); },
      [this, cursor, reply = std::move(reply)](Result<LedgerChanges> changes) {
        if (changes && cursor.position != 0) {
          if (random_.permille(faults.cut_permille) && changes->news.rows.size() > 1) {
            ++counters.cut;
            note_disruption();
            changes.value().cut = true;
            changes.value().news.rows.resize(changes->news.rows.size() / 2);
          }
          deliver(changes.value().news);
        }
        reply(std::move(changes));
      });
}

void LedgerLink::read_page(LedgerPosition position, PageReply reply) {
  send<LedgerPage>(
      [this, position](const PageReply& done) { read_from()->read_page(position, done); },
      [this, reply = std::move(reply)](Result<LedgerPage> page) {
        if (page && bug != LedgerBug::kDropsChanges) deliver(page.value().news);
        reply(std::move(page));
      });
}

void LedgerLink::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  send<LedgerFleet>(
      [this, self, rules](const FleetReply& done) { store_->heartbeat(self, rules, done); },
      [this, self, reply = std::move(reply)](Result<LedgerFleet> fleet) {
        if (fleet && bug == LedgerBug::kIgnoresLeaseEnd) fleet.value().rules.lease = kForever;
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

// Delivers what a correct process would receive, changed by a planted bug.
void LedgerLink::deliver(LedgerNews& news) {
  if (watcher != nullptr) watcher->received(news);
  if (bug == LedgerBug::kNone) return;
  if (bug == LedgerBug::kDropsChanges) {
    news = {};
    return;
  }
  for (LedgerRow& row : news.rows) {
    const bool ours = row.region == user_.name;
    if (bug == LedgerBug::kOwnAsForeign && ours) row.region = "elsewhere";
    if (bug == LedgerBug::kHidesLimits) row.limit_seen = kMaxLimit;
    if (ours) continue;
    Count& received = received_[{cell_of(row), row.region}];
    if (bug == LedgerBug::kSumsChanges) {
      received += row.count;
      row.count = received;
    } else {
      received = std::max(received, row.count);
    }
  }
}

void LedgerLink::apply_bug(LedgerNews& news) const {
  if (bug == LedgerBug::kIgnoresLeaseEnd) {
    for (LedgerPresence& presence : news.presences) {
      presence.until -= kForever - ledger_.rules().lease;
    }
  }
  if (bug != LedgerBug::kAddsForeign) return;
  for (LedgerRow& row : news.rows) {
    const CellId cell = cell_of(row);
    for (const auto& [position, count] : received_) {
      if (position.cell == cell) row.count += count;
    }
  }
}

}  // namespace weir::sim

#include "sim/watched_ledger.h"

#include <algorithm>

#include "global/ledger_key.h"
#include "memory/tuple_key.h"

namespace weir::sim {

std::string tuple_of(const LedgerKey& key) {
  return memory::TupleKey(global::request_of(key), base::KeyedHash(0)).encoded();
}

CellId cell_of(const LedgerRow& row) {
  return {tuple_of(row.key), row.sequence};
}

void WatchedLedger::know(const std::string& region) {
  known_.push_back(region);
  store_.heartbeat({.region = region}, rules_, [](const auto&) {});
}

void WatchedLedger::commit(const LedgerUser& by, const LedgerNews& news, Millis stamped_before,
                           const PublishReply& reply) {
  bool ok = false;
  Instant stamp = clock_.now();
  stamp.wall -= stamped_before;
  clock_.fix(stamp);
  store_.publish(news, [&](const Result<size_t>& result) {
    ok = result.ok();
    if (!ok) reply(result.error());
  });
  clock_.fix(std::nullopt);
  if (!ok) return;
  look_for_marks(news);
  log_.push_back({.when = stamp, .at = world_.now().mono, .news = news});
  apply(log_.back(), log_.back().at);
  witness_({.by = by, .news = news});
  reply(news.rows.size());
}

void WatchedLedger::apply(const Commit& commit, MonoTime at) {
  for (const LedgerRow& row : commit.news.rows) {
    const RowPlace place{cell_of(row), row.region};
    now_[place] = std::max(now_[place], row.count);
    ever_[place] = std::max(ever_[place], row.count);
  }
  for (const LedgerPresence& presence : commit.news.presences) {
    Present& present = present_[{tuple_of(presence.key), presence.region}];
    if (presence.until > present.until) present = {.until = presence.until, .since = at};
  }
}

void WatchedLedger::look_for_marks(const LedgerNews& news) {
  const MonoTime now = world_.now().mono;
  for (const LedgerRow& row : news.rows) {
    const RowPlace place{cell_of(row), row.region};
    if (now_has(place) == row.count) ++marks_.repeated;
    const auto lost = lost_.find(place);
    if (lost != lost_.end() && row.count >= lost->second) {
      ++marks_.healed;
      lost_.erase(lost);
    }
  }
  for (const LedgerPresence& presence : news.presences) {
    const std::string tuple = tuple_of(presence.key);
    for (auto it = present_.lower_bound({tuple, {}}); it != present_.end(); ++it) {
      const auto& [who, present] = *it;
      if (who.first != tuple) break;
      if (who.second == presence.region) {
        if (presence.until - present.until > rules_.publish_every * 4) ++marks_.renewed;
      } else if (now - present.since <= rules_.publish_every) {
        ++marks_.crossed;
      }
    }
  }
}

std::shared_ptr<ledgers::MemoryLedger> WatchedLedger::as_it_was(MonoTime then) {
  if (!replica_ || (replicated_ > 0 && log_[replicated_ - 1].at > then)) {
    replica_ = std::make_shared<ledgers::MemoryLedger>(clock_);
    replicated_ = 0;
    replica_->set_rules(rules_);
    for (const std::string& region : known_) {
      replica_->heartbeat({.region = region}, rules_, [](const auto&) {});
    }
  }
  for (; replicated_ < log_.size() && log_[replicated_].at <= then; ++replicated_) {
    clock_.fix(log_[replicated_].when);
    replica_->publish(log_[replicated_].news, [](const auto&) {});
  }
  clock_.fix(std::nullopt);
  return replica_;
}

void WatchedLedger::fail_over(MonoTime as_of, Millis skew) {
  const auto had = std::exchange(now_, {});
  present_.clear();
  replica_.reset();
  std::erase_if(log_, [as_of](const Commit& commit) { return commit.at > as_of; });
  store_.clear();
  store_.set_rules(rules_);
  for (const std::string& region : known_) {
    store_.heartbeat({.region = region}, rules_, [](const auto&) {});
  }
  for (const Commit& commit : log_) {
    clock_.fix(commit.when);
    store_.publish(commit.news, [](const auto&) {});
    apply(commit, commit.at);
  }
  clock_.fix(std::nullopt);
  clock_.set_skew(skew);
  for (const auto& [place, count] : had) {
    if (now_has(place) >= count) continue;
    lost_[place] = count;
    ++marks_.lost;
  }
}

WallTime WatchedLedger::present_until(const std::string& tuple, const std::string& region) const {
  const auto found = present_.find({tuple, region});
  return found == present_.end() ? WallTime{} : found->second.until;
}

}  // namespace weir::sim

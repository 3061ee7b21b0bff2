#include "global/bridge_importer.h"

#include <algorithm>
#include <utility>

#include "algorithms/windows.h"
#include "base/mutation.h"
#include "base/split_mix.h"
#include "global/bridge_rule.h"
#include "global/ledger_key.h"
#include "global/shared_tuples.h"
#include "memory/tuple_key.h"

namespace weir::global {

using base::mutated;
using base::Mutation;

namespace {

constexpr Nanos kRenewEvery = BridgeImporter::kLease / 3;
constexpr Nanos kCheckEvery = std::chrono::hours(1);
// A store that evicts keys all the time must not have all rows read all the time.
constexpr Nanos kRenewPause = std::chrono::seconds(60);
// Of the id of a state; the rest counts.
constexpr int kIdRandomBits = 32;

}  // namespace

BridgeImporter::BridgeImporter(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                               std::shared_ptr<CompletionQueue> completions, Regions& regions,
                               Notify notify, uint64_t seed)
    : identity_(std::move(identity)),
      ledger_(std::move(ledger)),
      regions_(regions),
      notify_(std::move(notify)),
      random_(seed),
      round_task_(completions, &clock_),
      page_task_(completions, &clock_),
      renewal_(completions, &clock_) {}

uint64_t BridgeImporter::random() {
  return base::split_mix(random_) | 1;
}

// Greater than those that this process knows. So a state that comes back with an old snapshot is
// not taken for valid again: this process may have applied rows since, which the snapshot lacks.
// The low half differs between processes.
uint64_t BridgeImporter::next_id() {
  const uint64_t last = std::max(seen_id_, invalid_id_) >> kIdRandomBits;
  return (last + 1) << kIdRandomBits | random() >> kIdRandomBits;
}

void BridgeImporter::use(BridgeStore& store, StoreUse store_use, FeedPosition own) {
  store_ = &store;
  store_use_ = store_use;
  clock_.reset_store();
  round_task_.cancel();
  page_task_.cancel();
  renewal_.cancel();
  round_task_.next = page_task_.next = {};
  granted_until_ = {};
  round_ = {};
  full_read_.reset();
  wanted_.clear();
  completed_.clear();
  own_batches_.clear();
  own_ = own;
  restoration_.reset();
  own_is_unread_ = emptied_ = false;
  reads_former_rows_ = false;
  state_id_ = seen_id_ = invalid_id_ = 0;
  discards_next_ = false;
  renewed_at_ = {};
  loss_ = Loss::kNone;
  knows_records_ = false;
  failing_since_.reset();
  refused_at_.reset();
}

void BridgeImporter::run(Instant now, Nanos every, Flush flush) {
  every_ = every;
  now = clock_.time(now);
  if (round_task_.give_up_late_call(now.mono)) end_round(now, true);
  if (page_task_.give_up_late_call(now.mono)) full_read_.reset();  // a restoration begins again
  // A process that ends publishes what is left, unless another one is the bridge.
  const bool asks = flush == Flush::kAll && awaits_grant(now.mono) && !round_task_.in_flight();
  if (round_task_.is_due(now.mono) || asks) acquire(now);
  if (!is_bridge(now.mono)) return;
  renew_lease(now);
  if (restoration_ && !full_read_ && now.mono >= restoration_->at) {
    continue_restoration(now);
  } else {
    read_next_page(now);
  }
}

void BridgeImporter::release() {
  if (store_use_ == StoreUse::kPrivate || granted_until_ == MonoTime{}) return;
  store_->release(identity_.holder);
  granted_until_ = {};
}

void BridgeImporter::note_own_batch(FeedPosition before, FeedPosition batch) {
  // The ledger begins a new epoch if the feed does not reach to the batch that is known.
  if (loss_ == Loss::kRepaired) {
    loss_ = Loss::kNone;
  } else if (before.epoch != 0 && batch.epoch != before.epoch) {
    find_loss();
  }
  own_ = std::max(own_, batch);
}

void BridgeImporter::note_records(FeedPosition last, bool several_epochs) {
  knows_records_ = true;
  // The feed may have begun again since, without these rows.
  const bool ended = last.epoch != 0 && last.epoch < own_.epoch;
  own_ = std::max(own_, last);
  if (several_epochs || ended) find_loss();
}

// Our feed reaches to there. If the batch that was known is of an earlier epoch, it has ended: what
// was published in it may be lost. Whoever does not know the records compares when it reads them.
void BridgeImporter::note_own_position(FeedPosition at) {
  const bool ended = own_.epoch != 0 && own_.epoch < at.epoch;
  own_ = std::max(own_, at);
  if (ended && knows_records_) find_loss();
}

// If there was nothing to repeat, our feed shows the loss until the next batch.
void BridgeImporter::find_loss() {
  if (loss_ != Loss::kNone) return;
  loss_ = Loss::kFound;
  ++stats_.lost;
}

void BridgeImporter::note_own_rows(FeedPosition before, FeedPosition batch) {
  // Another process may have published between the two, and its rows may not be at the origin.
  const bool adjacent = batch.epoch == before.epoch && batch.number == before.number + 1;
  if (adjacent) own_batches_[before] = batch;
}

void BridgeImporter::read_all_again() {
  check_all_ = true;
}

void BridgeImporter::discard_positions() {
  regions_.complete = false;
  if (seen_id_ != 0) {
    invalid_id_ = seen_id_;
  } else {
    discards_next_ = true;
  }
}

void BridgeImporter::acquire(Instant now) {
  const bool was_bridge = is_bridge(now.mono);
  round_task_.next = now.mono + (was_bridge ? every_ : kCandidateEvery);
  renewal_.next = now.mono + kRenewEvery;
  round_ = {};
  round_.began = now.mono;
  store_->acquire(identity_.holder, kLease,
                  round_task_.call_origin<BridgeGrant>(
                      now.mono, [this](Instant when, const Result<BridgeGrant>& grant) {
                        if (!grant) return end_round(when, true);
                        note_grant(round_.began, when, *grant);
                        on_grant(clock_.time(when), *grant);
                      }));
}

// A round may take longer than the lease if the ledger is slow.
void BridgeImporter::renew_lease(Instant now) {
  if (now.mono < renewal_.next) return;
  renewal_.cancel();
  renewal_.next = now.mono + kRenewEvery;
  const MonoTime began = now.mono;
  store_->acquire(identity_.holder, kLease,
                  renewal_.call_origin<BridgeGrant>(
                      began, [this, began](Instant when, const Result<BridgeGrant>& grant) {
                        if (!grant) return;
                        note_grant(began, when, *grant);
                        if (has_seen(*grant)) return;
                        // The origin lost its data, and with them rows that the round applied.
                        round_task_.cancel();
                        end_round(when, true);
                      }));
}

void BridgeImporter::note_grant(MonoTime began, Instant now, const BridgeGrant& grant) {
  clock_.note_store(grant.now, began, now.mono);
  // Since the end of our lease another process may have been the bridge and have published, even if
  // it has the lease no more.
  if (!grant.ours || !is_bridge(now.mono)) {
    loss_ = Loss::kNone;
    knows_records_ = false;
  }
  granted_until_ = grant.ours ? began + kLease : MonoTime{};
}

// Whether the origin has the state that was read last.
bool BridgeImporter::has_seen(const BridgeGrant& grant) const {
  const auto saved = decode_state(grant.state);
  return (saved ? saved->id : 0) == seen_id_;
}

void BridgeImporter::on_grant(Instant now, const BridgeGrant& grant) {
  const auto saved = decode_state(grant.state);
  seen_id_ = saved ? saved->id : 0;
  if (std::exchange(discards_next_, false)) invalid_id_ = seen_id_;
  refused_at_.reset();
  if (!grant.ours) {
    refused_at_ = now.mono;
    restoration_.reset();
    failing_since_.reset();
    return;
  }
  // The heartbeat will tell.
  if (!clock_.is_settled(now)) return end_round(now, true);
  round_.before = grant.state;
  keep_or_renew(now, saved, grant.evicted);
  const auto own = round_.state.cursors.find(identity_.region);
  if (own != round_.state.cursors.end()) note_own_position(own->second);
  round_.completed = std::exchange(completed_, {});
  for (const auto& [region, completed] : round_.completed) {
    if (completed.state_id != round_.state.id) continue;
    FeedPosition& cursor = round_.state.cursors[region];
    // A check of a region whose feed is followed takes it nowhere.
    if (cursor.epoch < completed.at.epoch) cursor = completed.at;
    if (region == identity_.region) round_.state.emptied = false;
  }
  read_feeds(now);
}

// The saved state, or a new one if rows may be missing at the origin: then no position is valid.
void BridgeImporter::keep_or_renew(Instant now, const std::optional<BridgeState>& saved,
                                   uint64_t evicted) {
  const bool valid =
      saved && (invalid_id_ == 0 || saved->id >> kIdRandomBits > invalid_id_ >> kIdRandomBits);
  round_.complete = valid && saved->evicted == evicted;
  round_.follows_eviction = valid && !round_.complete;
  const bool paused = renewed_at_ != MonoTime{} && now.mono - renewed_at_ < kRenewPause;
  if (round_.complete || (valid && paused)) {
    round_.state = *saved;
  } else {
    round_.state = {.id = next_id(), .evicted = evicted, .cursors = {}};
    wanted_.clear();
    restoration_.reset();
    // A store that evicts keys may have evicted the state alone. And until our own rows were read,
    // the counts are still missing.
    round_.state.emptied = saved ? saved->emptied : evicted == 0;
  }
  if (!round_.complete) regions_.complete = false;
}

void BridgeImporter::read_feeds(Instant now) {
  if (!ledger_->reachable()) return end_round(now, true);
  std::vector<RegionFeed> after;
  for (const auto& [region, position] : round_.state.cursors) after.push_back({region, position});
  const MonoTime began = now.mono;
  round_.own = own_;
  ledger_->read_feeds(std::move(after),
                      round_task_.call<FeedChanges>(
                          now.mono, [this, began](Instant when, const Result<FeedChanges>& feeds) {
                            if (!feeds) return end_round(when, true);
                            round_.began = began;
                            on_feeds(when, *feeds);
                          }));
}

void BridgeImporter::on_feeds(Instant now, const FeedChanges& feeds) {
  round_.more = feeds.more;
  stats_.invalid += feeds.invalid;
  stats_.last_read = 0;
  for (const FeedBatch& batch : feeds.batches) stats_.last_read += batch.rows.size();
  stats_.read += stats_.last_read;
  for (const RegionFeed& head : feeds.heads) {
    if (head.region == identity_.region) check_own_feed(head.at);
    if (head.region == identity_.region) feed_is_missing_ = head.at.epoch == 0;
    follow(now, head, feeds);
  }
  plan_full_reads(now, feeds);
  record_own_rows(now);
}

// Rows of our own region come from the feed if the reply to their publisher was lost. From now on
// they count as published, so they need a record, too.
void BridgeImporter::record_own_rows(Instant now) {
  BridgeNotice record;
  for (const TupleChange& change : round_.changes.changes()) {
    TupleChange own{.tuple = change.tuple, .counts = {}};
    for (const RegionCount& count : change.counts) {
      if (count.region == identity_.region) own.counts.push_back(count);
    }
    if (!own.counts.empty()) record.changes.push_back(std::move(own));
  }
  if (record.changes.empty()) return apply_round(now);
  record.regions.own = own_;
  store_->keep_record(encode(record), round_task_.call_origin<bool>(
                                          now.mono, [this](Instant when, const auto& kept) {
                                            if (!kept) return end_round(when, true);
                                            apply_round(when);
                                          }));
}

void BridgeImporter::apply_round(Instant now) {
  apply(now, round_task_, round_.changes.changes(), [this](Instant when, bool applied) {
    if (!applied && !mutated(Mutation::kBridgeCursorEarly)) return end_round(when, true);
    finish_round(when);
  });
}

// A feed that ends before a batch that was published has lost it.
void BridgeImporter::check_own_feed(FeedPosition head) {
  const FeedPosition known = round_.own;
  const bool other_epoch = head.epoch != known.epoch && head.epoch != own_.epoch;
  if (known.epoch != 0 && (other_epoch || head < known)) find_loss();
}

// Takes what follows the position of one region. A region whose feed cannot be followed loses its
// position.
void BridgeImporter::follow(Instant now, const RegionFeed& head, const FeedChanges& feeds) {
  const auto cursor = round_.state.cursors.find(head.region);
  if (cursor == round_.state.cursors.end()) return;
  const bool own = head.region == identity_.region;
  FeedPosition& at = cursor->second;
  // It ends before our position: a replica that lagged behind was promoted.
  const bool other = head.at.epoch != at.epoch || head.at < at;
  if (own && loss_ == Loss::kFound) return;
  if (other || !take_batches(now, head, feeds, at)) {
    round_.state.cursors.erase(cursor);
    return;
  }
  if (own) note_own_position(at);
}

// False: a batch is missing, deleted or not readable.
bool BridgeImporter::take_batches(Instant now, const RegionFeed& head, const FeedChanges& feeds,
                                  FeedPosition& at) {
  for (const FeedBatch& batch : feeds.batches) {
    if (batch.region != head.region || batch.at.epoch != at.epoch || batch.at <= at) continue;
    if (batch.at.number != at.number + 1 && !mutated(Mutation::kFeedGapSkipped)) return false;
    add_rows(now, batch.rows, round_.changes);
    at = batch.at;
  }
  if (head.region == identity_.region) skip_own_batches(at);
  return feeds.more || at.number >= head.at.number;
}

// Our own batches are at the origin already.
void BridgeImporter::skip_own_batches(FeedPosition& at) {
  for (auto next = own_batches_.find(at); next != own_batches_.end();
       next = own_batches_.find(at)) {
    at = next->second;
    own_batches_.erase(next);
  }
  std::erase_if(own_batches_, [&](const auto& batch) { return batch.second <= at; });
}

// A region without a position must be read whole. Once in a while all are, as a check.
void BridgeImporter::plan_full_reads(Instant now, const FeedChanges& feeds) {
  if (checked_at_ == MonoTime{}) checked_at_ = now.mono;
  if (now.mono - checked_at_ >= kCheckEvery || std::exchange(check_all_, false)) {
    checked_at_ = now.mono;
    for (const RegionFeed& head : feeds.heads) wanted_[head.region] = head.at;
  }
  own_is_unread_ = round_.state.cursors.count(identity_.region) == 0;
  emptied_ = round_.state.emptied;
  for (const RegionFeed& head : feeds.heads) {
    if (round_.state.cursors.count(head.region) > 0) continue;
    const bool reads =
        full_read_ && full_read_->region == head.region && full_read_->state_id == round_.state.id;
    const bool own = head.region == identity_.region;
    const bool waits = own && restoration_;
    if (!reads && !waits) wanted_.try_emplace(head.region, head.at);
    if (own && own_ == FeedPosition{}) reads_former_rows_ = true;
    // What our own region published does not tell who else counts.
    if (head.region != identity_.region) round_.complete = false;
  }
  if (round_.more) round_.complete = false;
  if (!round_.complete) regions_.complete = false;
}

// All replies were good: the rows are at the origin. The processes are told before the state is
// saved, so that the next bridge tells them again if this one dies. But that the region is complete
// is known only when the save shows that this process was the bridge.
void BridgeImporter::finish_round(Instant now) {
  if (!is_bridge(now.mono)) return end_round(now, true);
  regions_.own = own_;
  stats_.imported_at = round_.began;
  notify_(now, round_.changes.take());
  save_round(now);
}

// Unless another state is there by now: the origin lost its data, and with them rows that the round
// applied, or another process was the bridge.
void BridgeImporter::save_round(Instant now) {
  store_->save(
      identity_.holder, round_.before, encode(round_.state),
      round_task_.call_origin<bool>(now.mono, [this](Instant when, const Result<bool>& saved) {
        if (!saved || !*saved) return end_round(when, true);
        regions_.complete = round_.complete;
        if (round_.state.id != seen_id_ && round_.follows_eviction) {
          renewed_at_ = when.mono;
        }
        state_id_ = seen_id_ = round_.state.id;
        end_round(when, false);
      }));
}

void BridgeImporter::end_round(Instant now, bool failed) {
  const bool more = round_.more;
  const MonoTime began = round_.began;
  if (failed) completed_.merge(round_.completed);
  round_ = {};
  if (!failed) {
    failing_since_.reset();
    if (more) round_task_.next = now.mono;
    return;
  }
  ++stats_.errors;
  round_task_.next = std::max(round_task_.next, now.mono + every_);
  if (now.mono - stats_.imported_at > kRetry) round_task_.next = now.mono + kRetry;
  if (!failing_since_) failing_since_ = began;
  const bool long_failing = now.mono - *failing_since_ >= kHandOverAfter;
  if (store_use_ == StoreUse::kPrivate || !long_failing || !is_bridge(now.mono)) return;
  release();
  failing_since_.reset();
  round_task_.next = now.mono + kLease;
}

}  // namespace weir::global

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

constexpr Nanos kRetry = Millis(500);
constexpr Nanos kCandidateEvery = Millis(300);  // while another process is the bridge
constexpr Nanos kPageEvery = Millis(20);
constexpr Nanos kCheckEvery = std::chrono::hours(1);
constexpr size_t kTuplesPerUpdate = 1000;
// A store that evicts keys all the time must not have all rows read all the time.
constexpr Nanos kRenewPause = std::chrono::seconds(60);

}  // namespace

BridgeImporter::BridgeImporter(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                               std::shared_ptr<CompletionQueue> completions, Regions& regions,
                               Notify notify, uint64_t seed)
    : identity_(std::move(identity)),
      ledger_(std::move(ledger)),
      regions_(regions),
      notify_(std::move(notify)),
      random_(seed),
      round_task_(completions),
      page_task_(completions),
      lease_task_(completions) {}

uint64_t BridgeImporter::random() {
  return base::split_mix(random_) | 1;
}

void BridgeImporter::use(BridgeStore& store, FeedPosition own) {
  store_ = &store;
  round_task_.cancel();
  page_task_.cancel();
  lease_task_.cancel();
  round_task_.next = page_task_.next = lease_task_.next = {};
  granted_until_ = {};
  round_ = {};
  full_read_.reset();
  wanted_.clear();
  completed_.clear();
  own_batches_.clear();
  own_ = own;
  state_id_ = 0;
  saved_state_.clear();
  renewed_at_ = {};
}

void BridgeImporter::run(Instant now, Nanos every) {
  every_ = every;
  if (round_task_.give_up_late_call(now.mono)) end_round(now, true);
  if (page_task_.give_up_late_call(now.mono)) full_read_.reset();
  (void)lease_task_.give_up_late_call(now.mono);
  if (round_task_.is_due(now.mono)) acquire(now);
  if (is_bridge(now.mono)) renew_lease(now);
  if (is_bridge(now.mono)) read_next_page(now);
}

void BridgeImporter::release() {
  if (granted_until_ != MonoTime{}) store_->release(identity_.holder);
  granted_until_ = {};
}

FeedPosition BridgeImporter::own_position() const {
  return own_;
}

void BridgeImporter::note_own_batch(FeedPosition before, FeedPosition batch) {
  own_ = std::max(own_, batch);
  // Another process may have written between the two: then the feed brings both.
  if (batch.epoch == before.epoch && batch.number == before.number + 1) {
    own_batches_[before] = batch;
  }
}

void BridgeImporter::read_all_again() {
  check_all_ = true;
}

void BridgeImporter::acquire(Instant now) {
  const bool was_bridge = is_bridge(now.mono);
  round_task_.next = now.mono + (was_bridge ? every_ : kCandidateEvery);
  round_ = {};
  round_.began = now.mono;
  store_->acquire(identity_.holder, kLease,
                  round_task_.call<BridgeGrant>(
                      now.mono, [this](Instant when, const Result<BridgeGrant>& grant) {
                        if (!grant) return end_round(when, true);
                        on_grant(when, *grant);
                      }));
}

// A slow ledger must not end the lease.
void BridgeImporter::renew_lease(Instant now) {
  const MonoTime granted = granted_until_ - kLease;
  if (!round_task_.in_flight() || now.mono - granted < kCandidateEvery) return;
  if (!lease_task_.is_due(now.mono)) return;
  lease_task_.next = now.mono + kCandidateEvery;
  store_->acquire(
      identity_.holder, kLease,
      lease_task_.call<BridgeGrant>(
          now.mono, [this, began = now.mono](Instant when, const Result<BridgeGrant>& grant) {
            if (!grant) return;
            if (grant->ours && grant->state == saved_state_) {
              granted_until_ = std::max(granted_until_, began + kLease);
              return;
            }
            // The origin lost its data, or another process was the bridge: the round is worthless.
            round_task_.cancel();
            end_round(when, true);
          }));
}

void BridgeImporter::on_grant(Instant now, const BridgeGrant& grant) {
  if (!grant.ours) {
    granted_until_ = {};
    return;
  }
  granted_until_ = round_.began + kLease;
  saved_state_ = grant.state;
  keep_or_renew(now, grant);
  const auto own = round_.state.cursors.find(identity_.region);
  if (own != round_.state.cursors.end()) own_ = std::max(own_, own->second);
  for (const auto& [region, completed] : std::exchange(completed_, {})) {
    if (completed.state_id != round_.state.id) continue;
    FeedPosition& cursor = round_.state.cursors[region];
    // A check of a region whose feed is followed takes it nowhere.
    if (cursor.epoch != completed.head.epoch) cursor = completed.head;
  }
  read_feeds(now);
}

// The saved state, or a new one if rows may be missing at the origin: then no position is valid.
void BridgeImporter::keep_or_renew(Instant now, const BridgeGrant& grant) {
  const auto saved = decode_state(grant.state);
  round_.complete = true;
  if (saved) {
    round_.state = *saved;
    if (saved->evicted == grant.evicted) return;
    round_.complete = false;
    if (renewed_at_ != MonoTime{} && now.mono - renewed_at_ < kRenewPause) return;
  }
  renewed_at_ = now.mono;
  round_.state = {.id = random(), .evicted = grant.evicted, .cursors = {}};
  wanted_.clear();
}

void BridgeImporter::read_feeds(Instant now) {
  if (!ledger_->reachable()) return end_round(now, true);
  std::vector<RegionFeed> after;
  for (const auto& [region, position] : round_.state.cursors) after.push_back({region, position});
  const MonoTime began = now.mono;
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
  for (const RegionFeed& head : feeds.heads) follow(now, head, feeds);
  plan_full_reads(now, feeds);
  apply(now, round_task_, round_.changes.changes(), [this](Instant when, bool applied) {
    if (!applied && !mutated(Mutation::kBridgeCursorEarly)) return end_round(when, true);
    finish_round(when);
  });
}

// Takes the batches of one region that follow its position without a gap.
void BridgeImporter::follow(Instant now, const RegionFeed& head, const FeedChanges& feeds) {
  const bool own = head.region == identity_.region;
  auto cursor = round_.state.cursors.find(head.region);
  if (cursor == round_.state.cursors.end()) return;
  FeedPosition& at = cursor->second;
  if (own && head.at < at) {
    // The ledger lost what we published: a replica that lagged behind was promoted.
    lost_ = true;
    ++stats_.lost;
    own_ = std::max(own_, at);
    round_.state.cursors.erase(cursor);
    return;
  }
  if (head.at.epoch != at.epoch) {
    round_.state.cursors.erase(cursor);
    return;
  }
  for (const FeedBatch& batch : feeds.batches) {
    if (batch.region != head.region || batch.at.epoch != at.epoch || batch.at <= at) continue;
    const bool skips = mutated(Mutation::kFeedGapSkipped);
    if (batch.at.number != at.number + 1 && !skips) break;
    add_rows(now, batch.rows, round_.changes);
    at = batch.at;
  }
  if (own) {
    // Our own batches are at the origin already.
    for (auto next = own_batches_.find(at); next != own_batches_.end();
         next = own_batches_.find(at)) {
      at = next->second;
      own_batches_.erase(next);
    }
    std::erase_if(own_batches_, [&](const auto& batch) { return batch.second <= at; });
    own_ = std::max(own_, at);
  }
  // A batch is missing: deleted, or not readable.
  const bool complete = feeds.more || at.number >= head.at.number;
  if (!complete) round_.state.cursors.erase(cursor);
}

// A region without a position must be read whole. Once in a while all are, as a check.
void BridgeImporter::plan_full_reads(Instant now, const FeedChanges& feeds) {
  if (now.mono - checked_at_ >= kCheckEvery || std::exchange(check_all_, false)) {
    const bool first = checked_at_ == MonoTime{};
    checked_at_ = now.mono;
    for (const RegionFeed& head : feeds.heads) {
      if (!first) wanted_[head.region] = head.at;
    }
  }
  for (const RegionFeed& head : feeds.heads) {
    if (round_.state.cursors.count(head.region) > 0) continue;
    const bool reads = full_read_ && full_read_->region == head.region &&
                       full_read_->state_id == round_.state.id;
    if (!reads) wanted_.emplace(head.region, head.at);
    // What our own region published does not tell who else counts.
    if (head.region != identity_.region) round_.complete = false;
  }
  if (round_.more) round_.complete = false;
  if (!round_.complete) regions_.complete = false;
}

void BridgeImporter::add_rows(Instant now, const std::vector<LedgerRow>& rows,
                              ChangeSet& changes) {
  for (const LedgerRow& row : rows) {
    if (!is_valid(row.key) || row.count > memory::kMaxCount) {
      ++stats_.invalid;
      continue;
    }
    // Rows of the past influence no decision. The window after the next has begun nowhere: the
    // clock of another region is wrong, or ours.
    const int64_t current = algorithms::position_of(now.wall, row.key.duration).sequence;
    if (row.kept_until() <= now.wall) continue;
    if (row.sequence > current + 1) {
      ++stats_.invalid;
      continue;
    }
    const memory::TupleKey key(request_of(row.key), base::KeyedHash(0));
    changes.add(key.encoded(), {.region = row.region,
                                .sequence = row.sequence,
                                .count = row.count,
                                .limit_seen = row.limit_seen,
                                .leased_until = row.leased_until});
  }
}

void BridgeImporter::apply(Instant now, PeriodicTask& task, std::vector<TupleChange> changes,
                           std::function<void(Instant, bool)> done) {
  if (changes.empty()) return done(now, true);
  auto rest = std::make_shared<std::vector<TupleChange>>();
  auto updates = std::make_shared<std::vector<TupleUpdate>>();
  for (TupleChange& change : changes) {
    if (updates->size() == kTuplesPerUpdate) {
      rest->push_back(std::move(change));
      continue;
    }
    const Millis duration = memory::header_of(change.tuple).duration();
    WallTime kept{};
    for (const RegionCount& count : change.counts) {
      kept = std::max({kept, count.leased_until, WallTime((count.sequence + 2) * duration)});
    }
    updates->push_back({.tuple = std::move(change.tuple),
                        .counts = std::move(change.counts),
                        .kept_until = kept,
                        .sequences = windows_at(now.wall, duration)});
  }
  store_->update_tuples(
      *updates, task.call<std::vector<TupleCounts>>(
                    now.mono, [this, &task, rest, updates, done = std::move(done)](
                                  Instant when, const Result<std::vector<TupleCounts>>& tuples) {
                      if (!tuples || tuples->size() != updates->size()) return done(when, false);
                      for (const TupleCounts& each : *tuples) stats_.dropped += each.dropped ? 1 : 0;
                      evaluate(when, *updates, *tuples);
                      apply(when, task, std::move(*rest), done);
                    }));
}

// Whether a process holds the tuple or not: its counts may be of one that was evicted or that died.
void BridgeImporter::evaluate(Instant now, const std::vector<TupleUpdate>& updates,
                              const std::vector<TupleCounts>& tuples) {
  if (mutated(Mutation::kUnheldNotEvaluated)) return;
  std::vector<DueTuple> due;
  for (size_t i = 0; i < updates.size(); ++i) {
    const OriginTuple tuple(updates[i].tuple, tuples[i], identity_.region, now.wall, regions_);
    if (tuple.has_reason()) {
      due.push_back({.tuple = updates[i].tuple, .kind = Due::kRule, .at = now.wall});
    } else if (tuple.is_contended()) {
      due.push_back({.tuple = updates[i].tuple,
                     .kind = Due::kWindowEnd,
                     .at = end_of_window(tuple.current(), tuple.duration())});
    }
  }
  if (!due.empty()) store_->add_due(std::move(due));
}

// All replies were good: the rows are at the origin.
void BridgeImporter::finish_round(Instant now) {
  regions_.complete = round_.complete;
  regions_.own = own_;
  stats_.imported_at = round_.began;
  notify_(now, round_.changes.take());
  std::string state = encode(round_.state);
  if (state == saved_state_) {
    state_id_ = round_.state.id;
    return end_round(now, false);
  }
  store_->save(identity_.holder, state,
               round_task_.call<bool>(
                   now.mono, [this, state](Instant when, const Result<bool>& saved) {
                     const bool failed = !saved || !*saved;
                     if (!failed) {
                       state_id_ = round_.state.id;
                       saved_state_ = state;
                     }
                     end_round(when, failed);
                   }));
}

void BridgeImporter::end_round(Instant now, bool failed) {
  const bool more = round_.more;
  round_ = {};
  if (failed) {
    ++stats_.errors;
    round_task_.next = std::max(round_task_.next, now.mono + every_);
    if (now.mono - stats_.imported_at > kRetry) round_task_.next = now.mono + kRetry;
    return;
  }
  if (more) round_task_.next = now.mono;
}

void BridgeImporter::read_next_page(Instant now) {
  if (!page_task_.is_due(now.mono) || !ledger_->reachable()) return;
  if (!full_read_) {
    if (wanted_.empty() || state_id_ == 0) return;
    const auto first = wanted_.begin();
    full_read_ = {.region = first->first,
                  .head = first->second,
                  .state_id = state_id_,
                  .next = {},
                  .began = now.mono};
    wanted_.erase(first);
  }
  page_task_.next = now.mono + kPageEvery;
  ledger_->read_page(full_read_->region, full_read_->next,
                     page_task_.call<LedgerPage>(
                         now.mono, [this](Instant when, const Result<LedgerPage>& page) {
                           if (page) return on_page(when, *page);
                           ++stats_.errors;
                           full_read_.reset();
                           page_task_.next = when.mono + kRetry;
                         }));
}

void BridgeImporter::on_page(Instant now, LedgerPage page) {
  stats_.invalid += page.invalid;
  stats_.read += page.rows.size();
  ChangeSet changes;
  add_rows(now, page.rows, changes);
  apply(now, page_task_, changes.changes(),
        [this, notice = changes.changes(), next = page.next, last = page.last](Instant when,
                                                                               bool applied) {
          if (!full_read_) return;
          if (!applied) {
            ++stats_.errors;
            full_read_.reset();
            page_task_.next = when.mono + kRetry;
            return;
          }
          notify_(when, notice);
          full_read_->next = next;
          if (!last) return;
          completed_[full_read_->region] = {full_read_->head, full_read_->state_id};
          ++stats_.full_reads;
          stats_.full_read_took = when.mono - full_read_->began;
          stats_.full_read_ended = when.mono;
          full_read_.reset();
        });
}

}  // namespace weir::global

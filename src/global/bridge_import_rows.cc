// How the importer applies rows to the origin, and reads all rows of a region.

#include <algorithm>
#include <utility>

#include "algorithms/windows.h"
#include "base/mutation.h"
#include "global/bridge_importer.h"
#include "global/bridge_rule.h"
#include "global/ledger_key.h"
#include "global/shared_tuples.h"
#include "memory/tuple_key.h"

namespace weir::global {

using base::mutated;
using base::Mutation;

namespace {

constexpr Nanos kPageEvery = Millis(20);
constexpr size_t kTuplesPerUpdate = 1000;

}  // namespace

void BridgeImporter::add_rows(Instant now, const std::vector<LedgerRow>& rows, ChangeSet& changes) {
  for (const LedgerRow& row : rows) {
    if (!is_valid(row.key) || row.count > memory::kMaxCount) {
      ++stats_.invalid;
      continue;
    }
    // Rows of the past influence no decision.
    if (row.kept_until() <= now.wall) continue;
    RegionCount count{.region = row.region, .leased_until = row.leased_until};
    const int64_t current = algorithms::position_of(now.wall, row.key.duration).sequence;
    if (row.sequence <= current + 1) {
      count.sequence = row.sequence;
      count.count = row.count;
      count.limit_seen = row.limit_seen;
    } else {
      // The window after the next has begun nowhere: the clock of another region was wrong. Its
      // count says nothing, but its lease is valid. The proof of the bound needs that a region
      // which publishes nothing because it has a lease is present for all others. That region
      // relies on the lease of each row that it wrote, so all others must know the lease of each
      // row. It could not disregard a lease that is too long instead: nothing is ever lowered, so
      // hours later the lease would seem right, and the others would have dropped it.
      ++stats_.invalid;
      if (row.region == identity_.region || row.leased_until == WallTime{}) continue;
    }
    const memory::TupleKey key(request_of(row.key), base::KeyedHash(0));
    changes.add(key.encoded(), std::move(count));
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
      kept = std::max(kept, kept_until(count, duration));
    }
    updates->push_back({.tuple = std::move(change.tuple),
                        .counts = std::move(change.counts),
                        .kept_until = kept,
                        .now = now.wall,
                        .sequences = windows_at(now.wall, duration)});
  }
  store_->update_tuples(
      *updates, task.call_origin<std::vector<TupleCounts>>(
                    now.mono, [this, &task, rest, updates, done = std::move(done)](
                                  Instant when, const Result<std::vector<TupleCounts>>& tuples) {
                      if (!tuples || tuples->size() != updates->size()) return done(when, false);
                      note_no_room(*updates, *tuples);
                      if (&task == &page_task_) note_lost_counts(when, *updates, *tuples);
                      evaluate(when, *updates, *tuples);
                      apply(when, task, std::move(*rest), done);
                    }));
}

void BridgeImporter::note_no_room(const std::vector<TupleUpdate>& updates,
                                  const std::vector<TupleCounts>& tuples) {
  for (size_t i = 0; i < updates.size(); ++i) {
    if (!tuples[i].dropped) continue;
    ++stats_.no_room;
    stats_.no_room_until = std::max(stats_.no_room_until, updates[i].kept_until);
  }
}

// Counts of our own rows that the origin does not have, because it lost everything.
//
// Another origin may have less than our rows, too: after an eviction its processes replay a cell
// when they use it, however late, and a process that cannot reach it publishes for itself. A store
// of our own has one process, which knows its own rows.
void BridgeImporter::note_lost_counts(Instant now, const std::vector<TupleUpdate>& updates,
                                      const std::vector<TupleCounts>& tuples) {
  if (!full_read_ || full_read_->region != identity_.region || !own_is_unread_) return;
  if (store_use_ == StoreUse::kPrivate || !emptied_) return;
  for (size_t i = 0; i < updates.size(); ++i) {
    const OriginTuple tuple(updates[i].tuple, tuples[i], identity_.region, now.wall, regions_);
    std::vector<CellFloor> floors;
    for (const TupleCounts::Window& window : tuples[i].windows) {
      const Count published = tuple.published(window.sequence);
      if (published <= window.total) continue;
      floors.push_back({.sequence = window.sequence,
                        .total = published,
                        .expires_at = WallTime((window.sequence + 2) * tuple.duration())});
    }
    if (floors.empty()) continue;
    full_read_->lost.push_back({.tuple = updates[i].tuple,
                                .counts = {},
                                .kept_until = {},
                                .sequences = updates[i].sequences,
                                .floors = std::move(floors)});
  }
}

// Whether a process holds the tuple or not: its counts may be of one that was evicted or that died.
void BridgeImporter::evaluate(Instant now, const std::vector<TupleUpdate>& updates,
                              const std::vector<TupleCounts>& tuples) {
  if (mutated(Mutation::kUnheldNotEvaluated)) return;
  std::vector<DueTuple> due;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (tuples[i].dropped) continue;
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

void BridgeImporter::read_next_page(Instant now) {
  if (!page_task_.is_due(now.mono) || !ledger_->reachable()) return;
  if (!full_read_) {
    if (wanted_.empty() || state_id_ == 0) return;
    const auto first = wanted_.begin();
    full_read_ = {.region = first->first,
                  .wanted = first->second,
                  .state_id = state_id_,
                  .next = {},
                  .began = now.mono};
    wanted_.erase(first);
  }
  page_task_.next = now.mono + kPageEvery;
  ledger_->read_page(
      full_read_->region, full_read_->next,
      page_task_.call<LedgerPage>(now.mono, [this](Instant when, const Result<LedgerPage>& page) {
        if (page) return on_page(when, *page);
        ++stats_.errors;
        full_read_.reset();
        page_task_.next = when.mono + kRetry;
      }));
}

void BridgeImporter::on_page(Instant now, LedgerPage page) {
  stats_.invalid += page.invalid;
  stats_.read += page.rows.size();
  if (reads_former_rows_ && full_read_->region == identity_.region) {
    for (const LedgerRow& row : page.rows) {
      stats_.former_rows_until = std::max(stats_.former_rows_until, row.expires_at());
    }
  }
  // The replica of one page may be behind that of another.
  std::optional<FeedPosition>& complete_to = full_read_->complete_to;
  complete_to = std::min(complete_to.value_or(page.head), page.head);
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
          end_full_read(when);
        });
}

void BridgeImporter::end_full_read(Instant now) {
  FullRead read = *std::exchange(full_read_, std::nullopt);
  ++stats_.full_reads;
  stats_.full_read_took = now.mono - read.began;
  stats_.full_read_ended = now.mono;
  const Completed completed{read.complete_to.value_or(FeedPosition{}), read.state_id};
  if (read.region == identity_.region) {
    // The feed brings the rows that a lagging replica did not have, but only a full read finds out
    // what is lost, and what a former process has written. The next one is complete up to the head
    // that was wanted: the present one may move on faster than the replica.
    const bool needs_all = reads_former_rows_ || (own_is_unread_ && emptied_);
    if (needs_all && completed.at < read.wanted) {
      wanted_.try_emplace(read.region, read.wanted);
      page_task_.next = now.mono + kRetry;
      return;
    }
    reads_former_rows_ = false;
    if (!read.lost.empty()) {
      note_own_position(completed.at);
      restoration_ = {.read = completed,
                      .at = now.mono + kReplayTime,
                      .survivors = {},
                      .updates = std::move(read.lost)};
      return;
    }
  }
  completed_[read.region] = completed;
}

// Repeating a part changes nothing.
void BridgeImporter::continue_restoration(Instant now) {
  if (!page_task_.is_due(now.mono)) return;
  if (!restoration_->survivors) return read_survivors(now);
  Restoration& restored = *restoration_;
  std::vector<TupleUpdate> part;
  for (size_t i = restored.done; i < restored.updates.size() && part.size() < kTuplesPerUpdate;
       ++i) {
    part.push_back(restored.updates[i]);
    // An expired cell stays as it is.
    std::erase_if(part.back().floors,
                  [&](const CellFloor& floor) { return floor.expires_at <= now.wall; });
    for (CellFloor& floor : part.back().floors) floor.writers = *restored.survivors;
  }
  page_task_.next = now.mono + kPageEvery;
  store_->update_tuples(
      part,
      page_task_.call<std::vector<TupleCounts>>(
          now.mono, [this, part](Instant when, const Result<std::vector<TupleCounts>>& tuples) {
            if (!restoration_) return;
            if (!tuples || tuples->size() != part.size()) {
              ++stats_.errors;
              page_task_.next = when.mono + kRetry;
              return;
            }
            evaluate(when, part, *tuples);
            restoration_->done += part.size();
            if (restoration_->done < restoration_->updates.size()) return;
            completed_[identity_.region] = restoration_->read;
            restoration_.reset();
          }));
}

// An origin that was empty has counts from before only of processes that replay them. All other
// components are new.
void BridgeImporter::read_survivors(Instant now) {
  store_->read_records(page_task_.call<std::vector<std::string>>(
      now.mono, [this](Instant when, const Result<std::vector<std::string>>& records) {
        if (!restoration_) return;
        if (!records) {
          ++stats_.errors;
          page_task_.next = when.mono + kRetry;
          return;
        }
        restoration_->survivors.emplace();
        for (const std::string& record : *records) {
          const auto survivor = decode_survivor(record);
          if (survivor) restoration_->survivors->push_back(survivor->incarnation);
        }
      }));
}

}  // namespace weir::global

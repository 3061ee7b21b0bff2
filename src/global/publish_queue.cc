#include "global/publish_queue.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "global/ledger_key.h"

namespace weir::global {

using Stage = PendingPublish::Stage;

void PublishQueue::enqueue(Instant now, RemoteEntry& entry, RemoteCell& cell,
                           PublishReason reason) {
  // A stronger reason than a presence does not wait for the presence.
  const bool stronger = cell.pending.stage == Stage::kNoted && reason != PublishReason::kPresence;
  if (cell.pending.reason == PublishReason::kNone || stronger) {
    const bool first = regions_.rules.policy == PublishPolicy::kFloor || publishes_first(entry);
    cell.pending = {.reason = reason,
                    .since = now.mono,
                    .stage = first ? Stage::kReady : Stage::kWaiting,
                    .noted = cell.noted};
  }
  cell.pending.reason = reason;
  add(entry);
}

void PublishQueue::add(RemoteEntry& entry) {
  if (entry.queued) return;
  entry.queued = true;
  queue_.push_back(&entry);
}

// Each tuple has its own order of the region's processes, the same for all of them.
bool PublishQueue::publishes_first(const RemoteEntry& entry) const {
  if (region_.origin == nullptr) return true;
  const uint32_t nodes = std::max(1U, region_.origin->live_nodes());
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : entry.tuple) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3ULL;
  }
  return (hash ^ hash >> 32) % nodes == region_.origin->rank() % nodes;
}

// How long the first process takes to publish and note it: one round, and the way to the ledger and
// back. If the ledger is very slow, writing a row twice does less harm than waiting.
Nanos PublishQueue::head_start() const {
  constexpr Nanos kMaxLatency = Millis(1000);
  const Nanos round = regions_.rules.publish_every;
  return round + round / 5 + std::max(round, std::min(latency_, kMaxLatency));
}

// The other processes wait that long, then ask the origin for the first one's note; without a note
// they publish. A presence is confirmed by the import from the ledger itself.
bool PublishQueue::is_ready(Instant now, const RemoteEntry& entry, RemoteCell& cell, Flush flush,
                            std::vector<CellRead>& reads) const {
  PendingPublish& pending = cell.pending;
  if (flush == Flush::kAll || pending.stage == Stage::kReady) return true;
  if (!accepts_writes(region_.origin->reach())) return true;
  const Nanos round = regions_.rules.publish_every;
  switch (pending.stage) {
    case Stage::kReady: return true;
    case Stage::kWaiting:
      if (now.mono - pending.since >= head_start()) {
        pending.stage = Stage::kAsking;
        reads.push_back({.cell = {entry.tuple, cell.sequence}, .reader = {}});
      }
      return false;
    case Stage::kAsking:
      return now.mono - pending.since >= head_start() + 2 * round + region_.read_deadline;
    case Stage::kAsked: break;
    case Stage::kNoted:
      return now.mono - pending.since >= 2 * (head_start() + Nanos(regions_.rules.import_every));
  }
  return true;
}

void PublishQueue::read_notes(std::vector<CellRead> cells) {
  if (cells.empty()) return;
  std::vector<CellId> ids;
  for (const CellRead& cell : cells) ids.push_back(cell.cell);
  region_.origin->read(
      std::move(cells), [this, weak = std::weak_ptr(completions_), ids](auto totals) {
        const auto completions = weak.lock();
        if (!completions) return;
        completions->post(
            [this, ids, totals = std::make_shared<decltype(totals)>(std::move(totals))](Instant) {
              for (size_t i = 0; i < ids.size(); ++i) {
                const bool answered = totals->ok() && i < totals->value().size();
                merge_note(ids[i], answered ? totals->value()[i].published : 0);
              }
            });
      });
}

void PublishQueue::merge_note(const CellId& id, Count published) {
  const std::lock_guard lock(remote_.mutex());
  RemoteEntry* entry = remote_.find({id.tuple, tuples_.hash});
  RemoteCell* const found = entry == nullptr ? nullptr : entry->find(id.sequence);
  if (found == nullptr) return;
  RemoteCell& cell = *found;
  cell.noted = std::max(cell.noted, published);
  if (cell.pending.stage != Stage::kAsking) return;
  cell.pending.stage = Stage::kAsked;
  // Only a note that rose since the cell was enqueued is of a new publication.
  if (cell.noted <= cell.pending.noted) return;
  cell.raise_published(cell.noted);
  if (cell.pending.reason == PublishReason::kPresence) cell.pending.stage = Stage::kNoted;
}

std::vector<PublishQueue::Candidate> PublishQueue::choose(Instant now, Flush flush) {
  std::vector<Candidate> chosen;
  std::map<std::string, std::vector<Candidate>> presences;
  std::vector<CellRead> reads;
  {
    const std::lock_guard lock(remote_.mutex());
    for (RemoteEntry* entry : queue_) {
      entry->each_cell([&](RemoteCell& cell) {
        // An expired cell influences no decision.
        if (entry->end_of(cell) <= now.wall) cell.pending = {};
        if (cell.pending.reason == PublishReason::kNone || cell.sent > 0) return;
        if (!is_ready(now, *entry, cell, flush, reads)) return;
        const Candidate candidate{.entry = entry, .cell = &cell};
        if (cell.pending.reason == PublishReason::kPresence) {
          presences[ledger_key_of(entry->tuple).ns].push_back(candidate);
        } else {
          chosen.push_back(candidate);
        }
      });
    }
    for (const auto& [name, waiting] : presences) {
      budget_.note_waiting(now.mono, name, waiting.size());
    }
    for (size_t round = 0; !presences.empty(); ++round) {
      for (auto it = presences.begin(); it != presences.end();) {
        if (round < it->second.size()) chosen.push_back(it->second[round]);
        it = round + 1 < it->second.size() ? std::next(it) : presences.erase(it);
      }
    }
  }
  read_notes(std::move(reads));
  return chosen;
}

void PublishQueue::remove_idle() {
  std::erase_if(queue_, [](RemoteEntry* entry) {
    entry->queued = entry->has_pending();
    return !entry->queued;
  });
}

RemoteEntry& PublishQueue::drop_last() {
  RemoteEntry& entry = *queue_.back();
  queue_.pop_back();
  entry.queued = false;
  entry.each_cell([](RemoteCell& cell) { cell.pending = {}; });
  return entry;
}

MonoTime PublishQueue::waiting_since(MonoTime now) const {
  MonoTime first = now;
  for (const RemoteEntry* entry : queue_) {
    entry->each_cell([&](const RemoteCell& cell) {
      if (cell.pending.reason != PublishReason::kNone) first = std::min(first, cell.pending.since);
    });
  }
  return first;
}

}  // namespace weir::global

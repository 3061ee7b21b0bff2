#include "limiter/publish_queue.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace weir::limiter {

void PublishQueue::enqueue(Instant now, RemoteEntry& entry, RemoteCell& cell, Publish rule) {
  // What is more than a presence does not wait for one.
  const bool more = cell.pending.turn == PendingPublish::Turn::kAcked && rule != Publish::kPresence;
  if (cell.pending.rule == Publish::kNothing || more) {
    const bool first = regions_.rules.policy == PublishPolicy::kFloor || goes_first(entry);
    cell.pending = {.rule = rule,
                    .since = now.mono,
                    .turn = first ? PendingPublish::Turn::kOurs : PendingPublish::Turn::kSiblings,
                    .word = cell.word};
  }
  cell.pending.rule = rule;
  add(entry);
}

void PublishQueue::add(RemoteEntry& entry) {
  if (entry.queued) return;
  entry.queued = true;
  queue_.push_back(&entry);
}

// Each tuple has another order of the processes of a region, the same for all of them.
bool PublishQueue::goes_first(const RemoteEntry& entry) const {
  if (store_->origin == nullptr) return true;
  const uint32_t nodes = std::max(1U, store_->origin->live_nodes());
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : entry.tuple) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3ULL;
  }
  return (hash ^ hash >> 32) % nodes == store_->origin->rank() % nodes;
}

// How long it takes the one who goes first to leave word: a round, and to the ledger and back.
// Where that is very slow, a row that is written twice does less harm than one that waits.
Nanos PublishQueue::head_start() const {
  constexpr Nanos kMost = Millis(1000);
  const Nanos round = regions_.rules.publish_every;
  return round + round / 5 + std::max(round, std::min(took_, kMost));
}

// Those who do not go first wait that long, then ask the origin whether the first left word that
// it wrote; if not, they do. Of a presence they hear from the ledger itself.
bool PublishQueue::is_turn(Instant now, const RemoteEntry& entry, RemoteCell& cell, Flush flush,
                           std::vector<CellRead>& asks) const {
  PendingPublish& pending = cell.pending;
  if (flush == Flush::kAll || pending.turn == PendingPublish::Turn::kOurs) return true;
  if (!accepts_writes(store_->origin->reach())) return true;
  const Nanos round = regions_.rules.publish_every;
  switch (pending.turn) {
    case PendingPublish::Turn::kOurs: return true;
    case PendingPublish::Turn::kSiblings:
      if (now.mono - pending.since >= head_start()) {
        pending.turn = PendingPublish::Turn::kAsking;
        asks.push_back({.cell = {entry.tuple, cell.sequence}, .reader = {}});
      }
      return false;
    case PendingPublish::Turn::kAsking:
      return now.mono - pending.since >= head_start() + 2 * round + store_->read_deadline;
    case PendingPublish::Turn::kAsked: break;
    case PendingPublish::Turn::kAcked:
      return now.mono - pending.since >= 2 * (head_start() + Nanos(regions_.rules.import_every));
  }
  return true;
}

void PublishQueue::ask_siblings(std::vector<CellRead> cells) {
  if (cells.empty()) return;
  std::vector<CellId> asked;
  for (const CellRead& cell : cells) asked.push_back(cell.cell);
  store_->origin->read(
      std::move(cells), [this, box = std::weak_ptr(completions_), asked](auto totals) {
        const auto completions = box.lock();
        if (!completions) return;
        completions->put(
            [this, asked, totals = std::make_shared<decltype(totals)>(std::move(totals))](Instant) {
              for (size_t i = 0; i < asked.size(); ++i) {
                const bool answered = totals->ok() && i < totals->value().size();
                hear_word(asked[i], answered ? totals->value()[i].published : 0);
              }
            });
      });
}

void PublishQueue::hear_word(const CellId& id, Count published) {
  const base::MutexLock lock(store_->remote.mutex());
  RemoteEntry* entry = store_->remote.find({id.tuple, store_->hash});
  RemoteCell* const found = entry == nullptr ? nullptr : entry->find(id.sequence);
  if (found == nullptr) return;
  RemoteCell& cell = *found;
  cell.word = std::max(cell.word, published);
  if (cell.pending.turn != PendingPublish::Turn::kAsking) return;
  cell.pending.turn = PendingPublish::Turn::kAsked;
  // Word that has moved since is news of what a sibling wrote.
  if (cell.word <= cell.pending.word) return;
  cell.hear_published(cell.word);
  if (cell.pending.rule == Publish::kPresence) cell.pending.turn = PendingPublish::Turn::kAcked;
}

std::vector<PublishQueue::Candidate> PublishQueue::choose(Instant now, Flush flush) {
  std::vector<Candidate> chosen;
  std::map<std::string, std::vector<Candidate>> presences;
  std::vector<CellRead> asks;
  {
    const base::MutexLock lock(store_->remote.mutex());
    for (RemoteEntry* entry : queue_) {
      entry->each_cell([&](RemoteCell& cell) {
        // What is over matters to nobody any more.
        if (entry->end_of(cell) <= now.wall) cell.pending = {};
        if (cell.pending.rule == Publish::kNothing || cell.sent > 0) return;
        if (!is_turn(now, *entry, cell, flush, asks)) return;
        const Candidate candidate{.entry = entry, .cell = &cell};
        if (cell.pending.rule == Publish::kPresence) {
          presences[ledger_key_of(entry->tuple).ns].push_back(candidate);
        } else {
          chosen.push_back(candidate);
        }
      });
    }
    for (const auto& [name, waiting] : presences) {
      budget_.note_waiting(now.mono, name, waiting.size());
    }
    for (size_t turn = 0; !presences.empty(); ++turn) {
      for (auto it = presences.begin(); it != presences.end();) {
        if (turn < it->second.size()) chosen.push_back(it->second[turn]);
        it = turn + 1 < it->second.size() ? std::next(it) : presences.erase(it);
      }
    }
  }
  ask_siblings(std::move(asks));
  return chosen;
}

void PublishQueue::tidy() {
  std::erase_if(queue_, [](RemoteEntry* entry) {
    entry->queued = entry->owes();
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
      if (cell.pending.rule != Publish::kNothing) first = std::min(first, cell.pending.since);
    });
  }
  return first;
}

}  // namespace weir::limiter

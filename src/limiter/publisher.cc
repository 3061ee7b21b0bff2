#include "limiter/publisher.h"

#include <algorithm>
#include <utility>

#include "memory/lifecycle.h"
#include "memory/noted.h"
#include "memory/tentative.h"

namespace weir::limiter {

using memory::mutated;
using memory::Mutation;
using memory::Tuple;
using memory::WindowCells;

// Two windows of one tuple, as our region counted them.
struct Publisher::Counted {
  int64_t sequence = 0;  // the current one
  Count current = 0;
  Count last = 0;
};

struct Publisher::Holdings {
  Holding current, last;
};

// Nothing: batches kept changing it.
std::optional<Publisher::Counted> Publisher::counted_of(const Tuple& tuple, WallTime now) {
  const WindowCells cells(tuple);
  const int64_t at = algorithms::position_of(now, tuple.slot->header.duration()).sequence;
  Counted counted{.sequence = std::max(at, cells.newest())};
  for (const int64_t back : {0, 1}) {
    const int64_t sequence = counted.sequence - back;
    const auto own = memory::settled(cells.own(sequence), cells.tentative());
    if (!own) return std::nullopt;
    const bool all = mutated(Mutation::kForeignPublished);
    const memory::Word& siblings = all ? cells.others(sequence) : cells.siblings(sequence);
    (back == 0 ? counted.current : counted.last) =
        own->count_of(sequence) + memory::count_in(siblings, sequence);
  }
  return counted;
}

namespace {

Count smaller(Count a, Count b) {
  if (mutated(Mutation::kLargerLimitInRule)) return std::max(a, b);
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

// The smallest limit asked in this window.
Count asked_of(const Tuple& tuple) {
  const memory::Noted noted{tuple.cold->noted.load(std::memory_order_relaxed)};
  return smaller(WindowCells(tuple).mark().limit(), noted.limit());
}

}  // namespace

// A cell that the rule wants written.
struct Publisher::Candidate {
  BookEntry* entry = nullptr;
  BookCell* cell = nullptr;
};

struct Publisher::Sent {
  BookEntry* entry = nullptr;
  int64_t sequence = 0;
  Count count = 0;
  Count limit = 0;
  Publish rule = Publish::kNothing;
  MonoTime since{};
  bool refused = false;  // what it tells was reason to refuse
};

struct Publisher::Chunk {
  Instant began{};
  std::vector<Sent> rows;
  bool over = false;  // failed, or given up
};

void Publisher::look_at_listed(Instant now) {
  walk(now);
  for (const uint32_t index : store_->looks.take_all()) {
    const platform::Pin pin;
    if (const Tuple tuple = store_->table.at(index)) look_at(now, tuple);
  }
}

void Publisher::walk(Instant now) {
  constexpr size_t kSlotsAtATime = 16'384;
  for (size_t i = 0; i < kSlotsAtATime && walk_ < store_->table.slots(); ++i, ++walk_) {
    const platform::Pin pin;
    if (const Tuple tuple = store_->table.at(static_cast<uint32_t>(walk_))) look_at(now, tuple);
  }
}

void Publisher::look_at_due(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now.mono) {
    BookEntry& entry = *timers_.begin()->second;
    forget_timer(entry);
    look_at(now, entry);
  }
}

void Publisher::look_again_at(BookEntry& entry, MonoTime when) {
  // The same end of a window, reckoned at another time, is a little earlier or later.
  constexpr Millis kAsGood{5};
  if (entry.timer && (*entry.timer)->first <= when + kAsGood) return;
  forget_timer(entry);
  entry.timer = timers_.emplace(when, &entry);
}

void Publisher::forget_timer(BookEntry& entry) {
  if (entry.timer) timers_.erase(*entry.timer);
  entry.timer.reset();
}

void Publisher::look_at(Instant now, BookEntry& entry) {
  const memory::TupleKey key(entry.tuple, store_->hash);
  const int64_t sequence = algorithms::position_of(now.wall, entry.duration()).sequence;
  {
    const platform::Pin pin;
    if (const Tuple tuple = store_->table.find(key)) {
      // A window whose news came before it began here has begun.
      const Abroad known = store_->book.abroad(key, sequence);
      take_in(known.last, tuple, sequence - 1);
      take_in(known.current, tuple, sequence);
      if (!mutated(Mutation::kRuleOnRequestsOnly)) look_at(now, tuple);
      return;
    }
  }
  expire(now, entry);
}

// Holds both windows of a tuple against the rule; the caller is pinned.
void Publisher::look_at(Instant now, const Tuple& tuple) {
  if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
  const WindowCells cells(tuple);
  const bool refused = cells.take_refused();
  const auto counted = counted_of(tuple, now.wall);
  if (!counted) {
    if (refused) cells.mark_refused();
    store_->looks.push(tuple.index);
    return;
  }
  const SharingRules& rules = regions_.rules;
  const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), store_->hash);

  const std::lock_guard lock(store_->book.mutex());
  BookEntry* entry = store_->book.find(key);
  const Holdings both = holdings_of(now, tuple, *counted, entry, refused);
  const Publish rule = rule_of(both.current, rules);
  const Publish last_rule = rule_of(both.last, rules);
  if (entry == nullptr && (rule != Publish::kNothing || last_rule != Publish::kNothing)) {
    entry = &store_->book.obtain(key);
  }
  Count watch = kNeverPublish;
  if (rule == Publish::kNothing) {
    watch = publish_at(both.current, rules);
    const BookCell* known = entry == nullptr ? nullptr : entry->find(counted->sequence);
    // What is watched is what the window has of whomever.
    if (known != nullptr) watch = base::saturating_add(watch, known->foreign_sum());
  }
  if (cells.newest() < counted->sequence) {
    // Until something is charged in this window, what comes late is charged in the one before it.
    cells.watch_count(0);
  } else {
    cells.watch_count(watch);
    // An admission may have gone by what was watched before.
    if (cells.counted(counted->sequence) >= watch) store_->looks.push(tuple.index);
  }
  if (entry == nullptr) return;

  note(now, *entry, counted->sequence, asked_of(tuple), both.current, rule);
  note(now, *entry, counted->sequence - 1, asked_of(tuple), both.last, last_rule);
  // What time alone changes.
  const Nanos to_next = Nanos(WallTime((counted->sequence + 1) * entry->duration()) - now.wall);
  look_again_at(*entry, now.mono + std::max<Nanos>(to_next, Millis(1)));
  const bool leased = both.current.leased && !mutated(Mutation::kLeaseEndNotWatched);
  if (leased) look_again_at(*entry, entry->leased_until);
}

// Both windows of a tuple as the rule sees them; the caller is pinned and holds the book's mutex.
Publisher::Holdings Publisher::holdings_of(Instant now, const Tuple& tuple, const Counted& counted,
                                           const BookEntry* entry, bool refused) const {
  const BookCell* known = entry == nullptr ? nullptr : entry->find(counted.sequence);
  const BookCell* known_last = entry == nullptr ? nullptr : entry->find(counted.sequence - 1);
  Count limit = asked_of(tuple);
  for (const BookCell* cell : {known, known_last}) {
    if (cell != nullptr) limit = smaller(limit, smaller(cell->limit, cell->limit_abroad));
  }
  const auto regions_in = [&](int64_t sequence) {
    const uint32_t here = entry == nullptr ? 1 : entry->regions(sequence, now.wall);
    // Who was just started and has not heard of all cannot know that it is alone.
    return regions_.all_heard ? here : std::max(here, 2U);
  };
  std::string name_space;
  if (budget_.most_doubled() > 0) {
    const std::string encoded = memory::encode_key(tuple.slot->header, tuple.slot->key_words());
    name_space = ledger_key_of(encoded).name_space;
  }
  Holdings both;
  both.current = {
      .counted = counted.current,
      .published = known == nullptr ? 0 : known->told(),
      .limit = limit,
      .remaining = memory::remaining_of(tuple, now.wall, limit),
      .hidden = hidden_of(limit, regions_.rules, regions_.count, budget_.doubled(name_space)),
      .regions = regions_in(counted.sequence),
      .leased = entry != nullptr && now.mono < entry->leased_until,
      .refused = refused || (known != nullptr && known->refused),
      .refused_before = known != nullptr && known->told_full};
  both.last = {.counted = counted.last,
               .published = known_last == nullptr ? 0 : known_last->told(),
               .limit = limit,
               .hidden = both.current.hidden,
               .regions = regions_in(counted.sequence - 1),
               .leased = true,
               .over = true};
  return both;
}

void Publisher::inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const {
  store_->table.for_each([&](const Tuple& tuple) {
    if (tuple.slot->header.cell_class() != memory::CellClass::kWindow) return;
    const auto counted = counted_of(tuple, now.wall);
    if (!counted) return;
    const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), store_->hash);
    const std::lock_guard lock(store_->book.mutex());
    const BookEntry* entry = store_->book.find(key);
    const Holdings both =
        holdings_of(now, tuple, *counted, entry, WindowCells(tuple).mark().refused());
    const auto show = [&](int64_t sequence, const Holding& holding) {
      const BookCell* cell = entry == nullptr ? nullptr : entry->find(sequence);
      SharedCell shared{.tuple = key.encoded(),
                        .sequence = sequence,
                        .holding = holding,
                        .rule = rule_of(holding, regions_.rules)};
      if (cell != nullptr) {
        shared.published = cell->published;
        shared.foreign = cell->foreign_sum();
        shared.waits = cell->owed.rule != Publish::kNothing || cell->sent > 0;
      }
      visit(shared);
    };
    show(counted->sequence, both.current);
    show(counted->sequence - 1, both.last);
  });
}

// What was found of one window.
void Publisher::note(Instant now, BookEntry& entry, int64_t sequence, Count asked,
                     const Holding& holding, Publish rule) {
  if (holding.over && entry.find(sequence) == nullptr && rule == Publish::kNothing) return;
  BookCell& cell = entry.cell(sequence);
  if (cell.sequence != sequence) return;
  cell.counted = holding.counted;
  cell.limit = smaller(cell.limit, asked);
  // What is on its way may fail to arrive.
  cell.refused = holding.refused && (rule != Publish::kNothing || cell.sent > 0);
  if (rule == Publish::kNothing) {
    cell.owed = {};
  } else {
    owe(now, entry, cell, rule);
  }
}

// An entry whose tuple is not here: what it was for is over, or comes again with a request.
void Publisher::expire(Instant now, BookEntry& entry) {
  const std::lock_guard lock(store_->book.mutex());
  if (entry.owes()) enqueue(entry);
  if (entry.queued || entry.under_way > 0) return;
  WallTime over{};
  entry.each_cell([&](const BookCell& cell) { over = std::max(over, entry.end_of(cell)); });
  for (const auto& [region, until] : entry.present) over = std::max(over, until);
  MonoTime when = now.mono + Nanos(over - now.wall);
  when = std::max(when, entry.leased_until);
  if (when <= now.mono) {
    forget_timer(entry);
    store_->book.erase(entry);
  } else {
    look_again_at(entry, when);
  }
}

void Publisher::owe(Instant now, BookEntry& entry, BookCell& cell, Publish rule) {
  // What is more than a presence does not wait for one.
  const bool more = cell.owed.turn == Owed::Turn::kTold && rule != Publish::kPresence;
  if (cell.owed.rule == Publish::kNothing || more) {
    const bool first = regions_.rules.policy == PublishPolicy::kFloor || goes_first(entry);
    cell.owed = {.rule = rule,
                 .since = now.mono,
                 .turn = first ? Owed::Turn::kOurs : Owed::Turn::kSiblings,
                 .word = cell.word};
  }
  cell.owed.rule = rule;
  enqueue(entry);
}

void Publisher::enqueue(BookEntry& entry) {
  if (entry.queued) return;
  entry.queued = true;
  queue_.push_back(&entry);
}

// Each tuple has another order of the processes of a region, the same for all of them.
bool Publisher::goes_first(const BookEntry& entry) const {
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
Nanos Publisher::head_start() const {
  constexpr Nanos kMost = Millis(1000);
  const Nanos round = regions_.rules.publish_every;
  return round + round / 5 + std::max(round, std::min(took_, kMost));
}

// Those who do not go first wait that long, then ask the origin whether the first left word that
// it wrote; if not, they do. Of a presence they hear from the ledger itself.
bool Publisher::is_turn(Instant now, const BookEntry& entry, BookCell& cell, Tell tell,
                        std::vector<CellRead>& asks) const {
  Owed& owed = cell.owed;
  if (tell == Tell::kAll || owed.turn == Owed::Turn::kOurs) return true;
  if (store_->origin->reach() == Reach::kNone) return true;
  const Nanos round = regions_.rules.publish_every;
  switch (owed.turn) {
    case Owed::Turn::kOurs: return true;
    case Owed::Turn::kSiblings:
      if (now.mono - owed.since >= head_start()) {
        owed.turn = Owed::Turn::kAsking;
        asks.push_back({.cell = {entry.tuple, cell.sequence}, .reader = {}});
      }
      return false;
    case Owed::Turn::kAsking:
      return now.mono - owed.since >= head_start() + 2 * round + store_->read_deadline;
    case Owed::Turn::kAsked: break;
    case Owed::Turn::kTold:
      return now.mono - owed.since >= 2 * (head_start() + Nanos(regions_.rules.import_every));
  }
  return true;
}

void Publisher::ask_siblings(std::vector<CellRead> cells) {
  if (cells.empty()) return;
  std::vector<CellId> asked;
  for (const CellRead& cell : cells) asked.push_back(cell.cell);
  store_->origin->read(std::move(cells), [this, box = std::weak_ptr(inbox_), asked](auto totals) {
    const auto inbox = box.lock();
    if (!inbox) return;
    inbox->put(
        [this, asked, totals = std::make_shared<decltype(totals)>(std::move(totals))](Instant) {
          for (size_t i = 0; i < asked.size(); ++i) {
            const bool answered = totals->ok() && i < totals->value().size();
            hear_word(asked[i], answered ? totals->value()[i].published : 0);
          }
        });
  });
}

void Publisher::hear_word(const CellId& id, Count published) {
  const std::lock_guard lock(store_->book.mutex());
  BookEntry* entry = store_->book.find({id.tuple, store_->hash});
  if (entry == nullptr || entry->find(id.sequence) == nullptr) return;
  BookCell& cell = entry->cell(id.sequence);
  cell.word = std::max(cell.word, published);
  if (cell.owed.turn != Owed::Turn::kAsking) return;
  cell.owed.turn = Owed::Turn::kAsked;
  // Word that has moved since is news of what a sibling wrote.
  if (cell.word <= cell.owed.word) return;
  cell.hear_published(cell.word);
  if (cell.owed.rule == Publish::kPresence) cell.owed.turn = Owed::Turn::kTold;
}

// Of what waits, in the order in which rows are given out: first what others count on or what is
// full, then presences, one of each namespace in turn.
std::vector<Publisher::Candidate> Publisher::choose(Instant now, Tell tell) {
  std::vector<Candidate> chosen;
  std::map<std::string, std::vector<Candidate>> presences;
  std::vector<CellRead> asks;
  {
    const std::lock_guard lock(store_->book.mutex());
    for (BookEntry* entry : queue_) {
      entry->each_cell([&](BookCell& cell) {
        // What is over matters to nobody any more.
        if (entry->end_of(cell) <= now.wall) cell.owed = {};
        if (cell.owed.rule == Publish::kNothing || cell.sent > 0) return;
        if (!is_turn(now, *entry, cell, tell, asks)) return;
        const Candidate candidate{.entry = entry, .cell = &cell};
        if (cell.owed.rule == Publish::kPresence) {
          presences[ledger_key_of(entry->tuple).name_space].push_back(candidate);
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

void Publisher::publish(Instant now, Tell tell) {
  for (const auto& chunk : chunks_) {
    if (now.mono - chunk->began.mono >= kDeadline && !chunk->over) fail(now, *chunk, false);
  }
  std::erase_if(chunks_, [](const auto& chunk) { return chunk->over; });
  // Where less may be hidden again, what was little enough may be so no more.
  if (budget_.relent(now.mono)) look_at_all();
  drop_beyond(now, kMostQueued);
  if (!store_->ledger->reachable()) return;

  budget_.refill(now.mono, rows_per_second());
  std::vector<std::shared_ptr<Chunk>> chunks;
  for (const Candidate& candidate : choose(now, tell)) {
    if (in_flight_ >= kMostInFlight) break;
    // It may have changed while it waited; at the end that does not matter.
    if (tell == Tell::kDue) look_at(now, *candidate.entry);
    const std::lock_guard lock(store_->book.mutex());
    const BookCell& cell = *candidate.cell;
    if (cell.owed.rule == Publish::kNothing || cell.sent > 0) continue;
    if (tell == Tell::kDue && !budget_.take()) break;
    if (chunks.empty() || chunks.back()->rows.size() == kChunkRows) {
      chunks.push_back(std::make_shared<Chunk>());
    }
    take(candidate, *chunks.back());
  }
  std::erase_if(queue_, [](BookEntry* entry) {
    entry->queued = entry->owes();
    return !entry->queued;
  });
  for (const auto& chunk : chunks) send(now, chunk);
}

void Publisher::take(const Candidate& candidate, Chunk& chunk) {
  BookCell& cell = *candidate.cell;
  if (mutated(Mutation::kPublishedBeforeCommit)) cell.published = cell.counted;
  if (mutated(Mutation::kVerdictPublished) && cell.refused) cell.counted = cell.limit;
  chunk.rows.push_back({.entry = candidate.entry,
                        .sequence = cell.sequence,
                        .count = cell.counted,
                        .limit = cell.limit == 0 ? static_cast<Count>(kMaxLimit) : cell.limit,
                        .rule = cell.owed.rule,
                        .since = cell.owed.since,
                        .refused = std::exchange(cell.refused, false)});
  cell.sent = cell.counted;
  cell.owed = {};
  ++candidate.entry->under_way;
  ++in_flight_;
}

// A flood of tuples that are full, say, or a ledger that is away: those that came last are left
// out for a while.
void Publisher::drop_beyond(Instant now, size_t most) {
  constexpr Millis kLater{1000};
  while (queue_.size() > most) {
    BookEntry& entry = *queue_.back();
    queue_.pop_back();
    entry.queued = false;
    entry.each_cell([](BookCell& cell) { cell.owed = {}; });
    look_again_at(entry, now.mono + kLater);
    ++stats_.left_out;
    left_out_at_ = now.mono;
  }
}

double Publisher::rows_per_second() const {
  const uint32_t nodes = store_->origin ? std::max(1U, store_->origin->live_nodes()) : 1;
  return static_cast<double>(regions_.rules.rows_per_second) / nodes;
}

void Publisher::send(Instant now, const std::shared_ptr<Chunk>& chunk) {
  chunk->began = now;
  chunks_.push_back(chunk);
  LedgerNews news;
  for (const Sent& sent : chunk->rows) {
    const LedgerKey key = ledger_key_of(sent.entry->tuple);
    news.rows.push_back({.key = key,
                         .sequence = sent.sequence,
                         .region = store_->book.region(),
                         .count = sent.count,
                         .limit_seen = sent.limit});
    if (sent.rule != Publish::kPresence) continue;
    news.presences.push_back(
        {.key = key, .region = store_->book.region(), .until = now.wall + regions_.rules.lease});
  }
  store_->ledger->publish(
      std::move(news), [this, box = std::weak_ptr(inbox_), chunk](const Result<size_t>& result) {
        const auto inbox = box.lock();
        if (!inbox) return;
        const bool pointless = !result && result.error().retry == Retry::kPointless;
        inbox->put([this, chunk, ok = result.ok(), pointless](Instant when) {
          if (ok) {
            commit(when, *chunk);
          } else if (!chunk->over) {
            fail(when, *chunk, pointless);
          }
        });
      });
}

// An answer that comes after it was given up is as if it were lost: sending again is free.
void Publisher::commit(Instant now, Chunk& chunk) {
  if (std::exchange(chunk.over, true)) return;
  took_ = std::max<Nanos>(now.mono - chunk.began.mono, took_ - took_ / 8);
  std::vector<CellPublished> words;
  for (const Sent& sent : chunk.rows) {
    BookEntry& entry = *sent.entry;
    {
      const std::lock_guard lock(store_->book.mutex());
      land(sent);
      if (entry.find(sent.sequence) != nullptr) {
        BookCell& cell = entry.cell(sent.sequence);
        cell.published = std::max(cell.published, sent.count);
        cell.published_at = chunk.began.mono;
        cell.told_full = cell.told_full || sent.refused;
      }
      if (sent.rule == Publish::kPresence) hold_lease(entry, chunk.began);
      ++stats_.rows[static_cast<size_t>(sent.rule)];
      words.push_back({.cell = {entry.tuple, sent.sequence},
                       .total = sent.count,
                       .expires_at = WallTime((sent.sequence + 2) * entry.duration())});
    }
    look_at(now, entry);
  }
  if (store_->origin) store_->origin->note_published(std::move(words));
}

void Publisher::hold_lease(BookEntry& entry, Instant began) const {
  const MonoTime end = lease_end(began, began.wall + regions_.rules.lease);
  entry.leased_at = began.mono;
  entry.leased_until = std::max(entry.leased_until, end);
}

void Publisher::land(const Sent& sent) {
  --sent.entry->under_way;
  --in_flight_;
  if (sent.entry->find(sent.sequence) != nullptr) sent.entry->cell(sent.sequence).sent = 0;
}

void Publisher::fail(Instant now, Chunk& chunk, bool pointless) {
  chunk.over = true;
  ++stats_.errors;
  const bool is_bad = pointless && chunk.rows.size() == 1;
  if (pointless && !is_bad) {
    // One of them is to blame: it is found by halves, and the others are not held up by it.
    const auto middle = chunk.rows.begin() + static_cast<std::ptrdiff_t>(chunk.rows.size() / 2);
    auto first = std::make_shared<Chunk>();
    auto second = std::make_shared<Chunk>();
    first->rows.assign(chunk.rows.begin(), middle);
    second->rows.assign(middle, chunk.rows.end());
    send(now, first);
    send(now, second);
    return;
  }
  for (const Sent& sent : chunk.rows) {
    const std::string tuple = sent.entry->tuple;  // the entry may be forgotten below
    {
      const std::lock_guard lock(store_->book.mutex());
      land(sent);
      if (is_bad) ++stats_.dropped;
      // As if it were written, lest it be sent again and again.
      if (is_bad && sent.rule == Publish::kPresence) hold_lease(*sent.entry, chunk.began);
      if (sent.entry->find(sent.sequence) != nullptr) {
        BookCell& cell = sent.entry->cell(sent.sequence);
        cell.refused = cell.refused || sent.refused;
        if (is_bad) cell.published = std::max(cell.published, sent.count);
      }
    }
    look_at(now, *sent.entry);
    const std::lock_guard lock(store_->book.mutex());
    BookEntry* const entry = store_->book.find({tuple, store_->hash});
    if (is_bad || entry == nullptr || entry->find(sent.sequence) == nullptr) continue;
    // It has been waiting since it was first owed.
    Owed& owed = entry->cell(sent.sequence).owed;
    owed.since = std::min(owed.since, sent.since);
  }
}

void Publisher::owe_all(Instant now) {
  std::vector<std::string> tuples;
  {
    const std::lock_guard lock(store_->book.mutex());
    store_->book.for_each([&](const BookEntry& entry) { tuples.push_back(entry.tuple); });
  }
  for (const std::string& tuple : tuples) {
    const auto find = [&] {
      const std::lock_guard lock(store_->book.mutex());
      return store_->book.find({tuple, store_->hash});
    };
    if (BookEntry* const entry = find()) look_at(now, *entry);
    BookEntry* const entry = find();
    if (entry == nullptr) continue;
    const std::lock_guard lock(store_->book.mutex());
    entry->each_cell([&](BookCell& cell) {
      if (cell.counted > cell.told()) owe(now, *entry, cell, Publish::kExhaustion);
    });
  }
}

Nanos Publisher::lag(MonoTime now) const {
  MonoTime first = now;
  for (const BookEntry* entry : queue_) {
    entry->each_cell([&](const BookCell& cell) {
      if (cell.owed.rule != Publish::kNothing) first = std::min(first, cell.owed.since);
    });
  }
  for (const auto& chunk : chunks_) {
    if (chunk->over) continue;
    for (const Sent& sent : chunk->rows) first = std::min(first, sent.since);
  }
  return now - first;
}

}  // namespace weir::limiter

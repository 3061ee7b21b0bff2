#include "memory/saved_state.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "memory/backlog_cell.h"
#include "memory/lifecycle.h"
#include "memory/log_cell.h"
#include "memory/ring_cell.h"

namespace weir::memory {
namespace {

// The layout of `words` for each class.
enum BacklogWord : size_t { kNewest, kTat, kLimit, kEpoch, kDuration, kBacklogWords };
// Followed by the starts of sub-cells.
enum RingWord : size_t { kNewestCell, kHead, kFirstBase, kRingWords = kFirstBase + kRingBases };
// Followed by runs of units with one stamp, oldest first: a stamp in Unix ms and a number of units.
enum LogWord : size_t { kUnits, kFirstRun };

// Larger than any valid time, and small enough that no sum overflows.
constexpr uint64_t kMostMillis = uint64_t{1} << 43;

uint64_t millis(WallTime time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}
WallTime time_of(uint64_t word) {
  return WallTime(Millis(static_cast<int64_t>(word)));
}

void save_backlog(const Tuple& tuple, uint64_t tat, std::vector<uint64_t>& words) {
  const BacklogCell cell(tuple);
  words = {millis(cell.newest()), tat, tuple.slot->hot[3].load(std::memory_order_relaxed),
           millis(cell.epoch()), static_cast<uint64_t>(cell.duration().count())};
}

void save_ring(const Tuple& tuple, uint64_t head, std::vector<uint64_t>& words) {
  words = {0, head};
  for (const Word& base : tuple.slot->buffer<RingBuffer>()->base) {
    words.push_back(base.load(std::memory_order_seq_cst));
  }
  // Read last: a thread raises it before it overwrites a start.
  words[kNewestCell] = tuple.slot->hot[0].load(std::memory_order_seq_cst);
}

void save_log(const Tuple& tuple, LogHead head, std::vector<uint64_t>& words) {
  const uint64_t mask = tuple.slot->hot[4].load(std::memory_order_relaxed);
  const Word* const stamps = tuple.slot->buffer<Word>();
  const WallTime left = head.stamp() - tuple.slot->header.duration();
  std::vector<std::pair<WallTime, uint64_t>> runs;  // newest first
  for (uint64_t back = 1; back <= mask + 1; ++back) {
    const uint64_t unit = (head.unit() - back) & LogHead::kUnitMask;
    const LogHead entry{stamps[unit & mask].load(std::memory_order_acquire)};
    // A stamp that is not written yet is not newer than the head.
    const WallTime stamp = entry.unit() == unit ? entry.stamp() : head.stamp();
    if (stamp <= left) break;
    if (runs.empty() || runs.back().first != stamp) runs.emplace_back(stamp, 0);
    ++runs.back().second;
  }
  words = {mask + 1};
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    words.push_back(millis(run->first));
    words.push_back(run->second);
  }
}

algorithms::Backlog backlog_in(const SavedState& state) {
  return {.epoch = time_of(state.words[kEpoch]), .tat = {state.words[kTat]}};
}

std::optional<Query> query_for_backlog(const SavedState& state, WallTime now) {
  const auto& words = state.words;
  if (words.size() != kBacklogWords || words[kLimit] < 1 || words[kLimit] > kMaxLimit ||
      words[kDuration] < 1 || words[kDuration] > kMostMillis || words[kEpoch] > kMostMillis ||
      words[kNewest] > kMostMillis || words[kTat] >> 63 != 0) {
    return std::nullopt;
  }
  const Millis duration(static_cast<int64_t>(words[kDuration]));
  if (!algorithms::representable(algorithms::pace_of(words[kLimit], duration), words[kLimit],
                                 words[kLimit])) {
    return std::nullopt;
  }
  return Query{.now = now,
               .algorithm = Algorithm::kGcra,
               .duration = duration,
               .limit = words[kLimit],
               .ask = {.capacity = words[kLimit], .cost = 0}};
}

bool is_log(const std::vector<uint64_t>& words) {
  if (words.size() < kFirstRun || words.size() % 2 != 1) return false;
  const uint64_t units = words[kUnits];
  if (!std::has_single_bit(units) || units > log_buffer_units(kMaxLogLimit)) return false;
  uint64_t sum = 0;
  uint64_t before = 0;
  for (size_t i = kFirstRun; i < words.size(); i += 2) {
    if (words[i] < before || words[i] > kMostMillis || words[i + 1] > units) return false;
    before = words[i];
    sum += words[i + 1];
  }
  return sum <= units;
}

KeyHeader header_in(const SavedState& state) {
  return header_of(state.key);
}

bool is_key(const std::string& encoded) {
  if (encoded.size() < sizeof(KeyHeader::word)) return false;
  const KeyHeader header = header_of(encoded);
  return std::max({header.workspace_bytes(), header.namespace_bytes(),
                   header.identifier_bytes()}) <= kMaxNameBytes &&
         encoded.size() == sizeof header.word + header.words() * sizeof(uint64_t);
}

}  // namespace

std::optional<SavedState> save_state(const Tuple& tuple, WallTime now, Saving saving) {
  const CellClass kind = tuple.slot->header.cell_class();
  if (kind == CellClass::kWindow) return std::nullopt;
  // Every charge changes this word. The last saved value is in the field where window tuples store
  // their acknowledged count.
  const uint64_t word = tuple.slot->hot[1].load(std::memory_order_seq_cst);
  if (word == kFrozen) return std::nullopt;
  const uint64_t head = word & ~kClosedBit;
  Word& saved = tuple.cold->acked[0];
  if (saving == Saving::kChanged && saved.load(std::memory_order_relaxed) == head) {
    return std::nullopt;
  }
  if (expires_at(tuple, {.words = {head, 0}}) <= now) return std::nullopt;
  SavedState state{.key = encode_key(tuple.slot->header, tuple.slot->key_words()), .words = {}};
  switch (kind) {
    case CellClass::kBacklog: save_backlog(tuple, head, state.words); break;
    case CellClass::kRing: save_ring(tuple, head, state.words); break;
    case CellClass::kLog: save_log(tuple, LogHead{head}, state.words); break;
    case CellClass::kWindow: break;
  }
  saved.store(head, std::memory_order_relaxed);
  return state;
}

std::optional<Query> query_for(const SavedState& state, WallTime now) {
  if (!is_key(state.key)) return std::nullopt;
  const KeyHeader header = header_in(state);
  switch (header.cell_class()) {
    case CellClass::kBacklog: return query_for_backlog(state, now);
    case CellClass::kRing: {
      if (state.words.size() != kRingWords || header.duration() < kMinDuration) break;
      return Query{.now = now,
                   .algorithm = Algorithm::kSlidingWindowStrict,
                   .duration = header.duration(),
                   .limit = 1,
                   .ask = {.capacity = 1, .cost = 0}};
    }
    case CellClass::kLog: {
      if (!is_log(state.words) || header.duration() < kMinDuration) break;
      const Count capacity = state.words[kUnits] - 1;
      return Query{.now = now,
                   .algorithm = Algorithm::kSlidingLog,
                   .duration = header.duration(),
                   .limit = capacity,
                   .ask = {.capacity = capacity, .cost = 0}};
    }
    case CellClass::kWindow: break;
  }
  return std::nullopt;
}

void restore_state(const Tuple& tuple, const SavedState& state) {
  const auto put = [](Word& word, uint64_t value) { word.store(value, std::memory_order_relaxed); };
  auto& hot = tuple.slot->hot;
  const auto& words = state.words;
  switch (tuple.slot->header.cell_class()) {
    case CellClass::kBacklog:
      put(hot[0], words[kNewest]);
      put(hot[1], words[kTat]);
      put(hot[6], words[kEpoch]);
      break;
    case CellClass::kRing: {
      put(hot[0], words[kNewestCell]);
      put(hot[1], words[kHead]);
      auto& bases = tuple.slot->buffer<RingBuffer>()->base;
      for (size_t i = 0; i < bases.size(); ++i) put(bases[i], words[kFirstBase + i]);
      break;
    }
    case CellClass::kLog: {
      Word* const stamps = tuple.slot->buffer<Word>();
      uint64_t unit = 0;
      for (size_t i = kFirstRun; i < words.size(); i += 2) {
        for (uint64_t n = 0; n < words[i + 1]; ++n, ++unit) {
          put(stamps[unit & (words[kUnits] - 1)], LogHead::make(time_of(words[i]), unit).word);
        }
      }
      if (unit > 0) put(hot[1], LogHead::make(time_of(words[words.size() - 2]), unit).word);
      break;
    }
    case CellClass::kWindow: break;
  }
}

Count units_in(const SavedState& state, WallTime now) {
  const auto query = query_for(state, now);
  if (!query) return 0;
  const auto& words = state.words;
  switch (header_in(state).cell_class()) {
    case CellClass::kBacklog: {
      const algorithms::Pace pace = algorithms::pace_of(query->limit, query->duration);
      const algorithms::Backlog backlog = backlog_in(state);
      return algorithms::reaches(backlog.epoch, now, pace)
                 ? algorithms::backlog_at(now, backlog, pace)
                 : query->limit;
    }
    case CellClass::kRing: {
      // The sum of all sub-cells in the buffer: at least the units in the window.
      const Tagged head{words[kHead]};
      Count most = 0;
      for (size_t i = kFirstBase; i < words.size(); ++i) {
        const Tagged base{words[i]};
        if (base.word != 0) most = std::max(most, base::saturating_sub(head.count(), base.count()));
      }
      return most;
    }
    case CellClass::kLog: {
      Count sum = 0;
      for (size_t i = kFirstRun; i < words.size(); i += 2) {
        if (time_of(words[i]) > now - query->duration) sum += words[i + 1];
      }
      return sum;
    }
    case CellClass::kWindow: break;
  }
  return 0;
}

void encode_state(const SavedState& state, std::string& record) {
  const auto key_bytes = static_cast<uint32_t>(state.key.size());
  record.resize(sizeof key_bytes);
  std::memcpy(record.data(), &key_bytes, sizeof key_bytes);
  record += state.key;
  record.append(reinterpret_cast<const char*>(state.words.data()),
                state.words.size() * sizeof(uint64_t));
}

std::optional<SavedState> decode_state(std::string_view record) {
  uint32_t key_bytes = 0;
  if (record.size() < sizeof key_bytes) return std::nullopt;
  std::memcpy(&key_bytes, record.data(), sizeof key_bytes);
  record.remove_prefix(sizeof key_bytes);
  if (record.size() < key_bytes || (record.size() - key_bytes) % sizeof(uint64_t) != 0) {
    return std::nullopt;
  }
  SavedState state{.key = std::string(record.substr(0, key_bytes)), .words = {}};
  record.remove_prefix(key_bytes);
  state.words.resize(record.size() / sizeof(uint64_t));
  if (!record.empty()) std::memcpy(state.words.data(), record.data(), record.size());
  return state;
}

}  // namespace weir::memory

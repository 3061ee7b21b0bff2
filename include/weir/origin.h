// The regional origin: the store that makes the processes of one region agree.
//
// A cell at the origin is a grow-only counter with one component per node. Each node writes only
// its own component, as an absolute total, so a message may be sent again: no count is lost, and
// no count is added twice.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/clock.h"
#include "weir/error.h"
#include "weir/export.h"
#include "weir/request.h"
#include "weir/time.h"
#include "weir/verdict.h"

namespace weir {

// Identifies the writer of a component. The incarnation is random for each start of a process. The
// generation grows when the process evicted a cell and created it again: the earlier total then
// counts as a sibling's, and is never overwritten.
struct Component {
  uint64_t incarnation = 0;
  uint64_t generation = 0;
  friend auto operator<=>(const Component&, const Component&) = default;
};

// The shared component of all nodes that shut down, and of steps without a tuple.
inline constexpr Component kDeparted{};
// The shared component of all nodes for usage that an algorithm of another class has counted. Nodes
// raise it by steps, so the largest value remains.
inline constexpr Component kConverted{.incarnation = 0, .generation = 1};

// One tuple in one window. `tuple` is its canonical encoding: equal bytes mean equal tuples.
struct CellId {
  std::string tuple;
  int64_t sequence = 0;
  friend auto operator<=>(const CellId&, const CellId&) = default;
};

// The count of one region in one window of a tuple, as the ledger has it. Counts and leases only
// grow, limits only fall.
struct RegionCount {
  std::string region;
  int64_t sequence = 0;
  Count count = 0;
  Count limit_seen = 0;  // 0: unknown
  WallTime leased_until{};
  friend bool operator==(const RegionCount&, const RegionCount&) = default;
};

// The counts of one cell, as one reader needs them.
struct CellTotals {
  Count mine = 0;        // the reader's own component, as stored at the origin
  Count siblings = 0;    // the sum of all other components, saturating
  bool refused = false;  // a step refused a request in this window
  // If requested: what the ledger has of the tuple, in all windows. Null: not requested.
  std::shared_ptr<const std::vector<RegionCount>> regions = nullptr;
};

struct CellRead {
  CellId cell;
  Component reader;
  WallTime expires_at = {};  // as in CellReplay; unset: the cell may have expired
  bool with_regions = false;
};

// When the counts of a tuple are due to be published to the other regions; see BridgeStore.
enum class Due : uint8_t {
  kNever,
  kNow,        // whatever the publish rule says: a request was refused
  kRule,       // now, if the publish rule says so
  kWindowEnd,  // when the window of the cell has ended, if the publish rule says so
};

struct CellReplay {
  CellId cell;
  Component writer;
  Count total = 0;           // all cost that the writer has admitted in this cell
  WallTime expires_at = {};  // from then on the cell can influence no decision
  // With a ledger: the smallest limit that the writer saw on the tuple, and when to publish.
  Count limit_seen = 0;  // 0: unknown
  Due due = Due::kNever;
};

// A component whose writer does not write any more.
struct CellRetirement {
  CellId cell;
  Component writer;
};

// Totals in the order of the request, or the error.
using OriginReply = std::function<void(Result<std::vector<CellTotals>>)>;
// How many components were found and retired.
using RetirementReply = std::function<void(Result<size_t>)>;

enum class Reach : uint8_t {
  kNone,      // known to be unreachable
  kReadOnly,  // it answers reads and refuses writes: new counts of others are missing
  kSlow,      // it answers after the read deadline: requests do not wait for it
  kPrompt,
};

// Whether counts should be sent to it.
[[nodiscard]] constexpr bool accepts_writes(Reach reach) {
  return reach == Reach::kSlow || reach == Reach::kPrompt;
}

// One tuple at the origin, as the bridge and the nodes of its region see it.
struct TupleCounts {
  struct Window {
    int64_t sequence = 0;
    Count total = 0;       // of all components, saturating
    Count limit_seen = 0;  // the smallest of all writers; 0: unknown
  };
  std::vector<Window> windows;       // as requested
  std::vector<RegionCount> regions;  // from the ledger; also of this region: what it published
  bool dropped = false;              // there was no space for an update
};

struct TupleRead {
  std::string tuple;
  std::vector<int64_t> sequences;  // of the windows to read
};

// Counts that a cell must have, although the store lost them and some writers write them no more:
// kDeparted is raised to `total` less the components of the writers that did write them again.
struct CellFloor {
  int64_t sequence = 0;
  Count total = 0;
  WallTime expires_at{};            // as in CellReplay
  std::vector<uint64_t> writers{};  // their incarnations
};

[[nodiscard]] inline bool is_written_again(const Component& component, const CellFloor& floor) {
  return component != kDeparted && std::find(floor.writers.begin(), floor.writers.end(),
                                             component.incarnation) != floor.writers.end();
}

// Counts of the ledger that a tuple must have; none is ever lowered. The origin keeps the newest
// three windows of each region.
struct TupleUpdate {
  std::string tuple;
  std::vector<RegionCount> counts;
  WallTime kept_until{};           // all counts and leases have ended by then
  WallTime now{};                  // by the clock of the caller; the epoch: that of the store
  std::vector<int64_t> sequences;  // of the windows to read after the update
  std::vector<CellFloor> floors{};
};

// A tuple that waits to be published. Each tuple has at most one entry of each kind.
struct DueTuple {
  std::string tuple;
  Due kind = Due::kNow;
  WallTime at{};  // when it was added; kWindowEnd: the end of the window
  // Set by the store: 0 for a new entry; another one each time that the entry is added again.
  uint32_t revision = 0;
  friend bool operator==(const DueTuple&, const DueTuple&) = default;
};

// The lease of the bridge, and what the last bridge saved.
struct BridgeGrant {
  bool ours = false;
  std::string state;     // empty: nothing was saved, or it was lost
  uint64_t evicted = 0;  // how many keys the store has evicted since it started
  WallTime now{};        // by the clock of the store; the epoch: unknown
};

// A message of the bridge to all nodes of the region. Numbers are consecutive: after a gap, or a
// smaller number, a node has missed something.
struct BridgeMessage {
  uint64_t number = 0;
  std::string body;
};

using GrantReply = std::function<void(Result<BridgeGrant>)>;
using DueReply = std::function<void(Result<std::vector<DueTuple>>)>;
using TupleReply = std::function<void(Result<std::vector<TupleCounts>>)>;
using SavedReply = std::function<void(Result<bool>)>;  // false: not saved
using KeptReply = std::function<void(Result<bool>)>;   // never false
using RecordsReply = std::function<void(Result<std::vector<std::string>>)>;
using BridgeMessageHandler = std::function<void(BridgeMessage)>;

// A handler of messages; see BridgeStore::subscribe().
using Subscription = std::shared_ptr<void>;

inline constexpr Millis kRecordsKept{60'000};

// The part of an origin through which a region shares its counts with other regions.
//
// What the region knows lives here: the counts of the other regions, what this region has
// published, and which tuples are due. One process, the bridge, moves it to and from the ledger.
// Two bridges at once do no harm, since everything merges.
//
// The same contract as RegionalOrigin: safe from any thread, replies at most once.
class WEIR_EXPORT BridgeStore {
 public:
  virtual ~BridgeStore() = default;

  // Takes or renews the lease of the bridge if it is free or already `holder`'s.
  virtual void acquire(std::string holder, Millis lease, GrantReply reply) = 0;
  // Ends the lease if `holder` has it.
  virtual void release(std::string holder) = 0;
  // Replaces the state `before` of the bridge, unless `holder` has no lease or the state is
  // another: a store that lost its data lost the lease, too, but a late call may have taken it
  // again.
  virtual void save(std::string holder, std::string before, std::string state,
                    SavedReply reply) = 0;

  // The entries from the one time to the other, the earliest first; in any case those that are due
  // by the clock of the store, since the clock of the caller may be wrong.
  virtual void read_due(WallTime from, WallTime by, size_t most, DueReply reply) = 0;
  // Adds entries. One that exists gets the new time and another revision; one of kWindowEnd keeps
  // the earlier time.
  virtual void add_due(std::vector<DueTuple> entries) = 0;
  // Removes the entries that were not added again since they were read.
  virtual void remove_due(std::vector<DueTuple> entries) = 0;

  virtual void read_tuples(std::vector<TupleRead> tuples, TupleReply reply) = 0;
  // Raises the counts of each tuple, and returns each tuple after that.
  virtual void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) = 0;

  // Keeps a record for kRecordsKept, so that the next bridge can repeat what this one did.
  virtual void keep_record(std::string record, KeptReply reply) = 0;
  virtual void read_records(RecordsReply reply) = 0;

  // Sends a message to all handlers of the region, those of the sender included.
  virtual void notify(std::string body) = 0;
  // Calls the handler for each message, one at a time, until the last copy of the result is
  // destroyed. That waits for a call in progress in another thread; after it, the handler is not
  // called. A handler may end its own subscription. The result must not outlive the store.
  [[nodiscard]] virtual Subscription subscribe(BridgeMessageHandler handler) = 0;
};

// One request that a step asks for.
struct StepAsk {
  Count cost = 0;
  Count limit = 0;
  // The share of the last window that counts: rest / CellStep::duration. 0: a fixed window.
  Millis rest{0};
};

// Asks for admissions in one window of a tuple.
struct CellStep {
  CellId cell;
  Component writer;
  Count own = 0;       // all cost that the writer has admitted in this window
  Count own_last = 0;  // the same of the window before
  // What the writer knows of others, in case the store lost it.
  Count siblings = 0;
  Count siblings_last = 0;
  Count foreign = 0;  // of the other regions
  Count foreign_last = 0;
  Millis duration{1};     // of a window
  WallTime expires_at{};  // as in CellReplay
  Count limit_seen = 0;   // as in CellReplay
  Due due = Due::kNever;  // as in CellReplay
  bool with_regions = false;
  std::vector<StepAsk> asks;  // in the order of arrival
};

struct StepTotals {
  CellTotals current;
  CellTotals last;
  std::vector<bool> granted;  // for each ask
  // False: the origin cannot write the cell, so `granted` is what fits beside the counts that the
  // step told.
  bool counted = true;
};

using StepReply = std::function<void(Result<std::vector<StepTotals>>)>;

// The part of an origin that decides requests. The same contract as RegionalOrigin.
class WEIR_EXPORT StepStore {
 public:
  virtual ~StepStore() = default;

  // Grants the asks of each step that fit their limits together with all counts of the region, in
  // order, and raises the writer's component to `own` plus their costs. A refusal marks the window.
  //
  // The component never falls. So a step that is sent again grants the same again: what the
  // component has beyond `own` was granted to a request that nobody waited for.
  virtual void step(std::vector<CellStep> steps, StepReply reply) = 0;
};

// One request on a tuple whose whole state the origin keeps.
struct ExactAsk {
  Count cost = 0;      // 0: a peek
  Count capacity = 0;  // the limit; of gcra and token_bucket the burst
};

// Requests on one tuple of gcra, token_bucket, sliding_window_strict or sliding_log.
struct ExactCall {
  std::string tuple;  // as in CellId
  Algorithm algorithm = Algorithm::kGcra;
  Count limit = 0;  // gcra and token_bucket: the rate is limit / duration
  Millis duration{1};
  bool across_durations = false;  // as in Request
  Component writer;
  // The calls of one writer on one tuple have growing numbers, and one is made at a time. A call
  // that is sent again has the same number and the same asks.
  uint64_t number = 0;
  // What the writer has admitted by itself on the tuple, in all, and how much of it the origin has
  // acknowledged or no longer counts. The origin charges the rest first, whether it fits or not.
  Count own = 0;
  Count acked = 0;
  // The largest capacity that any of this was decided with. What a writer admitted by itself raises
  // a backlog to at most 1.25 times as much: processes that answer each other admit no more, and
  // what they admitted while the origin was lost would deny all requests for as long. 0: no bound.
  Count capacity = 0;
  Millis strict_for{0};  // how long a refusal matters to all writers
  // What other regions have admitted in the current window of the tuple that counts it for them,
  // and in the one before. The origin charges what it does not know, whoever tells it; if it knows
  // of neither window, `foreign_at_first`.
  int64_t foreign_sequence = 0;
  Count foreign = 0;
  Count foreign_last = 0;
  Millis foreign_width{0};  // of these windows; 0: nothing is known
  Count foreign_at_first = 0;
  Count foreign_most = 0;      // to charge of that at a time, for all other regions
  std::vector<ExactAsk> asks;  // in the order of arrival
};

// Times are relative to the decision, since the clocks of the origin and the process may differ.
struct ExactDecision {
  Outcome outcome = Outcome::kDenied;
  Count remaining = 0;
  Millis reset{0};
  std::optional<Millis> retry_after{};  // set exactly when the outcome is kDenied
  friend bool operator==(const ExactDecision&, const ExactDecision&) = default;
};

struct ExactAnswer {
  WallTime at{};                         // when it was decided, by the clock of the origin
  uint64_t version = 0;                  // how many calls had changed the state before this one
  bool changed = false;                  // this one did, too
  Count charged = 0;                     // of what the writer and other regions had admitted
  bool strict = false;                   // a request was refused within `strict_for`
  std::vector<ExactDecision> decisions;  // one for each ask; none: the call could not be decided
};

// Answers in the order of the calls, or the error.
using ExactReply = std::function<void(Result<std::vector<ExactAnswer>>)>;

// The part of an origin that decides requests of the algorithms whose counts cannot be merged. The
// same contract as RegionalOrigin.
class WEIR_EXPORT ExactStore {
 public:
  virtual ~ExactStore() = default;

  // Charges what the writer has admitted by itself, then decides the asks in order, each call in
  // one atomic step, by the clock of the origin. A charged or admitted cost changes the state; so
  // does any cost at another rate, which converts a backlog. Time does not run backwards within a
  // tuple.
  //
  // A call with the number of the writer's last call that changed the tuple gets the same answer,
  // and nothing is charged again. The origin remembers such calls of at least kExactWriters writers
  // for a few seconds.
  virtual void decide(std::vector<ExactCall> calls, ExactReply reply) = 0;
};

inline constexpr size_t kExactWriters = 64;
// A full burst must drain within this time: 2^51 ms, about 71,000 years.
inline constexpr Millis kMaxExactDrain{int64_t{1} << 51};

// What a process knows of the processes that share an origin.
struct Membership {
  uint32_t nodes = 1;   // alive, this one included
  MonoTime since{};     // since then every heartbeat of this process was acknowledged in time
  MonoTime heard_at{};  // the start of the last heartbeat that was acknowledged
};

// Safe from any thread. A reply is delivered at most once, on any thread, possibly before the call
// returns. An implementation that loses a message never replies, so every caller has its own
// deadline.
class WEIR_EXPORT RegionalOrigin {
 public:
  virtual ~RegionalOrigin() = default;

  virtual void read(std::vector<CellRead> cells, OriginReply reply) = 0;

  // Raises each writer's component to `total`, then reads the cells back. After an error any part
  // may have been applied; the caller sends it again. The totals of one writer never decrease, so
  // a store may keep the last.
  virtual void replay(std::vector<CellReplay> cells, OriginReply reply) = 0;

  // Adds components to kDeparted and deletes them, so that a store does not fill with those
  // of stopped nodes and of steps without a tuple. Idempotent. Their writers must not write again.
  virtual void retire(std::vector<CellRetirement> cells, RetirementReply reply) {
    (void)cells;
    reply(size_t{0});
  }

  // How well it can be reached now.
  [[nodiscard]] virtual Reach reach() const { return Reach::kPrompt; }

  // Number of processes that share it now, this one included. The more there are, the sooner
  // counts must be exchanged.
  [[nodiscard]] virtual uint32_t live_nodes() const { return 1; }

  // The index of this process among them, from 0; each has another.
  [[nodiscard]] virtual uint32_t rank() const { return 0; }

  // None: it has no heartbeats, and a process does not know of the others.
  [[nodiscard]] virtual std::optional<Membership> membership() const { return std::nullopt; }

  // Null: this origin cannot decide requests, so every request is relaxed. Lives as long as the
  // origin.
  [[nodiscard]] virtual StepStore* step_store() { return nullptr; }

  // Null: this origin keeps no state of gcra, token_bucket, sliding_window_strict and sliding_log,
  // so each process decides them alone. Used only if there is a step store. Lives as long as the
  // origin.
  [[nodiscard]] virtual ExactStore* exact_store() { return nullptr; }

  // Null: this origin cannot share counts with other regions. Lives as long as the origin.
  [[nodiscard]] virtual BridgeStore* bridge_store() { return nullptr; }

  // Changes whenever the store may have lost data: after a restart or a failover. Then all counts
  // that can influence a decision are sent again.
  [[nodiscard]] virtual uint64_t epoch() const { return 0; }
};

// An origin in memory, for several limiters of one process. It deletes expired cells. `clock` must
// outlive it. `max_tuples` bounds the tuples whose counts of other regions are kept; 0: no bound.
[[nodiscard]] WEIR_EXPORT std::shared_ptr<RegionalOrigin> make_in_process_origin(
    const Clock& clock, size_t max_tuples = 0);

}  // namespace weir

// The regional origin: the store that makes the processes of one region agree.
//
// A cell at the origin is a grow-only counter with one component per node. Each node writes only
// its own component, as an absolute total, so a message may be sent again: no count is lost, and
// no count is added twice.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/clock.h"
#include "weir/error.h"
#include "weir/export.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

// Identifies the writer of a component. The incarnation is random for each start of a process. The
// generation grows when the process evicted a cell and created it again: the earlier total then
// counts as a sibling's, and is never overwritten.
struct Component {
  uint64_t incarnation = 0;
  uint64_t generation = 0;
  friend auto operator<=>(const Component&, const Component&) = default;
};

// The shared component of all nodes that shut down.
inline constexpr Component kDeparted{};

// One tuple in one window. `tuple` is its canonical encoding: equal bytes mean equal tuples.
struct CellId {
  std::string tuple;
  int64_t sequence = 0;
  friend auto operator<=>(const CellId&, const CellId&) = default;
};

// The counts of one cell, as one reader needs them.
struct CellTotals {
  Count mine = 0;      // the reader's own component, as stored at the origin
  Count siblings = 0;  // the sum of all other components, saturating
  // The count of this cell that the region has published to the ledger, as far as it is noted.
  Count published = 0;
};

struct CellRead {
  CellId cell;
  Component reader;
  WallTime expires_at = {};  // as in CellReplay; unset: the cell may have expired
};

struct CellReplay {
  CellId cell;
  Component writer;
  Count total = 0;           // all cost that the writer has admitted in this cell
  WallTime expires_at = {};  // from then on the cell can influence no decision
};

// A component whose writer does not write any more.
struct CellRetirement {
  CellId cell;
  Component writer;
};

// A note for the other processes of the region: the ledger has this count of the region.
struct CellPublished {
  CellId cell;
  Count total = 0;
  WallTime expires_at = {};
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

  // Adds components to kDeparted and deletes them, so that a store does not fill with the
  // components of stopped nodes. Idempotent. Their writers must not write again.
  virtual void retire(std::vector<CellRetirement> cells, RetirementReply reply) {
    (void)cells;
    reply(size_t{0});
  }

  // Notes what was published. The note may be lost: then another process publishes it again.
  virtual void note_published(std::vector<CellPublished> cells) { (void)cells; }

  // How well it can be reached now.
  [[nodiscard]] virtual Reach reach() const { return Reach::kPrompt; }

  // Number of processes that share it now, this one included. The more there are, the sooner
  // counts must be exchanged.
  [[nodiscard]] virtual uint32_t live_nodes() const { return 1; }
  // The index of this process among them, from 0; each has another.
  [[nodiscard]] virtual uint32_t rank() const { return 0; }

  // Changes whenever the store may have lost data: after a restart or a failover. Then all counts
  // that can influence a decision are sent again.
  [[nodiscard]] virtual uint64_t epoch() const { return 0; }
};

// An origin in memory, for several limiters of one process. It deletes expired cells. `clock` must
// outlive it.
[[nodiscard]] WEIR_EXPORT std::shared_ptr<RegionalOrigin> make_in_process_origin(
    const Clock& clock);

}  // namespace weir

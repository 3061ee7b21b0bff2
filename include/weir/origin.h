// The regional origin: the store that makes the processes of one region agree.
//
// A cell at the origin is a grow-only counter with one component per node. Each
// node writes only its own component, as an absolute total, so that anything may be
// sent again: nothing is lost and nothing is counted twice.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/error.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

// Names the writer of a component. The incarnation is random for each start of a
// process; the generation grows when the process forgot a cell and made it anew, so
// that what it wrote before is a sibling's total from then on, never overwritten.
struct Component {
  uint64_t incarnation = 0;
  uint64_t generation = 0;
  friend auto operator<=>(const Component&, const Component&) = default;
};

// The component of all who left together.
inline constexpr Component kDeparted{};

// One tuple in one window. `tuple` is its canonical encoding: equal bytes, equal tuple.
struct CellId {
  std::string tuple;
  int64_t sequence = 0;
  friend auto operator<=>(const CellId&, const CellId&) = default;
};

// What a reader needs to know of one cell.
struct CellTotals {
  Count mine = 0;      // the asking component, as the origin has it
  Count siblings = 0;  // all other components together, saturating
  // What the region has told the ledger of this cell, as far as its processes left word of it.
  Count published = 0;
};

struct CellRead {
  CellId cell;
  Component reader;
  WallTime expires_at = {};  // as of a CellReplay; where it is not given, the cell may be over
};

struct CellReplay {
  CellId cell;
  Component writer;
  Count total = 0;           // everything the writer has accepted in this cell
  WallTime expires_at = {};  // from then on the cell can influence no decision
};

// A component whose writer writes no more.
struct CellRetirement {
  CellId cell;
  Component writer;
};

// Word for the other processes of the region: the ledger has this much of a cell from us all.
struct CellPublished {
  CellId cell;
  Count total = 0;
  WallTime expires_at = {};
};

// Totals in the order asked, or why nothing was read.
using OriginReply = std::function<void(Result<std::vector<CellTotals>>)>;
// How many components were there to be retired.
using RetirementReply = std::function<void(Result<size_t>)>;

enum class Reach : uint8_t {
  kNone,      // asking is known to be in vain
  kReadOnly,  // it answers reads and refuses writes: what others accept now is not there
  kSlow,      // it answers, but later than a request waits: nobody waits for it
  kPrompt,
};

// Whether it makes sense to tell it what was accepted.
[[nodiscard]] constexpr bool accepts_writes(Reach reach) {
  return reach == Reach::kSlow || reach == Reach::kPrompt;
}

// Safe from any thread. A reply is delivered at most once, on any thread, possibly
// before the call returns; an implementation that loses a message never replies, so
// every caller keeps its own deadline.
class RegionalOrigin {
 public:
  virtual ~RegionalOrigin() = default;

  virtual void read(std::vector<CellRead> cells, OriginReply reply) = 0;

  // Raises each writer's component to `total`, then reads the cells back. After an
  // error any part of it may have been applied; sending it again is always right. A writer hands
  // in its totals in their order, none less than the one before: a store may keep the last.
  virtual void replay(std::vector<CellReplay> cells, OriginReply reply) = 0;

  // Adds components to the one that stands for all who left, so that a store does not fill with
  // the names of the dead; each at most once, however often it is asked. Their writers must not
  // write again.
  virtual void retire(std::vector<CellRetirement> cells, RetirementReply reply) {
    (void)cells;
    reply(size_t{0});
  }

  // Leaves word of what was published. May be lost: then another process publishes it again.
  virtual void note_published(std::vector<CellPublished> cells) { (void)cells; }

  // How well it can be reached now.
  [[nodiscard]] virtual Reach reach() const { return Reach::kPrompt; }

  // Processes that share it now, as far as it knows, this one included: the more there are,
  // the sooner they must hear of each other.
  [[nodiscard]] virtual uint32_t live_nodes() const { return 1; }
  // The place of this one among them, from 0; each has another.
  [[nodiscard]] virtual uint32_t rank() const { return 0; }

  // Another number whenever the store may have forgotten: it was restarted, or another took
  // its place. Then everything that still matters is told again.
  [[nodiscard]] virtual uint64_t epoch() const { return 0; }
};

// An origin inside this process, for limiters that share one; forgets cells when
// they expire.
[[nodiscard]] std::shared_ptr<RegionalOrigin> make_in_process_origin(const class Clock& clock);

}  // namespace weir

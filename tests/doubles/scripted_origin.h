// An origin whose test decides when it answers and with what.

#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "weir/origin.h"

namespace weir::doubles {

class ScriptedOrigin final : public RegionalOrigin {
 public:
  struct Read {
    std::vector<CellRead> cells;
    OriginReply reply;
  };
  struct Replay {
    std::vector<CellReplay> cells;
    OriginReply reply;
  };

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    reads.push_back({std::move(cells), std::move(reply)});
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    replays.push_back({std::move(cells), std::move(reply)});
  }

  [[nodiscard]] Reach reach() const override { return reachability; }
  [[nodiscard]] uint32_t live_nodes() const override { return nodes; }

  // Answers the oldest read with the same totals for all of its cells.
  void answer_read(CellTotals totals) {
    Read read = std::move(reads.front());
    reads.pop_front();
    read.reply(std::vector<CellTotals>(read.cells.size(), totals));
  }
  void fail_read() {
    Read read = std::move(reads.front());
    reads.pop_front();
    read.reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp});
  }

  // Acknowledges every pending replay.
  void ack_replays() {
    while (!replays.empty()) {
      Replay replay = std::move(replays.front());
      replays.pop_front();
      std::vector<CellTotals> totals;
      for (const CellReplay& cell : replay.cells) totals.push_back({.mine = cell.total});
      replay.reply(std::move(totals));
    }
  }

  std::deque<Read> reads;
  std::deque<Replay> replays;
  Reach reachability = Reach::kPrompt;
  uint32_t nodes = 1;
};

}  // namespace weir::doubles

// The network between one node and the origin: messages take time, get lost on the way
// there or back, and arrive twice.

#pragma once

#include <memory>

#include "sim/random.h"
#include "sim/timeline.h"
#include "weir/origin.h"

namespace weir::sim {

struct LinkFaults {
  Millis most_delay{20};    // each way, drawn anew for each message
  int64_t lose_one_in = 0;  // of messages each way; 0: none
  int64_t repeat_one_in = 0;
};

// What the link has seen happen; the world reports these states as reached.
struct LinkMarks {
  uint64_t lost_requests = 0;
  uint64_t lost_replies = 0;  // applied all the same
  uint64_t repeated = 0;
};

// Lives on the timeline.
class LossyLink final : public RegionalOrigin {
 public:
  LossyLink(Timeline& timeline, std::shared_ptr<RegionalOrigin> far_end, uint64_t seed)
      : timeline_(timeline), far_end_(std::move(far_end)), random_(seed) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    carry([this, cells](const OriginReply& answer) { far_end_->read(cells, answer); },
          std::move(reply));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    carry([this, cells](const OriginReply& answer) { far_end_->replay(cells, answer); },
          std::move(reply));
  }

  // Comes from a process that leaves in peace.
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override {
    far_end_->retire(std::move(cells), std::move(reply));
  }

  LinkFaults faults;
  LinkMarks marks;

 private:
  // Takes the message there; what comes back is taken back by the same rules, at most once.
  void carry(std::function<void(const OriginReply&)> message, OriginReply reply) {
    if (random_.one_in(faults.lose_one_in)) {
      ++marks.lost_requests;
      return;
    }
    auto once = std::make_shared<OriginReply>(std::move(reply));
    const int copies = random_.one_in(faults.repeat_one_in) ? 2 : 1;
    if (copies == 2) ++marks.repeated;
    for (int copy = 0; copy < copies; ++copy) {
      timeline_.post_in(delay(), [this, message, once] {
        message([this, once](Result<std::vector<CellTotals>> totals) {
          bring_back(once, std::move(totals));
        });
      });
    }
  }

  void bring_back(const std::shared_ptr<OriginReply>& once,
                  Result<std::vector<CellTotals>> totals) {
    if (random_.one_in(faults.lose_one_in)) {
      ++marks.lost_replies;
      return;
    }
    auto parcel = std::make_shared<Result<std::vector<CellTotals>>>(std::move(totals));
    timeline_.post_in(delay(), [once, parcel] {
      if (const OriginReply reply = std::exchange(*once, nullptr)) reply(std::move(*parcel));
    });
  }

  Millis delay() { return Millis(random_.between(0, faults.most_delay.count())); }

  Timeline& timeline_;
  std::shared_ptr<RegionalOrigin> far_end_;
  Random random_;
};

}  // namespace weir::sim

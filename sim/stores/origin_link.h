// The link from one process to the origin. See OriginTransport for its faults.

#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "sim/stores/bridge_link.h"
#include "sim/stores/origin_transport.h"

namespace weir::sim {

// Belongs to the timeline.
class OriginLink final : public RegionalOrigin,
                         public StepStore,
                         public ExactStore,
                         public OriginTransport {
 public:
  OriginLink(Timeline& timeline, std::shared_ptr<RegionalOrigin> far_end, uint64_t seed)
      : OriginTransport(timeline, seed), far_end_(std::move(far_end)) {
    if (BridgeStore* const store = far_end_->bridge_store()) bridge_.emplace(*this, *store);
  }

  void read(std::vector<CellRead> what, OriginReply reply) override;
  void replay(std::vector<CellReplay> what, OriginReply reply) override;
  // Sent by a process that shuts down; arrives after all its earlier messages.
  void retire(std::vector<CellRetirement> what, RetirementReply reply) override;
  void step(std::vector<CellStep> what, StepReply reply) override;
  [[nodiscard]] StepStore* step_store() override {
    return far_end_->step_store() == nullptr ? nullptr : this;
  }
  void decide(std::vector<ExactCall> what, ExactReply reply) override;
  [[nodiscard]] ExactStore* exact_store() override {
    return far_end_->exact_store() == nullptr ? nullptr : this;
  }
  [[nodiscard]] std::optional<Membership> membership() const override { return membership_; }
  [[nodiscard]] Reach reach() const override {
    const bool refused = faults.connectivity == Connectivity::kRefused;
    if (!detects_refusal || !(refused || knows_of_silence())) return Reach::kPrompt;
    note_disruption(Traffic::kRead);
    return Reach::kNone;
  }
  [[nodiscard]] uint32_t live_nodes() const override { return live_nodes_; }
  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] BridgeStore* bridge_store() override { return bridge_ ? &*bridge_ : nullptr; }
  [[nodiscard]] uint64_t epoch() const override {
    return bug == LinkBug::kHidesReconnects ? 1 : connection();
  }

  // A heartbeat was acknowledged at that time of the process: the number of nodes that share the
  // origin, and how many of them rank before this one.
  void note_heartbeat(MonoTime now, uint32_t count, uint32_t before) {
    constexpr Millis kLongestPause{2000};
    live_nodes_ = count;
    rank_ = before;
    const bool paused = !membership_ || now - membership_->heard_at > kLongestPause;
    membership_ = {.nodes = count, .since = paused ? now : membership_->since, .heard_at = now};
  }

 private:
  using Totals = std::vector<CellTotals>;

  // False: a planted bug has answered already.
  [[nodiscard]] bool is_honest(size_t cells, Traffic kind, const OriginReply& reply) const;
  [[nodiscard]] static std::vector<CellReplay> told_by(const std::vector<CellStep>& steps,
                                                       const std::vector<StepTotals>* totals);
  static void ack_falsely(const std::vector<CellReplay>& cells, const OriginReply& reply);

  std::shared_ptr<RegionalOrigin> far_end_;
  std::optional<BridgeLink> bridge_;
  uint64_t messages_ = 0;
  std::optional<Membership> membership_;
  uint32_t live_nodes_ = 1;
  uint32_t rank_ = 0;
};

}  // namespace weir::sim

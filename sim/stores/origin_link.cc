#include "sim/stores/origin_link.h"

namespace weir::sim {

bool OriginLink::is_honest(size_t cells, Traffic kind, const OriginReply& reply) const {
  if (bug != LinkBug::kErrorsAsEmpty || faults.connectivity != Connectivity::kRefused) return true;
  note_disruption(kind);
  reply(Totals(cells));
  return false;
}

void OriginLink::read(std::vector<CellRead> what, OriginReply reply) {
  const auto cells = std::make_shared<const std::vector<CellRead>>(std::move(what));
  if (watcher != nullptr) watcher->reading(cells->size());
  OriginReply received = [this, cells, reply = std::move(reply)](Result<Totals> totals) {
    if (watcher != nullptr) watcher->received(*cells, totals);
    reply(std::move(totals));
  };
  if (!is_honest(cells->size(), Traffic::kRead, received)) return;
  send<Totals>([this, cells](const OriginReply& answer) { far_end_->read(*cells, answer); },
               std::move(received), Traffic::kRead);
}

void OriginLink::replay(std::vector<CellReplay> what, OriginReply reply) {
  const auto cells = std::make_shared<const std::vector<CellReplay>>(std::move(what));
  const uint64_t message = ++messages_;
  if (watcher != nullptr) watcher->sent(message, *cells);
  OriginReply received = [this, message, cells, reply = std::move(reply)](Result<Totals> totals) {
    if (watcher != nullptr) watcher->received(message, *cells, totals);
    reply(std::move(totals));
  };
  if (bug == LinkBug::kFalseAcks && random().one_in(3)) return ack_falsely(*cells, received);
  if (!is_honest(cells->size(), Traffic::kReplay, received)) return;
  send<Totals>([this, cells](const OriginReply& answer) { far_end_->replay(*cells, answer); },
               std::move(received), Traffic::kReplay);
}

void OriginLink::step(std::vector<CellStep> what, StepReply reply) {
  const auto steps = std::make_shared<const std::vector<CellStep>>(std::move(what));
  const uint64_t message = ++messages_;
  const bool reads_steps = watcher != nullptr && watcher->reads_steps();
  if (reads_steps) {
    watcher->stepping(message, told_by(*steps, nullptr));
  } else if (watcher != nullptr) {
    watcher->steps_sent(steps->size());
  }
  StepReply received = [this, reads_steps, message, steps,
                        reply = std::move(reply)](Result<std::vector<StepTotals>> totals) {
    if (watcher != nullptr && reads_steps) {
      Result<Totals> windows = Totals();
      if (!totals) windows = totals.error();
      for (size_t i = 0; totals && i < totals->size(); ++i) {
        windows->push_back((*totals)[i].current);
        windows->push_back((*totals)[i].last);
      }
      watcher->received(message, told_by(*steps, totals ? &*totals : nullptr), windows);
    }
    reply(std::move(totals));
  };
  if (bug == LinkBug::kErrorsAsEmpty && faults.connectivity == Connectivity::kRefused) {
    note_disruption(Traffic::kReplay);
    return received(std::vector<StepTotals>(steps->size()));
  }
  send<std::vector<StepTotals>>(
      [this, steps](const StepReply& answer) { far_end_->step_store()->step(*steps, answer); },
      std::move(received), Traffic::kReplay);
}

// What steps tell the origin, as replays: the own counts, and what was granted to them. With a
// reply also what the origin has of the last window.
std::vector<CellReplay> OriginLink::told_by(const std::vector<CellStep>& steps,
                                            const std::vector<StepTotals>* totals) {
  std::vector<CellReplay> told;
  for (size_t i = 0; i < steps.size(); ++i) {
    Count total = steps[i].own;
    for (size_t j = 0; totals != nullptr && j < (*totals)[i].granted.size(); ++j) {
      if ((*totals)[i].granted[j]) total += steps[i].asks[j].cost;
    }
    told.push_back({.cell = steps[i].cell,
                    .writer = steps[i].writer,
                    .total = total,
                    .expires_at = steps[i].expires_at});
    if (totals == nullptr) continue;
    told.push_back({.cell = {steps[i].cell.tuple, steps[i].cell.sequence - 1},
                    .writer = steps[i].writer,
                    .total = (*totals)[i].last.mine});
  }
  return told;
}

void OriginLink::decide(std::vector<ExactCall> what, ExactReply reply) {
  const auto calls = std::make_shared<const std::vector<ExactCall>>(std::move(what));
  send<std::vector<ExactAnswer>>(
      [this, calls](const ExactReply& answer) { far_end_->exact_store()->decide(*calls, answer); },
      std::move(reply), Traffic::kReplay);
}

void OriginLink::retire(std::vector<CellRetirement> what, RetirementReply reply) {
  const auto cells = std::make_shared<const std::vector<CellRetirement>>(std::move(what));
  send_last([this, cells, reply = std::move(reply)] { far_end_->retire(*cells, reply); });
}

void OriginLink::ack_falsely(const std::vector<CellReplay>& cells, const OriginReply& reply) {
  Totals totals;
  for (const CellReplay& cell : cells) totals.push_back({.mine = cell.total});
  reply(std::move(totals));
}

}  // namespace weir::sim

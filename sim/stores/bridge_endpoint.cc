#include "sim/stores/bridge_endpoint.h"

#include <algorithm>

namespace weir::sim {

void BridgeEndpoint::acquire(std::string holder, Millis lease, GrantReply reply) {
  reply(shared_.data.acquire(holder, lease));
}

void BridgeEndpoint::release(std::string holder) {
  shared_.data.release(holder);
}

void BridgeEndpoint::save(std::string holder, std::string before, std::string state,
                          SavedReply reply) {
  reply(shared_.data.save(holder, before, state));
}

void BridgeEndpoint::read_due(WallTime from, WallTime by, size_t most, DueReply reply) {
  reply(shared_.data.read_due(from, by, most));
}

void BridgeEndpoint::add_due(std::vector<DueTuple> entries) {
  for (const DueTuple& entry : entries) shared_.data.add_due(entry);
}

void BridgeEndpoint::remove_due(std::vector<DueTuple> entries) {
  for (const DueTuple& entry : entries) shared_.data.remove_due(entry);
}

TupleCounts BridgeEndpoint::read(const std::string& tuple,
                                 const std::vector<int64_t>& sequences) const {
  TupleCounts counts{.windows = {}, .regions = shared_.data.counts(tuple)};
  for (const int64_t sequence : sequences) {
    const CellId cell{tuple, sequence};
    counts.windows.push_back({.sequence = sequence,
                              .total = shared_.total(cell),
                              .limit_seen = shared_.data.limit_seen(cell)});
  }
  return counts;
}

void BridgeEndpoint::read_tuples(std::vector<TupleRead> tuples, TupleReply reply) {
  std::vector<TupleCounts> counts;
  for (const TupleRead& each : tuples) counts.push_back(read(each.tuple, each.sequences));
  reply(std::move(counts));
}

void BridgeEndpoint::update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) {
  std::vector<TupleCounts> counts;
  for (const TupleUpdate& update : updates) {
    shared_.data.raise(update);
    for (const CellFloor& floor : update.floors) shared_.raise_departed(update.tuple, floor);
    counts.push_back(read(update.tuple, update.sequences));
  }
  reply(std::move(counts));
}

void BridgeEndpoint::keep_record(std::string record, KeptReply reply) {
  shared_.data.keep_record(record);
  reply(true);
}

void BridgeEndpoint::read_records(RecordsReply reply) {
  reply(shared_.data.records());
}

void BridgeEndpoint::notify(std::string body) {
  const auto receivers =
      shared_.subscribers.enqueue({.number = shared_.data.next_message(), .body = std::move(body)});
  for (const auto& subscriber : receivers) subscriber->drain();
}

}  // namespace weir::sim

#include "memory/owned_bytes.h"

#include "memory/log_cell.h"
#include "memory/ring_cell.h"

namespace weir::memory {
namespace {

OwnedBytes owned(KeyHeader header, size_t log_units) {
  OwnedBytes bytes;
  if (header.cell_class() == CellClass::kRing) bytes.annex = heap_bytes(sizeof(RingAnnex));
  if (header.cell_class() == CellClass::kLog) bytes.annex = heap_bytes(log_units * sizeof(Word));
  if (header.words() > kInlineKeyWords) bytes.key = heap_bytes(header.words() * sizeof(uint64_t));
  return bytes;
}

}  // namespace

OwnedBytes owned_bytes(KeyHeader header, const Query& query) {
  return owned(header, log_annex_units(query.ask.capacity));
}

OwnedBytes owned_bytes(const Slot& slot) {
  return owned(slot.header, slot.hot[4].load(std::memory_order_relaxed) + 1);
}

bool reserve(ByteBudget* budget, const OwnedBytes& bytes) {
  if (budget == nullptr) return true;
  if (!budget->reserve(Part::kAnnexes, bytes.annex)) return false;
  if (budget->reserve(Part::kKeys, bytes.key)) return true;
  budget->give_back(Part::kAnnexes, bytes.annex);
  return false;
}

void give_back(ByteBudget* budget, const OwnedBytes& bytes) {
  if (budget == nullptr) return;
  budget->give_back(Part::kAnnexes, bytes.annex);
  budget->give_back(Part::kKeys, bytes.key);
}

bool has_room(const ByteBudget* budget, const OwnedBytes& bytes) {
  return budget == nullptr || (budget->has_room(Part::kAnnexes, bytes.annex) &&
                               budget->has_room(Part::kKeys, bytes.key));
}

}  // namespace weir::memory

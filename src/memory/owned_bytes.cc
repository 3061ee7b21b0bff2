#include "memory/owned_bytes.h"

#include "memory/log_cell.h"
#include "memory/ring_cell.h"

namespace weir::memory {
namespace {

OwnedBytes owned(KeyHeader header, size_t log_units) {
  OwnedBytes bytes;
  if (header.cell_class() == CellClass::kRing) bytes.buffer = heap_bytes(sizeof(RingBuffer));
  if (header.cell_class() == CellClass::kLog) bytes.buffer = heap_bytes(log_units * sizeof(Word));
  if (header.words() > kInlineKeyWords) bytes.key = heap_bytes(header.words() * sizeof(uint64_t));
  return bytes;
}

}  // namespace

OwnedBytes owned_bytes(KeyHeader header, const Query& query) {
  return owned(header, log_buffer_units(query.ask.capacity));
}

OwnedBytes owned_bytes(const Slot& slot) {
  return owned(slot.header, slot.hot[4].load(std::memory_order_relaxed) + 1);
}

bool reserve(ByteBudget* budget, const OwnedBytes& bytes) {
  if (budget == nullptr) return true;
  if (!budget->reserve(MemoryPart::kBuffers, bytes.buffer)) return false;
  if (budget->reserve(MemoryPart::kKeys, bytes.key)) return true;
  budget->release(MemoryPart::kBuffers, bytes.buffer);
  return false;
}

void release(ByteBudget* budget, const OwnedBytes& bytes) {
  if (budget == nullptr) return;
  budget->release(MemoryPart::kBuffers, bytes.buffer);
  budget->release(MemoryPart::kKeys, bytes.key);
}

bool has_space(const ByteBudget* budget, const OwnedBytes& bytes) {
  return budget == nullptr || (budget->has_space(MemoryPart::kBuffers, bytes.buffer) &&
                               budget->has_space(MemoryPart::kKeys, bytes.key));
}

}  // namespace weir::memory

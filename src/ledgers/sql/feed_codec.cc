#include "ledgers/sql/feed_codec.h"

#include <algorithm>
#include <unordered_map>

#include "base/byte_codec.h"
#include "ledgers/rows.h"

namespace weir::ledgers {
namespace {

constexpr uint64_t kVersion = 1;
constexpr size_t kMinRowBytes = 8;

// Writes a name once; later its index, from 1.
class NameWriter {
 public:
  void add(std::string_view name, base::ByteWriter& writer) {
    const auto [found, is_new] = indexes_.try_emplace(name, indexes_.size() + 1);
    writer.add(is_new ? uint64_t{0} : found->second);
    if (is_new) writer.add(name);
  }

 private:
  std::unordered_map<std::string_view, uint64_t> indexes_;
};

class NameReader {
 public:
  // None if it is no name.
  [[nodiscard]] std::optional<std::string_view> read(base::ByteReader& reader) {
    const uint64_t index = reader.number();
    if (!reader.ok() || index > names_.size()) return std::nullopt;
    if (index > 0) return names_[index - 1];
    const std::string_view name = reader.text();
    // A few bytes that repeat a long name must not become a huge batch.
    if (!reader.ok() || name.size() > kMaxNameBytes) return std::nullopt;
    names_.push_back(name);
    return name;
  }

 private:
  std::vector<std::string_view> names_;
};

}  // namespace

std::string encode_batch(const std::vector<LedgerRow>& rows) {
  base::ByteWriter writer;
  NameWriter names;
  writer.add(kVersion);
  writer.add(uint64_t{rows.size()});
  for (const LedgerRow& row : rows) {
    names.add(row.key.workspace, writer);
    names.add(row.key.ns, writer);
    names.add(row.key.identifier, writer);
    writer.add_signed(row.key.duration.count());
    writer.add_signed(row.sequence);
    writer.add(row.count);
    writer.add(row.limit_seen);
    writer.add_signed(row.leased_until.time_since_epoch().count());
  }
  return writer.take();
}

std::optional<DecodedBatch> decode_batch(const std::string& region, std::string_view bytes) {
  base::ByteReader reader(bytes);
  if (reader.number() != kVersion) return std::nullopt;
  const uint64_t count = reader.number();
  if (!reader.ok() || count > kMaxFeedRows) return std::nullopt;
  DecodedBatch batch;
  batch.rows.reserve(std::min<size_t>(count, bytes.size() / kMinRowBytes));
  NameReader names;
  for (uint64_t i = 0; i < count; ++i) {
    const auto workspace = names.read(reader);
    if (!workspace) return std::nullopt;
    const auto ns = names.read(reader);
    if (!ns) return std::nullopt;
    const auto identifier = names.read(reader);
    if (!identifier) return std::nullopt;
    LedgerRow row{.key = {.workspace = std::string(*workspace),
                          .ns = std::string(*ns),
                          .identifier = std::string(*identifier),
                          .duration = Millis(reader.signed_number())},
                  .sequence = reader.signed_number(),
                  .region = region,
                  .count = reader.number(),
                  .limit_seen = reader.number(),
                  .leased_until = WallTime(Millis(reader.signed_number()))};
    if (!reader.ok()) return std::nullopt;
    if (is_valid(row)) {
      batch.rows.push_back(std::move(row));
    } else {
      ++batch.invalid;
    }
  }
  if (!reader.at_end()) return std::nullopt;
  return batch;
}

}  // namespace weir::ledgers

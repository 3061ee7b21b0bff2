// A reply of a Redis server parses the same wherever its bytes are split, and as a cell it counts
// at most the sum of its values. Region counts and due entries may hold anything, too.

#include <string>
#include <vector>

#include "base/wide.h"
#include "fuzz/input.h"
#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_reply.h"
#include "origins/redis/redis_tuples.h"

using weir::fuzz::Exact;
using weir::fuzz::must;
using weir::origins::parse_reply;
using weir::origins::RedisReply;
using weir::origins::ReplyStatus;

namespace {

// Records parsed replies as text.
class Recorder {
 public:
  void read(std::string_view piece) {
    unread_ += piece;
    while (!broken_) {
      const Exact bytes(unread_);
      RedisReply reply;
      size_t size = 0;
      const ReplyStatus status = parse_reply(bytes.view(), reply, size);
      if (status == ReplyStatus::kIncomplete) return;
      if (status == ReplyStatus::kBroken) {
        broken_ = true;
        summary_ += "broken";
        return;
      }
      must(size > 0 && size <= bytes.size(), "a reply has bytes");
      record(reply, bytes);
      if (reply.type == RedisReply::Type::kList) count(reply);
      unread_.erase(0, size);
    }
  }
  [[nodiscard]] const std::string& summary() const { return summary_; }

 private:
  void record(const RedisReply& reply, const Exact& bytes) {
    must(reply.text.empty() || bytes.holds(reply.text), "text is a view of the bytes");
    summary_ += std::to_string(static_cast<int>(reply.type)) + ":" + std::to_string(reply.integer) +
                ":" + std::string(reply.text) + "(";
    for (const RedisReply& item : reply.items) record(item, bytes);
    summary_ += ")";
  }

  static void count(const RedisReply& reply) {
    const auto all = weir::origins::read_hash(reply, "mine");
    const auto other = weir::origins::read_hash(reply, std::string(40, 'x'));
    must(weir::base::saturating_add(all.totals.mine, all.totals.siblings) ==
             weir::base::saturating_add(other.totals.mine, other.totals.siblings),
         "a cell has the same total for every reader");
    must(all.limit_seen == other.limit_seen, "a cell has the same limit for every reader");
    must(all.invalid <= reply.items.size() / 2, "a value is invalid once");
    const auto tuple = weir::origins::read_tuple_hash(reply);
    must(tuple.invalid <= reply.items.size() / 2, "a region is invalid once");
    std::vector<weir::DueTuple> entries;
    uint64_t invalid = 0;
    if (weir::origins::read_due_members(reply, entries, invalid)) {
      must(entries.size() + invalid == reply.items.size() / 2, "an entry is read or invalid");
    }
  }

  std::string unread_;
  std::string summary_;
  bool broken_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::must_parse_the_same<Recorder>({data, size});
  return 0;
}

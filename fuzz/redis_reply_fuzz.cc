// What a Redis server answers is understood alike wherever the bytes are split, and as a cell
// it counts at most what its values say.

#include <string>

#include "base/wide.h"
#include "fuzz/input.h"
#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_reply.h"

using weir::fuzz::Exact;
using weir::fuzz::must;
using weir::origins::parse_reply;
using weir::origins::RedisReply;
using weir::origins::ReplyStatus;

namespace {

// Replies as they come, told as text.
class Listener {
 public:
  void hear(std::string_view piece) {
    unread_ += piece;
    while (!broken_) {
      const Exact bytes(unread_);
      RedisReply reply;
      size_t size = 0;
      const ReplyStatus status = parse_reply(bytes.view(), reply, size);
      if (status == ReplyStatus::kIncomplete) return;
      if (status == ReplyStatus::kBroken) {
        broken_ = true;
        story_ += "broken";
        return;
      }
      must(size > 0 && size <= bytes.size(), "a reply has bytes");
      tell(reply, bytes);
      if (reply.type == RedisReply::Type::kList) count(reply);
      unread_.erase(0, size);
    }
  }
  [[nodiscard]] const std::string& story() const { return story_; }

 private:
  void tell(const RedisReply& reply, const Exact& bytes) {
    must(reply.text.empty() || bytes.holds(reply.text), "text is a view of the bytes");
    story_ += std::to_string(static_cast<int>(reply.type)) + ":" + std::to_string(reply.integer) +
              ":" + std::string(reply.text) + "(";
    for (const RedisReply& item : reply.items) tell(item, bytes);
    story_ += ")";
  }

  static void count(const RedisReply& reply) {
    const auto all = weir::origins::read_hash(reply, "mine");
    const auto nobody = weir::origins::read_hash(reply, std::string(40, 'x'));
    must(weir::base::saturating_add(all.totals.mine, all.totals.siblings) ==
             weir::base::saturating_add(nobody.totals.mine, nobody.totals.siblings),
         "a cell has the same total for every reader");
    must(all.totals.published == nobody.totals.published,
         "what was published is the same for every reader");
    must(all.invalid <= reply.items.size() / 2, "a value is absurd once");
  }

  std::string unread_;
  std::string story_;
  bool broken_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::must_be_received_alike<Listener>({data, size});
  return 0;
}

#include "origins/redis/redis_reply.h"

#include <charconv>

namespace weir::origins {
namespace {

constexpr int kMaxDepth = 8;

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  ReplyStatus read(RedisReply& reply, int depth) {
    std::string_view line;
    const ReplyStatus status = read_line(line);
    if (status != ReplyStatus::kComplete) return status;
    if (line.empty()) return ReplyStatus::kBroken;
    const char kind = line[0];
    const std::string_view rest = line.substr(1);
    switch (kind) {
      case '+':
      case ',':  // a double
      case '(':  // a big number
        return set_text(reply, RedisReply::Type::kText, rest);
      case '-': return set_text(reply, RedisReply::Type::kError, rest);
      case '_': reply = {}; return ReplyStatus::kComplete;
      case '#':
        reply = {.type = RedisReply::Type::kInteger, .integer = rest == "t" ? 1 : 0};
        return ReplyStatus::kComplete;
      case ':': {
        reply = {.type = RedisReply::Type::kInteger};
        return number(rest, reply.integer) ? ReplyStatus::kComplete : ReplyStatus::kBroken;
      }
      case '$':
      case '=':  // verbatim
        return read_text(rest, RedisReply::Type::kText, reply);
      case '!': return read_text(rest, RedisReply::Type::kError, reply);
      case '*':
      case '~':  // a set
      case '>':  // a push
        return read_list(rest, 1, depth, reply);
      case '%': return read_list(rest, 2, depth, reply);
      default: return ReplyStatus::kBroken;
    }
  }

  [[nodiscard]] size_t at() const { return at_; }

 private:
  static ReplyStatus set_text(RedisReply& reply, RedisReply::Type type, std::string_view text) {
    reply = {.type = type, .text = text};
    return ReplyStatus::kComplete;
  }

  static bool number(std::string_view text, int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }

  ReplyStatus read_line(std::string_view& line) {
    const size_t end = in_.find('\n', at_);
    const size_t size = (end == std::string_view::npos ? in_.size() : end) - at_;
    if (size > kMaxReplyText) return ReplyStatus::kBroken;
    if (end == std::string_view::npos) return ReplyStatus::kIncomplete;
    if (size == 0 || in_[end - 1] != '\r') return ReplyStatus::kBroken;
    line = in_.substr(at_, size - 1);
    at_ = end + 1;
    return ReplyStatus::kComplete;
  }

  ReplyStatus read_text(std::string_view length, RedisReply::Type type, RedisReply& reply) {
    int64_t size = 0;
    if (!number(length, size) || size < -1 || size > static_cast<int64_t>(kMaxReplyText)) {
      return ReplyStatus::kBroken;
    }
    reply = {};
    if (size == -1) return ReplyStatus::kComplete;
    const auto bytes = static_cast<size_t>(size);
    if (in_.size() - at_ < bytes + 2) return ReplyStatus::kIncomplete;
    if (in_.substr(at_ + bytes, 2) != "\r\n") return ReplyStatus::kBroken;
    reply = {.type = type, .text = in_.substr(at_, bytes)};
    at_ += bytes + 2;
    return ReplyStatus::kComplete;
  }

  ReplyStatus read_list(std::string_view length, int64_t each, int depth, RedisReply& reply) {
    int64_t count = 0;
    if (!number(length, count) || count < -1 || depth == kMaxDepth ||
        count > static_cast<int64_t>(kMaxReplyItems) / each) {
      return ReplyStatus::kBroken;
    }
    reply = {};
    if (count == -1) return ReplyStatus::kComplete;
    reply.type = RedisReply::Type::kList;
    for (int64_t i = 0; i < count * each; ++i) {
      const ReplyStatus status = read(reply.items.emplace_back(), depth + 1);
      if (status != ReplyStatus::kComplete) return status;
    }
    return ReplyStatus::kComplete;
  }

  std::string_view in_;
  size_t at_ = 0;
};

}  // namespace

ReplyStatus parse_reply(std::string_view in, RedisReply& reply, size_t& bytes) {
  Reader reader(in);
  const ReplyStatus status = in.empty() ? ReplyStatus::kIncomplete : reader.read(reply, 0);
  bytes = reader.at();
  return status;
}

}  // namespace weir::origins

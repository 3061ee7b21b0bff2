#include "frontends/resp/resp_parser.h"

#include "base/inline.h"

namespace weir::frontends {
namespace {

constexpr size_t kIncomplete = SIZE_MAX;  // the line is incomplete
constexpr size_t kNoNumber = SIZE_MAX - 1;

// The number in "<number>\r\n" at `at`; moves `at` behind it.
[[gnu::noinline]] size_t any_number_line(std::string_view in, size_t& at) {
  constexpr size_t kMaxDigits = 9;
  size_t number = 0;
  size_t i = at;
  for (; i < in.size() && in[i] >= '0' && in[i] <= '9'; ++i) {
    if (i - at == kMaxDigits) return kNoNumber;
    number = number * 10 + static_cast<size_t>(in[i] - '0');
  }
  if (i == in.size()) return kIncomplete;
  if (i == at || in[i] != '\r') return kNoNumber;
  if (i + 1 == in.size()) return kIncomplete;
  if (in[i + 1] != '\n') return kNoNumber;
  at = i + 2;
  return number;
}

// The same, without a loop for the lines of nearly all requests: one digit or two.
WEIR_HOT_INLINE size_t number_line(std::string_view in, size_t& at) {
  if (in.size() - at < 4) [[unlikely]]
    return any_number_line(in, at);
  const char* const text = in.data() + at;
  const auto digit = [text](size_t i) { return static_cast<unsigned>(text[i]) - '0'; };
  const unsigned first = digit(0);
  const unsigned second = digit(1);
  if (first <= 9 && text[1] == '\r' && text[2] == '\n') {
    at += 3;
    return first;
  }
  if (first <= 9 && second <= 9 && text[2] == '\r' && text[3] == '\n') {
    at += 4;
    return 10 * first + second;
  }
  return any_number_line(in, at);
}

}  // namespace

RespParser::Status RespParser::parse(std::string_view in) {
  count_ = 0;
  bytes_ = 0;
  if (in.empty()) return Status::kIncomplete;
  return in[0] == '*' ? parse_array(in) : parse_line(in);
}

RespParser::Status RespParser::parse_array(std::string_view in) {
  size_t at = 1;
  const size_t count = number_line(in, at);
  if (count == kIncomplete) return Status::kIncomplete;
  if (count == kNoNumber || count > kMaxRespArguments) return broken("invalid multibulk length");
  for (size_t i = 0; i < count; ++i) {
    if (at == in.size()) return Status::kIncomplete;
    if (in[at] != '$') return broken("expected '$' before an argument");
    ++at;
    const size_t size = number_line(in, at);
    if (size == kIncomplete) return Status::kIncomplete;
    if (size == kNoNumber || size > kMaxRespArgument) return broken("invalid bulk length");
    if (at + size + 2 > kMaxRespRequest) return broken("request too large");
    if (in.size() - at < size + 2) return Status::kIncomplete;
    if (in[at + size] != '\r' || in[at + size + 1] != '\n') {
      return broken("an argument does not end where its length says");
    }
    arguments_[i] = {in.data() + at, size};
    at += size + 2;
  }
  count_ = count;
  bytes_ = at;
  return Status::kComplete;
}

RespParser::Status RespParser::parse_line(std::string_view in) {
  const size_t newline = in.substr(0, kMaxRespLine).find('\n');
  if (newline == std::string_view::npos) {
    return in.size() < kMaxRespLine ? Status::kIncomplete : broken("too big inline request");
  }
  std::string_view line = in.substr(0, newline);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  size_t count = 0;
  for (size_t i = 0; i < line.size();) {
    if (is_space(line[i])) {
      ++i;
      continue;
    }
    if (count == kMaxRespArguments) return broken("too many words");
    const char quote = line[i] == '"' || line[i] == '\'' ? line[i] : '\0';
    size_t end = 0;
    if (quote != '\0') {
      end = line.find(quote, ++i);
      if (end == std::string_view::npos) return broken("unbalanced quotes in request");
      if (line.substr(i, end - i).find('\\') != std::string_view::npos) {
        return broken("escapes in quotes are not supported: send an array of bulk strings");
      }
      if (end + 1 < line.size() && !is_space(line[end + 1])) {
        return broken("unbalanced quotes in request");
      }
    } else {
      end = line.find_first_of(" \t", i);
      if (end == std::string_view::npos) end = line.size();
    }
    arguments_[count++] = line.substr(i, end - i);
    i = end + (quote != '\0' ? 1 : 0);
  }
  count_ = count;
  bytes_ = newline + 1;
  return Status::kComplete;
}

}  // namespace weir::frontends

#include "frontends/http/http_parser.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace weir::frontends {
namespace {

struct ParsedHead {
  HttpParseStatus status = HttpParseStatus::kIncomplete;
  HttpHead head;
  HttpFault fault;
  // Copies of the views, which do not outlive the parsing.
  std::string method, path, authorization;
};

// Parses a copy of exactly these bytes, so that a sanitizer detects reads beyond them.
ParsedHead parse_head(std::string_view text) {
  const std::vector<char> bytes(text.begin(), text.end());
  ParsedHead parsed;
  parsed.status = parse_http_head({bytes.data(), bytes.size()}, parsed.head, parsed.fault);
  parsed.method = parsed.head.method;
  parsed.path = parsed.head.path;
  parsed.authorization = parsed.head.authorization.value_or("none");
  return parsed;
}

// A head with a Host and these lines.
std::string head_with(const std::string& lines, const std::string& version = "1.1") {
  return "POST /x HTTP/" + version + "\r\nHost: h\r\n" + lines + "\r\n";
}

TEST(HttpHead, HasAMethodAPathAndFields) {
  const std::string text =
      "POST /v2/ratelimit.limit?a=/b HTTP/1.1\r\nhost: here\r\nAUTHORIZATION: \t Bearer x y \r\n"
      "Content-Length: 12\r\nX-Other: \xc3\xa9\t\"\r\nEmpty:\r\n\r\n";
  const ParsedHead parsed = parse_head(text + "body");
  ASSERT_EQ(parsed.status, HttpParseStatus::kComplete) << parsed.fault.detail;
  EXPECT_EQ(parsed.method, "POST");
  EXPECT_EQ(parsed.path, "/v2/ratelimit.limit");
  EXPECT_EQ(parsed.authorization, "Bearer x y");
  EXPECT_EQ(parsed.head.content_length, 12u);
  EXPECT_EQ(parsed.head.body_bytes(), 12u);
  EXPECT_FALSE(parsed.head.chunked);
  EXPECT_TRUE(parsed.head.keep_alive);
  EXPECT_FALSE(parsed.head.expects_continue);
  EXPECT_EQ(parsed.head.minor_version, 1);
  EXPECT_EQ(parsed.head.bytes, text.size());
}

TEST(HttpHead, FindsThePathInEveryFormOfTarget) {
  const std::pair<const char*, const char*> targets[] = {
      {"/", "/"},
      {"/a?b?c", "/a"},
      {"*", "*"},
      {"http://host/a?b", "/a"},
      {"http://host", "/"},
      {"http://host?q=/a", "/"},
      {"//host/a", "//host/a"},
      {"/a#b", "/a#b"},
  };
  for (const auto& [target, path] : targets) {
    const ParsedHead parsed =
        parse_head("GET " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_EQ(parsed.status, HttpParseStatus::kComplete) << target;
    EXPECT_EQ(parsed.path, path);
  }
}

TEST(HttpHead, KeepsTheConnectionAccordingToVersionAndHeader) {
  const std::tuple<const char*, const char*, bool> wishes[] = {
      {"1.1", "", true},
      {"1.0", "", false},
      {"1.1", "Connection: close\r\n", false},
      {"1.0", "Connection: Keep-Alive\r\n", true},
      {"1.1", "Connection: upgrade , CLOSE\r\n", false},
      {"1.1", "Connection: close, keep-alive\r\n", false},
      {"1.1", "Connection: close\r\nConnection: keep-alive\r\n", false},
      {"1.1", "Connection: closed\r\n", true},
      {"1.9", "", true},
  };
  for (const auto& [version, line, keeps] : wishes) {
    const ParsedHead parsed = parse_head(head_with(line, version));
    ASSERT_EQ(parsed.status, HttpParseStatus::kComplete);
    EXPECT_EQ(parsed.head.keep_alive, keeps) << version << " " << line;
  }
}

TEST(HttpHead, RequiresAHostSinceHttp11) {
  EXPECT_EQ(parse_head("GET / HTTP/1.0\r\n\r\n").status, HttpParseStatus::kComplete);
  EXPECT_EQ(parse_head("GET / HTTP/1.1\r\n\r\n").fault.detail, "no Host header");
}

TEST(HttpHead, DetectsExpectContinue) {
  EXPECT_TRUE(parse_head(head_with("Expect: 100-Continue\r\n")).head.expects_continue);
  // An HTTP/1.0 client would take 100 Continue for the final response.
  EXPECT_FALSE(parse_head(head_with("Expect: 100-continue\r\n", "1.0")).head.expects_continue);
}

TEST(HttpHead, IsRefusedForEveryBrokenRule) {
  const std::tuple<std::string, int, const char*> faults[] = {
      {"GET\r\n", 400, "the request line is not METHOD TARGET VERSION"},
      {"GET /\r\n", 400, "the request line is not METHOD TARGET VERSION"},
      {"GET / HTTP/1.1 \r\n", 400, "the target has a space or a control character in it"},
      {"GET /a b HTTP/1.1\r\n", 400, "the target has a space or a control character in it"},
      {"GET /\x01 HTTP/1.1\r\n", 400, "the target has a space or a control character in it"},
      {"GET /\x7f HTTP/1.1\r\n", 400, "the target has a space or a control character in it"},
      {"GET  HTTP/1.1\r\n", 400, "the target does not begin with /"},
      {"GET a HTTP/1.1\r\n", 400, "the target does not begin with /"},
      {"GET ?a://b/ HTTP/1.1\r\n", 400, "the target does not begin with /"},
      {"CONNECT host:80 HTTP/1.1\r\n", 400, "the target does not begin with /"},
      {" / HTTP/1.1\r\n", 400, "the method is not a token"},
      {"G\tT / HTTP/1.1\r\n", 400, "the method is not a token"},
      {"G(T / HTTP/1.1\r\n", 400, "the method is not a token"},
      {"GET / HTTP/11\r\n", 400, "the request line does not end in a version"},
      {"GET / HTTP/1.1x\r\n", 400, "the request line does not end in a version"},
      {"GET / HTTP/1.x\r\n", 400, "the request line does not end in a version"},
      {"GET / http/1.1\r\n", 400, "the request line does not end in a version"},
      {"GET / HTTP/2.0\r\n", 505, "only HTTP/1.1 and HTTP/1.0 are supported"},
      {"GET / HTTP/0.9\r\n", 505, "only HTTP/1.1 and HTTP/1.0 are supported"},
      {"\r\n", 400, "the request line is not METHOD TARGET VERSION"},
      {"GET / HTTP/1.1\n", 400, "a line does not end in CRLF"},
      {"\n", 400, "a line does not end in CRLF"},
      {"GET / HTTP/1.1\r\nHost: h\n", 400, "a line does not end in CRLF"},
      {"GET / HTTP/1.1\r\n\n", 400, "a line does not end in CRLF"},
      {head_with("Colonless\r\n"), 400, "a header line has no colon"},
      {head_with(": nameless\r\n"), 400, "a header name is not a token"},
      {head_with("Space : before\r\n"), 400, "a header name is not a token"},
      {head_with(" folded: line\r\n"), 400, "a header name is not a token"},
      {head_with("X: a\r\n folded\r\n"), 400, "a header line has no colon"},
      {head_with("X: a\rb\r\n"), 400, "a header value has a control character in it"},
      {head_with(std::string("X: a\0b\r\n", 8)), 400,
       "a header value has a control character in it"},
      {head_with("X: a\x7f\r\n"), 400, "a header value has a control character in it"},
      {head_with("HOST: again\r\n"), 400, "two Host headers"},
      {head_with("Authorization: a\r\nAuthorization: a\r\n"), 400, "two Authorization headers"},
      {head_with("Content-Length: 1\r\nContent-Length: 1\r\n"), 400, "two Content-Length headers"},
      {head_with("Content-Length: 1, 1\r\n"), 400, "Content-Length is not a number"},
      {head_with("Content-Length:\r\n"), 400, "Content-Length is not a number"},
      {head_with("Content-Length: -1\r\n"), 400, "Content-Length is not a number"},
      {head_with("Content-Length: +1\r\n"), 400, "Content-Length is not a number"},
      {head_with("Content-Length: 0x1\r\n"), 400, "Content-Length is not a number"},
      {head_with("Content-Length: 1000000000000000\r\n"), 400, "Content-Length is not a number"},
      {head_with("Content-Length: 1048577\r\n"), 413, "the body has more than 1 MiB"},
      {head_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400,
       "two Transfer-Encoding headers"},
      {head_with("Transfer-Encoding: gzip, chunked\r\n"), 501,
       "only Transfer-Encoding: chunked is supported"},
      {head_with("Transfer-Encoding: identity\r\n"), 501,
       "only Transfer-Encoding: chunked is supported"},
      {head_with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400,
       "both Content-Length and Transfer-Encoding"},
      {head_with("Transfer-Encoding: chunked\r\n", "1.0"), 400, "Transfer-Encoding in HTTP/1.0"},
      {head_with("Expect: a miracle\r\n"), 417, "only Expect: 100-continue is supported"},
  };
  for (const auto& [text, status, detail] : faults) {
    const ParsedHead parsed = parse_head(text);
    EXPECT_EQ(parsed.status, HttpParseStatus::kInvalid) << text;
    EXPECT_EQ(parsed.fault.status(), status) << text;
    EXPECT_EQ(parsed.fault.detail, detail) << text;
  }
}

TEST(HttpHead, AcceptsExactlyTheTokenCharacters) {
  const std::string allowed = "!#$%&'*+-.^_`|~0123456789abcXYZ";
  EXPECT_EQ(parse_head(head_with(allowed + ": x\r\n")).status, HttpParseStatus::kComplete);
  for (int c = 1; c < 256; ++c) {
    if (c == '\r' || c == '\n' || c == ':') continue;
    const bool token =
        std::isalnum(c) != 0 || allowed.find(static_cast<char>(c)) != std::string::npos;
    const ParsedHead parsed =
        parse_head(head_with("X" + std::string(1, static_cast<char>(c)) + ": x\r\n"));
    EXPECT_EQ(parsed.status == HttpParseStatus::kComplete, token) << c;
  }
}

TEST(HttpHead, IsAcceptedUpToItsMaximumSize) {
  const std::string around = head_with("X: \r\n");
  const auto of_size = [&](size_t size) {
    return head_with("X: " + std::string(size - around.size(), 'x') + "\r\n");
  };
  ASSERT_EQ(of_size(kMaxHttpHead).size(), kMaxHttpHead);
  EXPECT_EQ(parse_head(of_size(kMaxHttpHead)).status, HttpParseStatus::kComplete);
  EXPECT_EQ(parse_head(of_size(kMaxHttpHead + 1)).fault.status(), 431);
  EXPECT_EQ(parse_head(std::string(kMaxHttpHead - 1, 'x')).status, HttpParseStatus::kIncomplete);
  EXPECT_EQ(parse_head(std::string(kMaxHttpHead, 'x')).fault.status(), 431);
}

TEST(HttpHead, HasAtMostAHundredFields) {
  std::string lines;
  for (size_t i = 1; i < kMaxHttpFields; ++i) lines += "X: x\r\n";
  EXPECT_EQ(parse_head(head_with(lines)).status, HttpParseStatus::kComplete);
  EXPECT_EQ(parse_head(head_with(lines + "X: x\r\n")).fault.detail, "more than 100 headers");
}

TEST(HttpHead, AcceptsContentLengthUpToTheMaximum) {
  const ParsedHead parsed = parse_head(head_with("Content-Length: 1048576\r\n"));
  EXPECT_EQ(parsed.status, HttpParseStatus::kComplete);
  EXPECT_EQ(parsed.head.body_bytes(), kMaxHttpBody);
}

TEST(HttpHead, IsIncompleteAtEveryProperPrefix) {
  const std::string text = head_with("Content-Length: 5\r\nExpect: 100-continue\r\n");
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(parse_head(text.substr(0, size)).status, HttpParseStatus::kIncomplete) << size;
  }
  EXPECT_EQ(parse_head(text).status, HttpParseStatus::kComplete);
}

TEST(HttpHead, MayHaveEmptyLinesBeforeIt) {
  EXPECT_EQ(leading_empty_lines(""), 0u);
  EXPECT_EQ(leading_empty_lines("GET"), 0u);
  EXPECT_EQ(leading_empty_lines("\r"), 0u);
  EXPECT_EQ(leading_empty_lines("\r\n"), 2u);
  EXPECT_EQ(leading_empty_lines("\r\n\r\n\rGET"), 4u);
  EXPECT_EQ(leading_empty_lines("\nGET"), 0u);
}

struct Chunks {
  HttpParseStatus status = HttpParseStatus::kIncomplete;
  std::string body;
  size_t raw = 0;
  HttpFault fault;
};

// Decodes pieces as they arrive, in place.
Chunks decode(const std::vector<std::string>& pieces) {
  ChunkedBody chunked;
  Chunks decoded;
  std::vector<char> buffer;
  for (const std::string& piece : pieces) {
    std::vector<char> next(buffer);  // another buffer of the exact size
    next.insert(next.end(), piece.begin(), piece.end());
    buffer = std::move(next);
    decoded.status = chunked.decode(buffer.data(), buffer.size(), decoded.fault);
    if (decoded.status != HttpParseStatus::kIncomplete) break;
  }
  decoded.body.assign(buffer.data(), chunked.decoded());
  decoded.raw = chunked.raw();
  return decoded;
}

std::string hex(size_t number) {
  char text[20];
  std::snprintf(text, sizeof text, number % 2 == 0 ? "%zx" : "%zX", number);
  return text;
}

RC_GTEST_PROP(ChunkedBody, DecodesTheSameForAnyChunksAndAnyArrival, ()) {
  const auto chunks = *rc::gen::container<std::vector<std::string>>(
      rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::arbitrary<char>())));
  const auto trailers = *rc::gen::inRange(0, 3);
  std::string body;
  std::string sent;
  for (const std::string& chunk : chunks) {
    body += chunk;
    sent +=
        hex(chunk.size()) + (chunk.size() % 3 == 0 ? " ;a=\"b\"" : "") + "\r\n" + chunk + "\r\n";
  }
  sent += "000\r\n";
  for (int i = 0; i < trailers; ++i) sent += "X-Trailer: x\r\n";
  sent += "\r\n";
  std::vector<std::string> pieces;
  const std::string stream = sent + "GET / HTTP/1.1";
  for (size_t at = 0; at < stream.size();) {
    const auto size = *rc::gen::inRange<size_t>(1, 20);
    pieces.push_back(stream.substr(at, size));
    at += size;
  }
  for (const auto& arrival : {std::vector<std::string>{stream}, pieces}) {
    const Chunks decoded = decode(arrival);
    RC_ASSERT(decoded.status == HttpParseStatus::kComplete);
    RC_ASSERT(decoded.body == body);
    RC_ASSERT(decoded.raw == sent.size());
  }
}

TEST(ChunkedBody, IsIncompleteAtEveryProperPrefix) {
  const std::string sent = "4;x=y\r\nabcd\r\nA\r\n0123456789\r\n0\r\nT: t\r\n\r\n";
  for (size_t size = 0; size < sent.size(); ++size) {
    EXPECT_EQ(decode({sent.substr(0, size)}).status, HttpParseStatus::kIncomplete) << size;
  }
  const Chunks decoded = decode({sent});
  EXPECT_EQ(decoded.status, HttpParseStatus::kComplete);
  EXPECT_EQ(decoded.body, "abcd0123456789");
}

TEST(ChunkedBody, IsRefusedForEveryBrokenRule) {
  const std::string line(256, 'x');
  const std::tuple<std::string, int, const char*> faults[] = {
      {"\r\n", 400, "a chunk has no valid size"},
      {"x\r\n", 400, "a chunk has no valid size"},
      {"-1\r\n", 400, "a chunk has no valid size"},
      {"0x1\r\n", 400, "a chunk has no valid size"},
      {" 1\r\n", 400, "a chunk has no valid size"},
      {"1 1\r\n", 400, "a chunk has no valid size"},
      {";a\r\n", 400, "a chunk has no valid size"},
      {"000000001\r\n", 400, "a chunk has no valid size"},
      {"1\na", 400, "a line among the chunks does not end in CRLF"},
      {"\n", 400, "a line among the chunks does not end in CRLF"},
      {"1;a\rb\r\n", 400, "a line among the chunks has a control character in it"},
      {"1\r\nab\r\n", 400, "a chunk is longer than its size says"},
      {"1\r\na\n", 400, "a line among the chunks does not end in CRLF"},
      {"1;" + line, 400, "a line among the chunks is too long"},
      {"100001\r\n", 413, "the body has more than 1 MiB"},
      {"ffffffff\r\n", 413, "the body has more than 1 MiB"},
      {"0\r\nT: \x01\r\n", 400, "a line among the chunks has a control character in it"},
  };
  for (const auto& [text, status, detail] : faults) {
    for (const auto& arrival :
         {std::vector<std::string>{text}, std::vector<std::string>{text.substr(0, text.size() / 2),
                                                                   text.substr(text.size() / 2)}}) {
      const Chunks decoded = decode(arrival);
      EXPECT_EQ(decoded.status, HttpParseStatus::kInvalid) << text;
      EXPECT_EQ(decoded.fault.status(), status) << text;
      EXPECT_EQ(decoded.fault.detail, detail) << text;
    }
  }
}

TEST(ChunkedBody, IsAcceptedUpToItsMaximumSize) {
  const std::string half(kMaxHttpBody / 2, 'a');
  const std::string two = "80000\r\n" + half + "\r\n80000\r\n" + half + "\r\n";
  EXPECT_EQ(decode({two + "0\r\n\r\n"}).body.size(), kMaxHttpBody);
  EXPECT_EQ(decode({two + "1\r\n"}).fault.status(), 413);
  EXPECT_EQ(decode({"100000\r\n"}).status, HttpParseStatus::kIncomplete);
}

TEST(ChunkedBody, AcceptsLinesUpToTheMaximum) {
  const std::string extension(256 - 4, 'x');  // "1;" before it and CRLF behind
  EXPECT_EQ(decode({"1;" + extension + "\r\na\r\n0\r\n\r\n"}).body, "a");
  EXPECT_EQ(decode({"1;" + extension + "x\r\na\r\n0\r\n\r\n"}).fault.status(), 400);
}

TEST(ChunkedBody, AcceptsTrailersUpToTheMaximum) {
  const std::string line(128, 'x');
  std::string most;
  for (int i = 0; i < 32; ++i) most += line + "\r\n";
  EXPECT_EQ(decode({"0\r\n" + most + "\r\n"}).status, HttpParseStatus::kComplete);
  EXPECT_EQ(decode({"0\r\n" + most + "x\r\n"}).fault.status(), 431);
}

TEST(ChunkedBody, IsRefusedWhenMostOfItIsOverhead) {
  // One byte in each chunk, and a long extension.
  const std::string chunk = "1;" + std::string(200, 'x') + "\r\na\r\n";
  std::string sent;
  while (sent.size() <= 2 * kMaxHttpBody - chunk.size()) sent += chunk;
  EXPECT_EQ(decode({sent + "0\r\n\r\n"}).status, HttpParseStatus::kComplete);
  const Chunks decoded = decode({sent + chunk + chunk});
  EXPECT_EQ(decoded.fault.status(), 413);
  EXPECT_EQ(decoded.fault.detail, "the chunks are mostly overhead");
}

}  // namespace
}  // namespace weir::frontends

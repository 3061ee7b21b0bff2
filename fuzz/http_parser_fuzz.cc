// An HTTP head parses the same whatever follows it, and a chunked body parses the same wherever it
// is split.

#include <algorithm>

#include "frontends/http/http_parser.h"
#include "fuzz/input.h"

using weir::frontends::ChunkedBody;
using weir::frontends::HttpFault;
using weir::frontends::HttpHead;
using weir::frontends::HttpParseStatus;
using weir::fuzz::Exact;
using weir::fuzz::must;

namespace {

struct Head {
  HttpParseStatus status = HttpParseStatus::kIncomplete;
  size_t bytes = 0;
  std::string summary;
};

Head read_head(std::string_view text) {
  const Exact bytes(text);
  HttpHead head;
  HttpFault fault;
  Head read{.status = parse_http_head(bytes.view(), head, fault)};
  if (read.status == HttpParseStatus::kInvalid) {
    must(fault.status() >= 400 && !fault.detail.empty(), "a fault has a reason");
    read.summary = std::to_string(fault.status()) + " " + std::string(fault.detail);
  } else if (read.status == HttpParseStatus::kComplete) {
    must(head.bytes > 0 && head.bytes <= bytes.size(), "a head has bytes");
    must(bytes.holds(head.method), "the method is a view of the bytes");
    must(head.path == "/" || bytes.holds(head.path), "the path is a view of the bytes");
    must(head.body_bytes() <= weir::frontends::kMaxHttpBody, "a body is bounded");
    must(!(head.chunked && head.content_length), "a body has one length");
    read.bytes = head.bytes;
    read.summary = std::string(head.method) + " " + std::string(head.path) + " " +
                   std::string(head.authorization.value_or("-")) + " " +
                   std::to_string(head.body_bytes()) + (head.chunked ? " chunked" : "") +
                   (head.keep_alive ? " keep" : "") + (head.expects_continue ? " wait" : "");
  }
  return read;
}

std::string read_chunks(std::string_view first, std::string_view second) {
  ChunkedBody body;
  HttpFault fault;
  Exact bytes(first);
  HttpParseStatus status = body.decode(bytes.data(), bytes.size(), fault);
  if (status == HttpParseStatus::kIncomplete) {
    bytes = Exact(std::string(bytes.view()) + std::string(second));
    status = body.decode(bytes.data(), bytes.size(), fault);
  }
  must(body.decoded() <= body.raw() && body.raw() <= first.size() + second.size(),
       "a body is no longer than what was sent");
  if (status == HttpParseStatus::kInvalid) {
    return std::to_string(fault.status()) + " " + std::string(fault.detail);
  }
  return (status == HttpParseStatus::kComplete ? "whole: " : "not yet: ") +
         std::string(bytes.view().substr(0, body.decoded()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const size_t cut = input.cut();
  std::string_view text = input.text();
  const Head whole = read_head(text);
  const Head front = read_head(text.substr(0, cut));
  if (front.status != HttpParseStatus::kIncomplete) {
    weir::fuzz::must_equal(whole.summary, front.summary, "bytes after a head do not change it");
  }
  if (whole.status == HttpParseStatus::kComplete) text.remove_prefix(whole.bytes);
  const size_t split = std::min(cut, text.size());
  weir::fuzz::must_equal(read_chunks(text, ""),
                         read_chunks(text.substr(0, split), text.substr(split)),
                         "whole and split chunks parse the same");
  return 0;
}

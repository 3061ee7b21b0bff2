// A transaction returns the same answers as the same commands in a pipeline.

#include "frontends/fixture_test.h"
#include "frontends/resp/resp_session.h"
#include "fuzz/input.h"

using namespace weir::frontends;
using weir::fuzz::must;
using weir::fuzz::must_equal;

namespace {

struct QueuingClient {
  Fixture fixture{};
  RespScratch& scratch;
  RespSession session{fixture.service, scratch, 1};
  TestConnection line{fixture, session};

  QueuingClient(RespScratch& used) : scratch(used) {
    session.set_local_address([] { return Address{.host = "127.0.0.1", .port = 7071}; });
  }
};

// The requests of a text that can be queued until EXEC.
std::vector<std::string> requests_of(std::string_view text) {
  static RespParser parser;
  std::vector<std::string> requests;
  while (parser.parse(text) == RespParser::Status::kComplete) {
    const auto arguments = parser.arguments();
    const KnownCommand* const known = arguments.empty() ? nullptr : find_command(arguments[0]);
    if (known != nullptr && known->takes(arguments.size()) &&
        Transaction::is_queued(arguments[0])) {
      requests.emplace_back(text.substr(0, parser.bytes()));
    }
    text.remove_prefix(parser.bytes());
  }
  return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static RespScratch scratch;
  const std::vector<std::string> requests =
      requests_of({reinterpret_cast<const char*>(data), size});
  std::string pipeline;
  std::string queued = "+OK\r\n";
  for (const std::string& request : requests) {
    pipeline += request;
    queued += "+QUEUED\r\n";
  }
  QueuingClient plain(scratch);
  const std::string answers = plain.line.send(pipeline);
  must(plain.line.next == Next::kRead, "no queued command closes the connection");
  QueuingClient wrapped(scratch);
  must_equal(queued + "*" + std::to_string(requests.size()) + "\r\n" + answers + "+PONG\r\n",
             wrapped.line.send("MULTI\r\n" + pipeline + "EXEC\r\nPING\r\n"),
             "a transaction is answered as a pipeline");
  // A discarded transaction has no effect.
  QueuingClient discarded(scratch);
  must_equal(queued + "+OK\r\n", discarded.line.send("MULTI\r\n" + pipeline + "DISCARD\r\n"),
             "commands are queued");
  const auto stats = discarded.fixture.limiter.stats();
  must(stats.admitted + stats.denied + stats.tuples == 0, "nothing is decided before EXEC");
  return 0;
}

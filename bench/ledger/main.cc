// Measures how fast the production store writes rows to a ledger and reads all of them, with one
// connection and one thread.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/command_line.h"
#include "ledgers/sql/make_ledger.h"
#include "weir/clock.h"

namespace weir::bench {
namespace {

constexpr size_t kChunk = 500;  // rows per transaction, as the publisher writes them

struct Seconds {
  double inserted = 0;
  double updated = 0;
  double read = 0;
};

template <typename Work>
bool measure_time(double& seconds, const Work& work) {
  const MonoTime start = system_clock().now().mono;
  const std::optional<Error> error = work();
  seconds = static_cast<double>((system_clock().now().mono - start).count()) / 1e9;
  if (error) fmt::print(stderr, "weir_ledger_bench: {}: {}\n", error->detail, error->fix);
  return !error;
}

// A row of a window that does not end during the measurement.
LedgerRow make_row(WallTime now, size_t user, Count count) {
  return {.key = {.workspace = "acme",
                  .ns = "login",
                  .identifier = "user-" + std::to_string(user),
                  .duration = kMaxDuration},
          .sequence = now.time_since_epoch() / kMaxDuration,
          .region = "east",
          .count = count,
          .limit_seen = 10};
}

std::optional<Error> write(ledgers::LedgerStore& store, size_t rows, Count count) {
  const WallTime now = system_clock().now().wall;
  FeedPosition known;
  for (size_t first = 0; first < rows; first += kChunk) {
    std::vector<LedgerRow> batch;
    for (size_t i = first; i < std::min(rows, first + kChunk); ++i) {
      batch.push_back(make_row(now, i, count));
    }
    const auto written = store.publish("east", known, batch);
    if (!written) return written.error();
    known = *written;
  }
  return std::nullopt;
}

std::optional<Error> read_all(ledgers::LedgerStore& store, size_t rows) {
  LedgerPosition position;
  size_t found = 0;
  for (bool last = false; !last;) {
    const auto page = store.read_page("east", position);
    if (!page) return page.error();
    found += page->rows.size();
    position = page->next;
    last = page->last;
  }
  if (found >= rows) return std::nullopt;
  return Error{.detail = fmt::format("read {} of {} rows", found, rows),
               .fix = "use a ledger without other writers"};
}

int run(const std::string& url, size_t rows) {
  const auto address = ledgers::parse_ledger_address(url);
  if (!address) {
    fmt::print(stderr, "weir_ledger_bench: {}: {}\n", address.error().detail, address.error().fix);
    return 1;
  }
  const auto store = ledgers::make_store(system_clock(), *address, {.seed = 1});
  Seconds seconds;
  const bool done = measure_time(seconds.inserted, [&] { return write(*store, rows, 1); }) &&
                    measure_time(seconds.updated, [&] { return write(*store, rows, 2); }) &&
                    measure_time(seconds.read, [&] { return read_all(*store, rows); });
  if (!done) return 1;
  const auto count = static_cast<double>(rows);
  fmt::print(R"({{"rows":{},"inserted":{:.0f},"updated":{:.0f},"read":{:.3f}}})"
             "\n",
             rows, count / seconds.inserted, count / seconds.updated, seconds.read);
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  std::string url;
  size_t rows = 100'000;
  weir::bench::CommandLine options("weir_ledger_bench");
  options.text("--ledger", url);  // after weir migrate
  options.number<size_t>("--rows", rows, 1, 10'000'000);
  if (!options.parse(argc, argv)) return 2;
  return weir::bench::run(url, rows);
}

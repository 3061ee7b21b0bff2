#include "bench/memory_use.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <type_traits>

#include "bench/peers.h"
#include "bench/requests.h"
#include "weir/limiter.h"

namespace weir::bench {
namespace {

constexpr size_t kLongIdentifierBytes = 40;

uint64_t resident_bytes() {
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

template <typename Check>
void check_all_keys(const Check& check) {
  for (uint64_t n = 0; n < kKeys; ++n) check(identifier_number(n, kLongIdentifierBytes));
}

MemoryUse use_of_weir() {
  const uint64_t before = resident_bytes();
  const ManualClock clock;
  Limiter limiter = Limiter::create(clock, {.capacity = kKeys}).value();
  check_all_keys(
      [&](const std::string& identifier) { (void)limiter.check(kNow, request_for(identifier)); });
  const LimiterStats stats = limiter.stats();
  return {.tuples = stats.tuples,
          .sketched = stats.sketched,
          .resident_bytes = resident_bytes() - before,
          .reserved_bytes = stats.memory_bytes};
}

template <typename Peer>
MemoryUse use_of_peer() {
  const uint64_t before = resident_bytes();
  Peer peer({.keys = kKeys, .limit = kLimit, .duration = kDuration});
  check_all_keys([&](const std::string& identifier) { (void)peer.check(kNow, identifier); });
  return {.tuples = kKeys, .resident_bytes = resident_bytes() - before};
}

// Runs `measure` in a child process, so that no other allocation affects the result.
std::optional<MemoryUse> in_child(MemoryUse (*measure)()) {
  static_assert(std::is_trivially_copyable_v<MemoryUse>);
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    const MemoryUse use = measure();
    const bool sent = write(ends[1], &use, sizeof use) == sizeof use;
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  MemoryUse use;
  const bool received = child > 0 && read(ends[0], &use, sizeof use) == sizeof use;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return received ? std::optional(use) : std::nullopt;
}

}  // namespace

std::optional<MemoryUses> measure_memory() {
  const auto weir = in_child(use_of_weir);
  const auto map = in_child(use_of_peer<MapPeer>);
  const auto rate = in_child(use_of_peer<RatePeer>);
  if (!weir || !map || !rate) return std::nullopt;
  return MemoryUses{.weir = *weir, .map = *map, .rate = *rate};
}

}  // namespace weir::bench

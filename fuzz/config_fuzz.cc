// A settings file yields either a configuration within its ranges or problems with positions.

#include "decide/validate.h"
#include "fuzz/input.h"
#include "server/config.h"

using weir::fuzz::must;
using weir::server::Config;
using weir::server::is_loopback;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string yaml(reinterpret_cast<const char*>(data), size);
  Config config;
  const auto problems = read_config_text(yaml, config);
  for (const auto& problem : problems) {
    must(problem.line >= 0 && problem.column >= 0 && !problem.text.empty(),
         "a problem has a position");
  }
  if (problems.empty()) {
    must(config.check.rules.size() <= weir::kMaxBatch, "all rules fit into one batch");
    for (const auto& rule : config.check.rules) {
      must(weir::decide::find_error(rule.request("x")) == nullptr, "a rule is a valid request");
    }
  }
  must(config.threads <= 256, "threads are in range");
  const size_t capacity = config.memory_plan().capacity;
  must(capacity >= 64 && capacity <= size_t{1} << 28, "the capacity is in range");
  must(!config.region_name().empty() && config.region.size() <= 64, "the region is a name");
  must(config.node.size() <= 64 && !config.data.empty(), "names are names");
  const bool is_public =
      (config.http && !is_loopback(*config.http)) || (config.resp && !is_loopback(*config.resp));
  must(!find_conflict(config).empty() || config.allow_public || !is_public,
       "it listens on public addresses only if that is allowed");
  return 0;
}

#include "bench/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

namespace weir::bench {
namespace {

constexpr auto kUnknown = "unknown";

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// The value of the first line that begins with `name`, after its colon.
template <typename NextLine>
std::string value_of(const std::string& name, const NextLine& next_line) {
  std::string line;
  while (next_line(line)) {
    const size_t colon = line.find(':');
    if (line.starts_with(name) && colon != std::string::npos)
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

std::string from_file(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  return value_of(name, [&](std::string& line) { return bool(std::getline(file, line)); });
}

// /proc/cpuinfo of ARM kernels has numbers instead of a name; lscpu maps them.
std::string cpu_model() {
  const std::string named = from_file("/proc/cpuinfo", "model name");
  if (!named.empty()) return named;
  const std::unique_ptr<FILE, int (*)(FILE*)> lscpu(popen("lscpu 2>/dev/null", "r"), pclose);
  const auto next_line = [&](std::string& line) {
    char buffer[256];
    if (!lscpu || std::fgets(buffer, sizeof buffer, lscpu.get()) == nullptr) return false;
    line = buffer;
    return true;
  };
  const std::string from_lscpu = value_of("Model name", next_line);
  return from_lscpu.empty() ? kUnknown : from_lscpu;
}

std::string caches() {
  std::string all;
  for (int i = 0; i < 8; ++i) {
    const std::string cache = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(cache + "level");
    if (level.empty()) break;
    const std::string type = first_line(cache + "type");
    const char* kind = type == "Data" ? "d" : type == "Instruction" ? "i" : "";
    all +=
        fmt::format("{}L{}{} {}", all.empty() ? "" : ", ", level, kind, first_line(cache + "size"));
  }
  return all.empty() ? kUnknown : all;
}

std::string memory() {
  const std::string kib = from_file("/proc/meminfo", "MemTotal");
  return kib.empty() ? kUnknown : fmt::format("{:.1f} GiB", std::stod(kib) / (1 << 20));
}

std::string frequency_scaling() {
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return governor.empty() ? "unknown" : governor;
}

std::string huge_pages() {
  const std::string setting = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  return setting.empty() ? kUnknown : setting;
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  return text;
}

utsname system_names() {
  utsname names{};
  uname(&names);
  return names;
}

}  // namespace

std::string architecture() {
  return system_names().machine;
}

double load_average() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

Machine describe_machine() {
  const utsname names = system_names();
  return {{"date", date()},
          {"processor", cpu_model()},
          {"cores", std::to_string(std::thread::hardware_concurrency())},
          {"caches", caches()},
          {"memory", memory()},
          {"huge pages", huge_pages()},
          {"frequency scaling", frequency_scaling()},
          {"kernel", fmt::format("{} {} {}", names.sysname, names.release, names.machine)},
          {"compiler", fmt::format("{}, {}", WEIR_BENCH_COMPILER, WEIR_BENCH_FLAGS)},
          {"load average", first_line("/proc/loadavg")}};
}

}  // namespace weir::bench

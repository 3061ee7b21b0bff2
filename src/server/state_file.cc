#include "server/state_file.h"
#include "command_line/print_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace weir::server {
namespace {

constexpr std::string_view kTitle = "weir state 1\n";
// With the time of a write, a crash loses at most one second.
constexpr Millis kSaveEvery{500};
constexpr size_t kBlock = 1 << 20;
// A file is rewritten when it exceeds twice its size after the last full write, plus this.
constexpr uint64_t kGrowth = 4 << 20;

struct RecordHead {
  uint32_t bytes = 0;
  uint32_t check = 0;
};

// FNV-1a: detects an incomplete record.
uint32_t check_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Writes to a file in large blocks. Stops after the first failure.
class RecordWriter {
 public:
  explicit RecordWriter(int file) : file_(file) {}

  void add(std::string_view record) {
    const RecordHead head{.bytes = static_cast<uint32_t>(record.size()), .check = check_of(record)};
    buffer_.append(reinterpret_cast<const char*>(&head), sizeof head);
    buffer_ += record;
    if (buffer_.size() >= kBlock) flush();
  }
  void add_title() { buffer_ += kTitle; }

  // Whether everything is on the disk.
  [[nodiscard]] bool finish() {
    flush();
    return !failed_ && fdatasync(file_) == 0;
  }
  [[nodiscard]] uint64_t written() const { return written_; }

 private:
  void flush() {
    std::string_view rest = buffer_;
    while (!failed_ && !rest.empty()) {
      const ssize_t sent = write(file_, rest.data(), rest.size());
      if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
      failed_ = sent < 0 && errno != EINTR;
    }
    written_ += buffer_.size() - rest.size();
    buffer_.clear();
  }

  const int file_;
  std::string buffer_;
  uint64_t written_ = 0;
  bool failed_ = false;
};

// The prefix of a record that identifies the tuple.
std::string_view name_in(std::string_view record) {
  uint32_t bytes = 0;
  if (record.size() < sizeof bytes) return record;
  std::memcpy(&bytes, record.data(), sizeof bytes);
  return record.substr(0, sizeof bytes + bytes);
}

}  // namespace

void StateFile::restore(Limiter& limiter) {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = text;
  bool whole = rest.starts_with(kTitle);
  if (whole) rest.remove_prefix(kTitle.size());
  std::unordered_map<std::string_view, std::string_view> last;
  while (whole && !rest.empty()) {
    RecordHead head;
    whole = rest.size() >= sizeof head;
    if (!whole) break;
    std::memcpy(&head, rest.data(), sizeof head);
    const std::string_view record = rest.substr(sizeof head, head.bytes);
    whole = record.size() == head.bytes && check_of(record) == head.check;
    if (!whole) break;
    last[name_in(record)] = record;
    rest.remove_prefix(sizeof head + record.size());
  }
  if (!whole) {
    fmt::print(
        stderr,
        "weir: {} is damaged at byte {}: the records from there on are lost (gcra, token_bucket, "
        "sliding_window_strict, sliding_log)\n",
        path_, text.size() - rest.size());
  }
  const Instant now = clock_.now();
  for (const auto& [name, record] : last) (void)limiter.restore(now, record);
}

void StateFile::start(Limiter& limiter) {
  limiter_ = &limiter;
  writer_.start();
  writer_.post([this, &limiter] { run(limiter); });
}

void StateFile::stop() {
  if (Limiter* const limiter = std::exchange(limiter_, nullptr)) {
    writer_.post([this, limiter] { save(*limiter, Saving::kAll); });
    writer_.stop();
  }
  if (file_ >= 0) close(file_);
  file_ = -1;
}

void StateFile::run(Limiter& limiter) {
  save(limiter, Saving::kChanged);
  writer_.post_at(clock_.now().mono + kSaveEvery, [this, &limiter] { run(limiter); });
}

bool StateFile::save(Limiter& limiter, Saving saving) {
  bool stale = saving == Saving::kAll || file_ < 0 || bytes_ > 2 * whole_bytes_ + kGrowth;
  bool written = stale || append(limiter, stale);
  if (stale) written = rewrite(limiter);
  report(written);
  return written;
}

bool StateFile::append(Limiter& limiter, bool& stale) {
  RecordWriter writer(file_);
  const SaveReport report = limiter.save(clock_.now(), Saving::kChanged,
                                         [&](std::string_view record) { writer.add(record); });
  stale = report.stale;
  if (report.saved == 0) return true;
  const bool written = writer.finish();
  bytes_ += writer.written();
  // The limiter marks these records as saved: only a full write repairs that.
  if (!written) {
    const int error = errno;
    close(std::exchange(file_, -1));
    errno = error;
  }
  return written;
}

bool StateFile::rewrite(Limiter& limiter) {
  const std::string draft = path_ + ".new";
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0600);
  if (file < 0) return false;
  RecordWriter writer(file);
  writer.add_title();
  (void)limiter.save(clock_.now(), Saving::kAll,
                     [&](std::string_view record) { writer.add(record); });
  if (!writer.finish() || rename(draft.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    close(file);
    unlink(draft.c_str());
    // The old file lacks records that the limiter marks as saved.
    if (file_ >= 0) close(std::exchange(file_, -1));
    errno = error;
    return false;
  }
  if (file_ >= 0) close(file_);
  file_ = file;
  bytes_ = whole_bytes_ = writer.written();
  return true;
}

// Logs once when writing fails, and once when it works again.
void StateFile::report(bool written) {
  if (written == writable_) return;
  writable_ = written;
  if (written) {
    command_line::print_error("weir: writing {} works again\n", path_);
  } else {
    const char* const remedy = errno == ENOSPC || errno == EFBIG || errno == EDQUOT
                                   ? "free space on its disk"
                                   : "make it writable for this process";
    fmt::print(
        stderr,
        "weir: cannot write {}: {}; {}, or a restart loses the new counts of gcra, token_bucket, "
        "sliding_window_strict and sliding_log\n",
        path_, std::strerror(errno), remedy);
  }
}

}  // namespace weir::server

// A file in the data folder with the counts that neither an origin nor a ledger stores. Read at
// startup, written twice a second on its own thread.
//
// The file begins with a title line. Records follow, each with its length and a checksum; a later
// record of a tuple replaces the earlier ones. Changes are appended; when the file has grown, a new
// file with all records replaces it. A crash loses the admissions since the last write; an
// incomplete record is ignored.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "platform/thread_executor.h"
#include "weir/clock.h"
#include "weir/limiter.h"

namespace weir::server {

class StateFile {
 public:
  // Starts nothing; `file` need not exist.
  StateFile(const Clock& clock, std::string file) : clock_(clock), path_(std::move(file)) {}
  ~StateFile() { stop(); }
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Loads the file; logs if it is damaged. Before the first request.
  void restore(Limiter& limiter);

  // Writes changes until stop(), which writes everything once more.
  void start(Limiter& limiter);
  void stop();

  // Writes what is due; called by the writer thread, or by a test. False: writing failed.
  bool save(Limiter& limiter, Saving saving);

 private:
  void run(Limiter& limiter);
  [[nodiscard]] bool append(Limiter& limiter, bool& stale);
  [[nodiscard]] bool rewrite(Limiter& limiter);
  void report(bool written);

  const Clock& clock_;
  const std::string path_;
  Limiter* limiter_ = nullptr;  // while the writer runs
  platform::ThreadExecutor writer_;
  // On the writer's thread.
  int file_ = -1;             // opened for appending
  uint64_t bytes_ = 0;        // in the file
  uint64_t whole_bytes_ = 0;  // after the last full write
  bool writable_ = true;
};

}  // namespace weir::server

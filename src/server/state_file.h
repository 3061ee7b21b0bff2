// The counts of a lone process that no origin and no ledger keeps, in a file of its data folder:
// read at the start, written twice a second on a thread of its own.
//
// The file begins with a line that says what it is. Records follow, each with its length and a
// checksum; a later record of a tuple replaces the earlier ones. What changed is appended, and now
// and then all is written to a new file that takes the place of the old one. A process that dies
// loses what it accepted since the last write; a record that was not written whole is left out.

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
  // Not started: `file` need not be there.
  StateFile(const Clock& clock, std::string file) : clock_(clock), path_(std::move(file)) {}
  ~StateFile() { stop(); }
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Takes in what the file holds; says so if it is damaged. Before the first request.
  void restore(Limiter& limiter);

  // Writes what changes, until stop(), which writes all once more.
  void start(Limiter& limiter);
  void stop();

  // Writes what is due: by the thread of start(), or a test. False: it could not.
  bool save(Limiter& limiter, Saving saving);

 private:
  void run(Limiter& limiter);
  [[nodiscard]] bool append(Limiter& limiter, bool& stale);
  [[nodiscard]] bool rewrite(Limiter& limiter);
  void report(bool written);

  const Clock& clock_;
  const std::string path_;
  Limiter* limiter_ = nullptr;  // while it runs
  platform::ThreadExecutor writer_;
  // On the writer's thread.
  int file_ = -1;             // what is appended to
  uint64_t bytes_ = 0;        // in the file
  uint64_t whole_bytes_ = 0;  // when it was last written as a whole
  bool writable_ = true;
};

}  // namespace weir::server

// The catalog of a running process: a snapshot that requests look up, kept up to date by a thread
// that polls the store and writes to it.
//
// While the store does not answer, the last snapshot stays: known keys and overrides go on. A
// change reaches every process within a poll and the time of the query.
//
// Safe from any thread unless noted.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "catalog/catalog_store.h"
#include "catalog/creation_queue.h"
#include "catalog/snapshot.h"
#include "platform/thread_executor.h"
#include "weir/clock.h"
#include "weir/executor.h"

namespace weir::catalog {

enum class CatalogState : uint8_t {
  kNone,     // there is no store: only the configuration counts
  kLoading,  // nothing was read yet
  kReady,
  kLost,  // the store does not answer: what is not known may exist
};

class Catalog {
 public:
  struct Options {
    Millis poll{400};
    // Rows of deleted records are removed after this time. A process that has not polled for half
    // of it reads all again.
    Millis kept_deleted{std::chrono::hours(24)};
    size_t page = 1000;
    // Rows that wait to be written. Resets, which clients cause, may be half of them, so that the
    // changes of administrators find a place.
    size_t max_queued = 1000;
    // Entries of the audit log are deleted when they are older, and those of resets, which clients
    // cause, also when so many changes are newer.
    Millis audit_kept{std::chrono::hours(24 * 90)};
    uint64_t resets_in_audit = 1'000'000;
    size_t max_audit_reads = 100;  // that wait
  };

  // Without a store if `store` is null. The audit log is read, and expired rows are deleted, by
  // another thread with another store if there is one, so that changes do not wait for it.
  Catalog(const Clock& clock, std::unique_ptr<CatalogStore> store, Options options,
          std::unique_ptr<CatalogStore> reader = nullptr);
  Catalog(const Clock& clock, std::unique_ptr<CatalogStore> store)
      : Catalog(clock, std::move(store), Options()) {}
  ~Catalog() { stop(); }
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Once each. One thread at a time.
  void start();
  void stop();

  // Namespaces of a file; may be called again.
  void configure(ConfiguredNamespaces configured);

  // Grows when the snapshot is replaced.
  [[nodiscard]] uint64_t version() const { return version_.load(std::memory_order_acquire); }
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const;
  [[nodiscard]] CatalogState state() const { return state_.load(std::memory_order_relaxed); }
  // Whether this process should get no requests yet, because overrides and keys that exist are
  // not known: nothing was read to its end, and the store answers.
  [[nodiscard]] bool is_catching_up(MonoTime now) const;
  // When the store last returned rows, or this was made.
  [[nodiscard]] MonoTime progress() const { return progress_.load(std::memory_order_relaxed); }
  // Why the last call failed; empty if it succeeded.
  [[nodiscard]] std::string last_error() const;

  // Writes in one transaction, applies the change to the snapshot, then calls `done` on `home`.
  using WriteHandler = UniqueFunction<void(Result<uint64_t>)>;
  void write(std::vector<CatalogWrite> writes, Executor& home, WriteHandler done);
  // Creates a namespace that a request named, in the background; gives up if too many wait. Never
  // waits for the store.
  void create_namespace(std::string_view workspace, std::string_view name, std::string_view actor);
  using AuditHandler = UniqueFunction<void(Result<std::vector<AuditEntry>>)>;
  void read_audit(std::string workspace, AuditPosition before, size_t most, Executor& home,
                  AuditHandler done);

  // Writes what waits, and polls; for tests and for programs without a thread. Not between start()
  // and stop().
  [[nodiscard]] std::unique_ptr<Error> poll_once();
  // One step of the deletion of expired rows. True: there is more to do now.
  bool clean_once();

 private:
  struct Write {
    std::vector<CatalogWrite> writes;
    Executor* home = nullptr;
    WriteHandler done;
  };
  struct WriteQueue {
    std::vector<Write> writes;
    size_t rows = 0;
  };

  // Deletion of expired rows: where the next step begins.
  struct Cleaning {
    bool rows = false;  // a walk through the rows has begun
    std::string row{};
    uint64_t audit = 0;
    std::optional<uint64_t> trimmed_at{};  // the revision when the audit log was last trimmed
    std::optional<MonoTime> begun{};
  };

  void tick();
  void clean_tick();
  [[nodiscard]] platform::ThreadExecutor& slow_thread() { return reader_ ? reading_ : thread_; }
  [[nodiscard]] CatalogStore& slow_store() { return reader_ ? *reader_ : *store_; }
  [[nodiscard]] std::unique_ptr<Error> poll(MonoTime now);
  // False: none waited.
  bool run_writes();
  [[nodiscard]] std::vector<Write> take_writes() WEIR_REQUIRES(mutex_);
  void run_creations();
  void publish() WEIR_REQUIRES(build_mutex_);
  // Frees old snapshots that nobody uses any more.
  void free_retired() WEIR_REQUIRES(build_mutex_);
  void note(const Error* error);

  const Clock& clock_;
  const Options options_;
  const std::unique_ptr<CatalogStore> store_;
  const std::unique_ptr<CatalogStore> reader_;  // of the other thread; may be null

  // Held while snapshots are built, which may take long. Requests never take it.
  base::StdMutex build_mutex_;
  SnapshotBuilder builder_ WEIR_GUARDED_BY(build_mutex_);
  bool configured_ WEIR_GUARDED_BY(build_mutex_) = false;  // at least once
  // So that no request frees a large snapshot.
  std::vector<std::shared_ptr<const Snapshot>> retired_ WEIR_GUARDED_BY(build_mutex_);

  // Held to copy or to swap only.
  mutable base::StdMutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_ WEIR_GUARDED_BY(mutex_);
  WriteQueue changes_ WEIR_GUARDED_BY(mutex_);
  WriteQueue resets_ WEIR_GUARDED_BY(mutex_);  // writes with a reset
  std::string last_error_ WEIR_GUARDED_BY(mutex_);

  CreationQueue creations_;
  std::atomic<bool> creations_posted_{false};  // a task will drain them
  std::atomic<uint64_t> version_{1};
  std::atomic<CatalogState> state_;
  std::atomic<bool> running_{false};
  // While nothing was read to its end; relaxed: nothing depends on them.
  std::atomic<MonoTime> progress_;    // when the store answered last
  std::atomic<bool> gave_up_{false};  // it did not answer for too long
  std::atomic<size_t> audit_reads_{0};

  // Of the thread.
  CatalogHead read_to_;
  MonoTime polled_at_{};
  // Of the thread that cleans.
  Cleaning cleaning_;

  // Last, so that they end before what they use.
  platform::ThreadExecutor thread_;
  platform::ThreadExecutor reading_;
};

}  // namespace weir::catalog

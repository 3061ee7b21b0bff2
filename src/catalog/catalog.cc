#include "catalog/catalog.h"

#include <algorithm>
#include <utility>

namespace weir::catalog {
namespace {

constexpr Nanos kCleanEvery = std::chrono::hours(1);

Error overloaded() {
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "too many changes of the catalog wait",
          .fix = "send fewer at a time"};
}

Error no_store() {
  return {.code = ErrorCode::kUnavailable,
          .detail = "this server has no catalog",
          .fix = "start it with --ledger: the catalog is in the same database"};
}

Error stopped() {
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "this server is stopping",
          .fix = "send it again: another server answers"};
}

}  // namespace

Catalog::Catalog(const Clock& clock, std::unique_ptr<CatalogStore> store, Options options)
    : clock_(clock),
      options_(options),
      store_(std::move(store)),
      state_(store_ ? CatalogState::kLoading : CatalogState::kNone) {
  snapshot_ = builder_.build();
}

void Catalog::start() {
  if (!store_) return;
  running_.store(true, std::memory_order_relaxed);
  thread_.start();
  thread_.post([this] { tick(); });
}

void Catalog::stop() {
  running_.store(false, std::memory_order_relaxed);
  thread_.stop();
  std::vector<Write> left;
  {
    const base::MutexLock lock(mutex_);
    left.swap(writes_);
  }
  for (Write& write : left) {
    write.home->post([done = std::move(write.done)]() mutable { done(stopped()); });
  }
}

void Catalog::configure(ConfiguredNamespaces configured) {
  {
    const base::MutexLock lock(mutex_);
    builder_.configure(std::move(configured), configured_ ? clock_.now().wall : WallTime{});
    configured_ = true;
  }
  publish();
}

std::shared_ptr<const Snapshot> Catalog::snapshot() const {
  const base::MutexLock lock(mutex_);
  return snapshot_;
}

std::string Catalog::last_error() const {
  const base::MutexLock lock(mutex_);
  return last_error_;
}

void Catalog::write(std::vector<CatalogWrite> writes, Executor& home, WriteHandler done) {
  bool queued = false;
  if (store_) {
    const base::MutexLock lock(mutex_);
    queued = writes_.size() < options_.max_queued;
    if (queued) {
      writes_.push_back({.writes = std::move(writes), .home = &home, .done = std::move(done)});
    }
  }
  if (queued) {
    thread_.post([this] { run_writes(); });
  } else {
    home.post([done = std::move(done), error = store_ ? overloaded() : no_store()]() mutable {
      done(std::move(error));
    });
  }
}

void Catalog::create_namespace(std::string_view workspace, std::string_view name,
                               std::string actor) {
  if (!store_) return;
  Namespace ns{.id = namespace_id(workspace, name),
               .workspace = std::string(workspace),
               .name = std::string(name),
               .values = {},
               .created = clock_.now().wall};
  CatalogWrite write{.row = row_of(ns),
                     .existing = Existing::kKeep,
                     .audit = {.workspace = ns.workspace,
                               .actor = std::move(actor),
                               .action = "namespace.create",
                               .target = ns.id,
                               .detail = "by the first request"}};
  {
    const base::MutexLock lock(mutex_);
    if (creates_.size() >= options_.max_creates) return;
    if (!creating_.emplace(ns.workspace, ns.name).second) return;
    creates_.push_back(std::move(write));
    if (creates_.size() > 1) return;  // a task will write it, too
  }
  thread_.post([this] { run_creates(); });
}

void Catalog::read_audit(std::string workspace, uint64_t before, size_t most, Executor& home,
                         AuditHandler done) {
  if (!store_) {
    home.post([done = std::move(done)]() mutable { done(no_store()); });
    return;
  }
  thread_.post([this, workspace = std::move(workspace), before, most, &home,
                done = std::move(done)]() mutable {
    auto entries = store_->read_audit(workspace, before, most);
    note(entries ? nullptr : &entries.error());
    home.post([done = std::move(done), entries = std::move(entries)]() mutable {
      done(std::move(entries));
    });
  });
}

void Catalog::tick() {
  if (!running_.load(std::memory_order_relaxed)) return;
  const MonoTime now = clock_.now().mono;
  (void)poll(now);
  if (now - cleaned_at_ >= kCleanEvery) clean();
  thread_.post_at(clock_.now().mono + options_.poll, [this] { tick(); });
}

std::unique_ptr<Error> Catalog::poll_once() {
  return store_ ? poll(clock_.now().mono) : nullptr;
}

std::unique_ptr<Error> Catalog::poll(MonoTime now) {
  const bool missed =
      state() != CatalogState::kLoading && now - polled_at_ >= Nanos(options_.kept_deleted) / 2;
  const auto head = store_->revision();
  if (!head) {
    note(&head.error());
    return std::make_unique<Error>(head.error());
  }
  // A smaller revision: another database has replaced this one.
  const bool again = missed || *head < read_to_.revision;
  CatalogPosition at = again ? CatalogPosition{} : read_to_;
  std::vector<CatalogRow> rows;
  for (bool more = at.revision < *head; more;) {
    auto page = store_->read_after(at, options_.page);
    if (!page) {
      note(&page.error());
      return std::make_unique<Error>(page.error());
    }
    more = page->size() == options_.page;
    for (CatalogRow& row : *page) rows.push_back(std::move(row));
    if (!rows.empty()) at = {.revision = rows.back().revision, .id = rows.back().id};
  }
  // Behind all rows of this revision.
  read_to_ = at.revision >= *head ? at : CatalogPosition{.revision = *head, .id = "\xff"};
  polled_at_ = now;
  if (!rows.empty() || again) {
    {
      const base::MutexLock lock(mutex_);
      if (again) builder_.clear();
      for (const CatalogRow& row : rows) builder_.apply(row);
    }
    publish();
  }
  note(nullptr);
  state_.store(CatalogState::kReady, std::memory_order_relaxed);
  return nullptr;
}

// The writes that have come are applied together: to index many overrides again takes a while.
void Catalog::run_writes() {
  std::vector<Write> writes;
  {
    const base::MutexLock lock(mutex_);
    writes.swap(writes_);
  }
  if (writes.empty()) return;
  std::vector<Result<uint64_t>> results;
  for (const Write& write : writes) {
    results.push_back(store_->write(write.writes));
    note(results.back() ? nullptr : &results.back().error());
  }
  (void)poll(clock_.now().mono);
  for (size_t i = 0; i < writes.size(); ++i) {
    Write& write = writes[i];
    write.home->post([done = std::move(write.done), result = std::move(results[i])]() mutable {
      done(std::move(result));
    });
  }
}

// In one transaction, so that many of them do not delay the changes of administrators.
void Catalog::run_creates() {
  std::vector<CatalogWrite> creates;
  {
    const base::MutexLock lock(mutex_);
    creates.swap(creates_);
  }
  if (creates.empty()) return;
  const auto written = store_->write(creates);
  note(written ? nullptr : &written.error());
  (void)poll(clock_.now().mono);
  const base::MutexLock lock(mutex_);
  for (const CatalogWrite& each : creates) creating_.erase({each.row.workspace, each.row.name});
}

void Catalog::publish() {
  const base::MutexLock lock(mutex_);
  snapshot_ = builder_.build();
  version_.fetch_add(1, std::memory_order_release);
}

void Catalog::note(const Error* error) {
  if (error != nullptr && error->retry == Retry::kMayHelp && state() == CatalogState::kReady) {
    state_.store(CatalogState::kLost, std::memory_order_relaxed);
  }
  const base::MutexLock lock(mutex_);
  last_error_ = error == nullptr ? "" : error->detail + "; " + error->fix;
}

void Catalog::clean() {
  cleaned_at_ = clock_.now().mono;
  (void)store_->clean(clock_.now().wall - options_.kept_deleted);
}

}  // namespace weir::catalog

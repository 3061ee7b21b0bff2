#include "catalog/catalog.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir::catalog {
namespace {

constexpr Nanos kCleanEvery = std::chrono::hours(1);
// Rows of resets that are written before changes are looked for again.
constexpr size_t kResetRows = 100;

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
    left = std::move(changes_.writes);
    std::ranges::move(resets_.writes, std::back_inserter(left));
    changes_ = {};
    resets_ = {};
  }
  for (Write& write : left) {
    write.home->post([done = std::move(write.done)]() mutable { done(stopped()); });
  }
}

void Catalog::configure(ConfiguredNamespaces configured) {
  const base::MutexLock lock(build_mutex_);
  builder_.configure(std::move(configured), configured_ ? clock_.now().wall : WallTime{});
  configured_ = true;
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
    const bool resets =
        std::ranges::any_of(writes, [](const CatalogWrite& each) { return each.row.kind == 'r'; });
    const size_t rows = writes.size();
    const base::MutexLock lock(mutex_);
    const size_t most = options_.max_queued;
    queued =
        changes_.rows + resets_.rows + rows <= most && (!resets || resets_.rows + rows <= most / 2);
    if (queued) {
      WriteQueue& queue = resets ? resets_ : changes_;
      queue.rows += rows;
      queue.writes.push_back({.writes = std::move(writes), .home = &home, .done = std::move(done)});
    }
  }
  if (queued) {
    // One task for each write: each of them runs one at least.
    thread_.post([this] { (void)run_writes(); });
  } else {
    home.post([done = std::move(done), error = store_ ? overloaded() : no_store()]() mutable {
      done(std::move(error));
    });
  }
}

void Catalog::create_namespace(std::string_view workspace, std::string_view name,
                               std::string_view actor) {
  if (!store_ || !creations_.add(workspace, name, actor)) return;
  // The task that drains clears the flag first, so a creation behind it has a task of its own.
  if (creations_posted_.exchange(true, std::memory_order_acq_rel)) return;
  thread_.post([this] { run_creations(); });
}

void Catalog::read_audit(std::string workspace, AuditPosition before, size_t most, Executor& home,
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
  run_creations();
  (void)poll(now);
  if (now - cleaned_at_ >= kCleanEvery) clean();
  {
    const base::MutexLock lock(build_mutex_);
    free_retired();
  }
  thread_.post_at(clock_.now().mono + options_.poll, [this] { tick(); });
}

std::unique_ptr<Error> Catalog::poll_once() {
  if (!store_) return nullptr;
  while (run_writes()) continue;
  run_creations();
  return poll(clock_.now().mono);
}

std::unique_ptr<Error> Catalog::poll(MonoTime now) {
  const bool missed =
      state() != CatalogState::kLoading && now - polled_at_ >= Nanos(options_.kept_deleted) / 2;
  const auto heads = store_->read_heads(read_to_.revision);
  if (!heads) {
    note(&heads.error());
    return std::make_unique<Error>(heads.error());
  }
  const CatalogHead last = heads->last;
  // Another nonce: another database, or an older backup of this one, has replaced it.
  const bool again = missed || heads->known_nonce != read_to_.nonce;
  CatalogPosition at;
  // Behind all rows of this revision.
  if (!again) at = {.revision = read_to_.revision, .id = "\xff"};
  std::vector<CatalogRow> rows;
  for (bool more = at.revision < last.revision; more;) {
    auto page = store_->read_after(at, options_.page);
    if (!page) {
      note(&page.error());
      return std::make_unique<Error>(page.error());
    }
    more = page->size() == options_.page;
    for (CatalogRow& row : *page) rows.push_back(std::move(row));
    if (!rows.empty()) at = {.revision = rows.back().revision, .id = rows.back().id};
  }
  // Rows of a later revision are read once more: its nonce is not known.
  read_to_ = last;
  polled_at_ = now;
  if (!rows.empty() || again) {
    const base::MutexLock lock(build_mutex_);
    if (again) builder_.clear();
    for (const CatalogRow& row : rows) builder_.apply(row);
    publish();
  }
  note(nullptr);
  state_.store(CatalogState::kReady, std::memory_order_relaxed);
  return nullptr;
}

// All changes, then some resets.
std::vector<Catalog::Write> Catalog::take_writes() {
  std::vector<Write> taken = std::move(changes_.writes);
  changes_ = {};
  size_t rows = 0;
  auto end = resets_.writes.begin();
  while (end != resets_.writes.end() && rows < kResetRows) rows += (end++)->writes.size();
  std::ranges::move(resets_.writes.begin(), end, std::back_inserter(taken));
  resets_.writes.erase(resets_.writes.begin(), end);
  resets_.rows -= rows;
  return taken;
}

// The writes that have come are applied together: to index many overrides again takes a while.
bool Catalog::run_writes() {
  std::vector<Write> writes;
  {
    const base::MutexLock lock(mutex_);
    writes = take_writes();
  }
  if (writes.empty()) return false;
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
  return true;
}

// In one transaction, so that many of them do not delay the changes of administrators.
void Catalog::run_creations() {
  // Not a store: drain() must not read the slots before it. A creation that finds the flag set is
  // seen here.
  (void)creations_posted_.exchange(false, std::memory_order_acq_rel);
  const CreationQueue::Drained drained = creations_.drain();
  if (drained.creations.empty()) return;
  std::vector<CatalogWrite> writes;
  for (const CreationQueue::Creation& each : drained.creations) {
    Namespace ns{.id = namespace_id(each.workspace, each.name),
                 .workspace = each.workspace,
                 .name = each.name,
                 .values = {},
                 .created = clock_.now().wall};
    writes.push_back({.row = row_of(ns),
                      .existing = Existing::kKeep,
                      .audit = {.workspace = ns.workspace,
                                .actor = each.actor,
                                .action = "namespace.create",
                                .target = ns.id,
                                .detail = "by the first request"}});
  }
  const auto written = store_->write(writes);
  note(written ? nullptr : &written.error());
  (void)poll(clock_.now().mono);
  creations_.release(drained);
}

void Catalog::publish() {
  auto next = builder_.build();
  {
    const base::MutexLock lock(mutex_);
    next.swap(snapshot_);
  }
  free_retired();
  retired_.push_back(std::move(next));
  version_.fetch_add(1, std::memory_order_release);  // publishes the snapshot
}

void Catalog::free_retired() {
  // Nobody can take another reference.
  std::erase_if(retired_, [](const auto& each) { return each.use_count() == 1; });
}

void Catalog::note(const Error* error) {
  if (error != nullptr && error->retry == Retry::kMayHelp && state() == CatalogState::kReady) {
    state_.store(CatalogState::kLost, std::memory_order_relaxed);
  }
  const base::MutexLock lock(mutex_);
  last_error_ = error == nullptr ? "" : error->detail + "; " + error->fix;
}

void Catalog::clean() {
  const Instant now = clock_.now();
  cleaned_at_ = now.mono;
  (void)store_->clean(now.wall - options_.kept_deleted);
  const base::MutexLock lock(build_mutex_);
  if (builder_.forget_expired(now.wall)) publish();
}

}  // namespace weir::catalog

#include "catalog/catalog.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir::catalog {
namespace {

// How often all rows are looked at, how often those that may have expired since, and for how long
// at a time.
constexpr Nanos kCleanEvery = std::chrono::hours(1);
constexpr Nanos kCleanTick = std::chrono::seconds(1);
constexpr Nanos kCleanSlice = std::chrono::milliseconds(50);
constexpr size_t kCleanedAtOnce = 1000;
// A process that has read nothing waits so long for a store that does not answer.
constexpr Nanos kMaxSilence = std::chrono::seconds(10);
// Rows of resets that are written before changes are looked for again.
constexpr size_t kResetRows = 100;

Error overloaded() {
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "too many changes of the catalog wait",
          .fix = "send fewer at a time"};
}

Error too_many_reads() {
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "too many pages of the audit log are being read",
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

Catalog::Catalog(const Clock& clock, std::unique_ptr<CatalogStore> store, Options options,
                 std::unique_ptr<CatalogStore> reader)
    : clock_(clock),
      options_(options),
      store_(std::move(store)),
      reader_(std::move(reader)),
      state_(store_ ? CatalogState::kLoading : CatalogState::kNone),
      progress_(clock.now().mono) {
  snapshot_ = builder_.build();
}

void Catalog::start() {
  if (!store_) return;
  running_.store(true, std::memory_order_relaxed);
  thread_.start();
  thread_.post([this] { tick(); });
  if (reader_) reading_.start();
  slow_thread().post([this] { clean_tick(); });
}

void Catalog::stop() {
  running_.store(false, std::memory_order_relaxed);
  thread_.stop();
  reading_.stop();
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
  if (audit_reads_.fetch_add(1, std::memory_order_relaxed) >= options_.max_audit_reads) {
    audit_reads_.fetch_sub(1, std::memory_order_relaxed);
    home.post([done = std::move(done)]() mutable { done(too_many_reads()); });
    return;
  }
  slow_thread().post([this, workspace = std::move(workspace), before, most, &home,
                      done = std::move(done)]() mutable {
    auto entries = slow_store().read_audit(workspace, before, most);
    audit_reads_.fetch_sub(1, std::memory_order_relaxed);
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
  const auto failed = [&](const Error& error) {
    note(&error);
    return std::make_unique<Error>(error);
  };
  const auto heads = store_->read_heads(read_to_.revision);
  if (!heads) return failed(heads.error());
  const CatalogHead last = heads->last;
  // Another nonce: another database, or an older backup of this one, has replaced it.
  const bool again = missed || heads->known_nonce != read_to_.nonce;
  // Until all was read again, requests find what is known.
  SnapshotBuilder fresh;
  CatalogPosition at;
  // Behind all rows of this revision.
  if (!again) at = {.revision = read_to_.revision, .id = "\xff"};
  bool any = false;
  // Rows of a later revision need not be read now: they come with the next poll.
  for (bool more = at.revision < last.revision; more;) {
    progress_.store(clock_.now().mono, std::memory_order_relaxed);
    const auto page = store_->read_after(at, options_.page);
    if (!page) return failed(page.error());
    if (page->empty()) break;
    at = {.revision = page->back().revision, .id = page->back().id};
    more = page->size() == options_.page && at.revision <= last.revision;
    any = true;
    const base::MutexLock lock(build_mutex_);
    for (const CatalogRow& row : *page) (again ? fresh : builder_).apply(row);
  }
  // Rows of a later revision are read once more: its nonce is not known.
  read_to_ = last;
  polled_at_ = now;
  if (any || again) {
    const base::MutexLock lock(build_mutex_);
    if (again) {
      fresh.take_configuration(builder_);
      builder_ = std::move(fresh);
    }
    publish();
  }
  note(nullptr);
  state_.store(CatalogState::kReady, std::memory_order_relaxed);
  return nullptr;
}

bool Catalog::is_catching_up(MonoTime now) const {
  return state() == CatalogState::kLoading && !gave_up_.load(std::memory_order_relaxed) &&
         now - progress_.load(std::memory_order_relaxed) < kMaxSilence;
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
  if (error != nullptr && state() == CatalogState::kLoading && !is_catching_up(clock_.now().mono)) {
    gave_up_.store(true, std::memory_order_relaxed);
  }
  const base::MutexLock lock(mutex_);
  last_error_ = error == nullptr ? "" : error->detail + "; " + error->fix;
}

void Catalog::clean_tick() {
  if (!running_.load(std::memory_order_relaxed)) return;
  const MonoTime start = clock_.now().mono;
  while (clean_once() && clock_.now().mono - start < kCleanSlice) continue;
  slow_thread().post_at(clock_.now().mono + kCleanTick, [this] { clean_tick(); });
}

bool Catalog::clean_once() {
  if (!store_) return false;
  const Instant now = clock_.now();
  if (!cleaning_.begun || now.mono - *cleaning_.begun >= kCleanEvery) {
    cleaning_ = {.rows = true, .begun = now.mono};
    const base::MutexLock lock(build_mutex_);
    if (builder_.forget_expired(now.wall)) publish();
  }
  CatalogStore& store = slow_store();
  if (cleaning_.rows) {
    auto cleaned =
        store.clean_rows(cleaning_.row, now.wall - options_.kept_deleted, kCleanedAtOnce);
    if (!cleaned) return false;
    cleaning_.row = std::move(cleaned->last);
    cleaning_.rows = !cleaning_.row.empty();
    return true;
  }
  const uint64_t head = snapshot()->revision();
  if (cleaning_.trimmed_at == head) return false;
  const auto cleaned =
      store.clean_audit(cleaning_.audit,
                        {.before = now.wall - options_.audit_kept,
                         .resets_before = head - std::min(head, options_.resets_in_audit)},
                        kCleanedAtOnce);
  if (!cleaned) return false;
  cleaning_.audit = cleaned->last;
  if (!cleaned->more) cleaning_.trimmed_at = head;
  return cleaned->more;
}

}  // namespace weir::catalog

#include "frontends/http/http_session.h"

#include <memory>
#include <utility>
#include <vector>

#include "frontends/http/request_id.h"

namespace weir::frontends {

void HttpSession::catalog_call(std::string_view body) {
  if (pending_ != nullptr) {
    if (!pending_->ready) {
      waiting_ = true;
      return;
    }
    return finish(*std::exchange(pending_, nullptr)->reply);
  }
  if (service_.catalog.state() == catalog::CatalogState::kLoading) {
    return finish({.error = HttpError::kUnavailable,
                   .detail = "the catalog was not read yet: send the request again"});
  }
  // `access_` points into this snapshot, so no newer one may replace it now.
  CatalogReply reply = operation_->run({.access = access_,
                                        .snapshot = *scratch_.catalog.pin(),
                                        .body = body,
                                        .now = now_.wall,
                                        .random = service_.random});
  if (reply.writes.empty() && !reply.audit) return finish(reply);
  if (executor_ == nullptr) {
    return fail(HttpError::kUnavailable, "this connection cannot wait for the catalog");
  }
  pending_ = std::make_shared<Pending>();
  pending_->detached = waiting_ = true;
  // Only the operator may learn where the database is.
  const bool shows_error = access_.is_root();
  const auto done = [pending = pending_, wake = wake_, shows_error](const Error* error) {
    if (error != nullptr && catalog::is_conflict(*error)) {
      *pending->reply = {.error = HttpError::kConflict,
                         .detail = error->detail + ": " + error->fix};
    } else if (error != nullptr) {
      *pending->reply = {.error = HttpError::kUnavailable,
                         .detail = shows_error ? error->detail + ": " + error->fix
                                               : "the catalog does not answer: send it again"};
    }
    pending->ready = true;
    (*wake)();
  };
  std::vector<catalog::CatalogWrite> writes = std::move(reply.writes);
  pending_->reply = std::move(reply);
  if (!writes.empty()) {
    service_.catalog.write(std::move(writes), *executor_, [done](Result<uint64_t> written) {
      done(written ? nullptr : &written.error());
    });
    return;
  }
  const CatalogReply::AuditPage& page = *pending_->reply->audit;
  service_.catalog.read_audit(
      page.workspace, page.before, page.most + 1, *executor_,
      [done, pending = pending_](Result<std::vector<catalog::AuditEntry>> entries) {
        if (entries) complete(*entries, *pending->reply);
        done(entries ? nullptr : &entries.error());
      });
}

void HttpSession::finish(const CatalogReply& reply) {
  if (reply.error != HttpError::kNone) {
    scratch_.problems = reply.problems;
    fail(reply.error, reply.detail);
    if (reply.error == HttpError::kUnavailable) scratch_.fields.append("Retry-After: 1\r\n");
    return;
  }
  Bytes& out = scratch_.body;
  out.append(R"({"meta":{"requestId":")");
  append_request_id(out, scratch_.id_state);
  out.append_all(std::string_view(R"("},"data":)"), std::string_view(reply.data));
  if (!reply.pagination.empty()) {
    out.append_all(std::string_view(R"(,"pagination":)"), std::string_view(reply.pagination));
  }
  out.append('}');
}

}  // namespace weir::frontends

#include "frontends/resp/resp_errors.h"

namespace weir::frontends {

RespError to_resp_error(const Resolved& resolved, catalog::Verb verb) {
  switch (resolved.resolution) {
    case Resolution::kReady: break;
    case Resolution::kForbidden:
      return "NOPERM the key lacks the permission " +
             catalog::permission_for(verb, resolved.ns->record.id);
    case Resolution::kUnknown:
    case Resolution::kUnknownId:
    case Resolution::kNoRight:
      return "ERR the namespace does not exist in this workspace, " +
             why_unknown(resolved.resolution, verb);
    case Resolution::kGone: return "ERR the namespace was deleted: create it again";
    case Resolution::kNoLimit: return "ERR limit is missing: give it a value";
  }
  return {};
}

}  // namespace weir::frontends

// The path of a request in one form, so that no other spelling of a path escapes its rule.
//
// Removes the query and the fragment, decodes percent-encoded bytes, merges slashes, and resolves
// the segments "." and "..". Stay encoded, in upper case: / % ? # and control characters. Keeps the
// case of letters and a slash at the end. Normal paths do not change.

#pragma once

#include <string>
#include <string_view>

namespace weir::frontends {

// `target` is a path, or a URL with a scheme. Replaces the text in `out`.
void normalize_path(std::string_view target, std::string& out);

}  // namespace weir::frontends

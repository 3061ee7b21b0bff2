// The path of a request in one form, so that no other spelling of a path escapes its rule.
//
// Removes the query and the fragment, decodes percent-encoded bytes, merges slashes, and resolves
// the segments "." and "..". Stay encoded, in upper case: / % ? # and control characters. Keeps the
// case of letters and a slash at the end. Normal paths do not change.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::frontends {

// `target` is a path, or a URL with a scheme. Replaces the text in `out`.
void normalize_path(std::string_view target, std::string& out);

// The other paths that an application may take `target` for, in normal form: one that takes a
// backslash or an encoded slash for a slash, or removes the parameters of a segment ("/a;b=c" is
// "/a"), before or after it decodes. The path that reads most of them comes first. Replaces the
// texts in `out`; none, if `target` has nothing of it.
void other_readings(std::string_view target, std::vector<std::string>& out);

}  // namespace weir::frontends

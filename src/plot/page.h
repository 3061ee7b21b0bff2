// The HTML template of all reports: one file that needs no network and no other file, follows the
// reader's light or dark scheme, and can be printed.

#pragma once

#include <string>

namespace weir::plot {

struct Page {
  std::string title;  // of the browser tab; escaped here
  std::string body;   // HTML
};
[[nodiscard]] std::string to_html(const Page& page);

}  // namespace weir::plot

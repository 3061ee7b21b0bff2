#include "plot/page.h"

#include <fmt/format.h>

#include "plot/page_style.h"
#include "plot/text.h"

namespace weir::plot {

std::string to_html(const Page& page) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>{}</title><style>{}</style></head>\n<body><main>\n{}</main>"
      "<script>{}</script></body></html>\n",
      escape_html(page.title), kPageStyle, page.body, kPageScript);
}

}  // namespace weir::plot

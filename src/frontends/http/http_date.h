// The value of a Date header.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace weir::frontends {

// Sun, 06 Nov 1994 08:49:37 GMT
inline std::string http_date(int64_t second) {
  using namespace std::chrono;
  const sys_seconds time{seconds(second)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  char text[40];
  std::snprintf(text, sizeof text, "%.3s, %02u %.3s %04d %02d:%02d:%02d GMT",
                kDays.data() + 3 * weekday(day).c_encoding(), unsigned{date.day()},
                kMonths.data() + 3 * (unsigned{date.month()} - 1), int{date.year()},
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

}  // namespace weir::frontends

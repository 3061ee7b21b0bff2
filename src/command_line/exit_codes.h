// What the command line ends with.

#pragma once

namespace weir::command_line {

inline constexpr int kFailed = 1;
inline constexpr int kAskedWrongly = 2;
inline constexpr int kStopped = 130;  // as a shell says of what Ctrl-C ended

}  // namespace weir::command_line

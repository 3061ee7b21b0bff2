// Exit codes of all programs.

#pragma once

namespace weir::command_line {

inline constexpr int kFailed = 1;
inline constexpr int kUsageError = 2;
inline constexpr int kInterrupted = 130;  // as shells report a program that Ctrl-C ended

}  // namespace weir::command_line

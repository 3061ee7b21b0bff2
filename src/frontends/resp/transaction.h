// The commands between MULTI and EXEC: queued as raw bytes and run at EXEC like a pipeline, with
// one array as the reply. There is no rollback; WEIR.MULTI is all or nothing.
//
// The queue is bounded. An unknown command or a full queue makes EXEC fail.
//
// Belongs to one session and its thread.

#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "frontends/bytes.h"
#include "frontends/resp/known_commands.h"

namespace weir::frontends {

inline constexpr size_t kMaxQueuedBytes = size_t{1} << 20;

class Transaction {
 public:
  // Between MULTI and EXEC.
  [[nodiscard]] bool open() const { return state_ == State::kOpen || state_ == State::kRefused; }
  // EXEC has begun: commands() run before any other input.
  [[nodiscard]] bool running() const { return state_ == State::kRunning; }
  [[nodiscard]] Bytes& commands() { return commands_; }

  // Whether a command is queued while the transaction is open.
  [[nodiscard]] static bool is_queued(std::string_view command) {
    for (const std::string_view at_once : {"MULTI", "EXEC", "DISCARD", "RESET", "QUIT"}) {
      if (is_word(command, at_once)) return false;
    }
    return true;
  }

  [[nodiscard]] RespError begin() {
    if (open()) return "ERR MULTI calls can not be nested";
    state_ = State::kOpen;
    return {};
  }

  [[nodiscard]] size_t buffered_bytes() const { return commands_.capacity(); }
  // Queues a command for EXEC. `bytes` is the raw request.
  [[nodiscard]] RespError queue(Arguments arguments, std::string_view bytes) {
    RespError error;
    const KnownCommand* const command = find_command(arguments[0]);
    if (command == nullptr) {
      error = unknown_command(arguments[0]);
    } else if (!command->takes(arguments.size())) {
      error = wrong_number_of_arguments(command->name);
    } else if (commands_.size() + bytes.size() > kMaxQueuedBytes) {
      error = "ERR more than " + std::to_string(kMaxQueuedBytes) +
              " bytes between MULTI and EXEC: send less at a time, or a pipeline without MULTI";
    }
    if (!error.empty()) {
      state_ = State::kRefused;
    } else if (state_ == State::kOpen) {
      commands_.append(bytes);
      ++count_;
    }
    return error;
  }

  // EXEC. Sets `count` to the number of queued commands, each of which has one reply.
  [[nodiscard]] RespError run(size_t& count) {
    if (!open()) return "ERR EXEC without MULTI";
    const State was = state_;
    count = count_;
    if (was == State::kRefused) {
      end();
      return RespError(kTransactionAborted);
    }
    state_ = State::kRunning;
    return {};
  }

  [[nodiscard]] RespError discard() {
    if (!open()) return "ERR DISCARD without MULTI";
    end();
    return {};
  }

  // EXEC will fail, whatever else is queued. While it is open.
  void refuse() { state_ = State::kRefused; }

  void end() { *this = {}; }

 private:
  enum class State : uint8_t { kNone, kOpen, kRefused, kRunning };

  State state_ = State::kNone;
  size_t count_ = 0;
  Bytes commands_;
};

}  // namespace weir::frontends

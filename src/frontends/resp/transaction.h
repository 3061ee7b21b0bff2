// What a client says between MULTI and EXEC: kept as it was sent, and answered at EXEC with one
// array, as a pipeline would be. Nothing is undone: all or nothing is WEIR.MULTI.
//
// What may be kept is bounded. A command that is unknown, or too much, makes EXEC refuse the whole.
//
// Lives with its session.

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
  // EXEC has begun: commands() are to be answered before anything else.
  [[nodiscard]] bool running() const { return state_ == State::kRunning; }
  [[nodiscard]] Bytes& commands() { return commands_; }

  // Whether a command waits for EXEC while the transaction is open.
  [[nodiscard]] static bool waits(std::string_view command) {
    for (const std::string_view at_once : {"MULTI", "EXEC", "DISCARD", "RESET", "QUIT"}) {
      if (is_word(command, at_once)) return false;
    }
    return true;
  }

  [[nodiscard]] Complaint begin() {
    if (open()) return "ERR MULTI calls can not be nested";
    state_ = State::kOpen;
    return {};
  }

  [[nodiscard]] size_t kept_bytes() const { return commands_.capacity(); }
  // Keeps a command for EXEC. `bytes` are as they were sent.
  [[nodiscard]] Complaint queue(Arguments arguments, std::string_view bytes) {
    Complaint complaint;
    const KnownCommand* const command = find_command(arguments[0]);
    if (command == nullptr) {
      complaint = unknown_command(arguments[0]);
    } else if (!command->takes(arguments.size())) {
      complaint = wrong_number_of_arguments(command->name);
    } else if (commands_.size() + bytes.size() > kMaxQueuedBytes) {
      complaint = "ERR more than " + std::to_string(kMaxQueuedBytes) +
                  " bytes between MULTI and EXEC: send less at a time, or a pipeline without MULTI";
    }
    if (!complaint.empty()) {
      state_ = State::kRefused;
    } else if (state_ == State::kOpen) {
      commands_.append(bytes);
      ++count_;
    }
    return complaint;
  }

  // EXEC. `count` is how many commands are to be answered, each with one answer.
  [[nodiscard]] Complaint run(size_t& count) {
    if (!open()) return "ERR EXEC without MULTI";
    const State was = state_;
    count = count_;
    if (was == State::kRefused) {
      end();
      return "EXECABORT Transaction discarded because of previous errors.";
    }
    state_ = State::kRunning;
    return {};
  }

  [[nodiscard]] Complaint discard() {
    if (!open()) return "ERR DISCARD without MULTI";
    end();
    return {};
  }

  void end() { *this = {}; }

 private:
  enum class State : uint8_t { kNone, kOpen, kRefused, kRunning };

  State state_ = State::kNone;
  size_t count_ = 0;
  Bytes commands_;
};

}  // namespace weir::frontends

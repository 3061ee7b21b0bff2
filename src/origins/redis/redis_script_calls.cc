// Calls of scripts by the Redis origin, and retirement, which is one.

#include <boost/asio/post.hpp>
#include <utility>

#include "origins/redis/redis_worker.h"

namespace weir::origins {

namespace asio = boost::asio;
using telemetry::OriginCommand;

void RedisOrigin::Worker::add_script(Pipeline& pipeline, OriginCommand kind, Script script,
                                     std::span<const std::string_view> keys,
                                     std::span<const std::string_view> values) {
  const std::string key_count = std::to_string(keys.size());
  std::vector<std::string_view> words = {"EVALSHA", sha_of(script), key_count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), values.begin(), values.end());
  add(pipeline, kind, words);
}

void RedisOrigin::Worker::load_script(Pipeline& pipeline, Script script) {
  if (std::exchange(scripts_sent[static_cast<size_t>(script)], true)) return;
  append_command(pipeline.text, {"SCRIPT", "LOAD", text_of(script)});
  ++pipeline.count;
}

// An error of any command is the error of the call. If another client has flushed the scripts, they
// are loaded again once.
void RedisOrigin::Worker::call_scripts(const std::shared_ptr<const ScriptCall>& call,
                                       OnMissingScript policy) {
  if (call->commands.count == 0) return call->done(Replies{});
  reset_after_reconnect();
  Pipeline pipeline;
  for (const Script script : call->scripts) load_script(pipeline, script);
  const size_t first = pipeline.count;
  pipeline.text += call->commands.text;
  pipeline.count += call->commands.count;
  link.send(std::move(pipeline.text), pipeline.count,
            [this, began = clock.now().mono, first, call, policy](
                std::optional<OriginError> failure, Replies replies) {
              Error error = failure ? to_error(*failure) : Error{};
              const size_t needed = failure ? 0 : replies.size() - call->optional;
              const size_t received = failure ? 0 : replies.size();
              for (size_t i = 0; i < received && !failure; ++i) {
                if (replies[i].type != RedisReply::Type::kError) continue;
                // An optional command may fail, but not for lack of its script.
                const OriginError why = error_of_reply(replies[i].text);
                if (i >= needed && why != OriginError::kNoScript) continue;
                failure = why;
                error = to_error(*failure, replies[i].text, call->scripts);
                note_refused_write(*failure, replies[i].text);
              }
              note_call(began, failure);
              if (failure == OriginError::kNoScript) scripts_sent = {};
              if (failure == OriginError::kNoScript && policy == OnMissingScript::kRetry) {
                return asio::post(io, [this, call] { call_scripts(call, OnMissingScript::kFail); });
              }
              if (failure) return call->done(std::move(error));
              call->done(replies.subspan(first));
            });
}

void RedisOrigin::Worker::retire(const std::vector<CellRetirement>& cells, RetirementReply reply) {
  Pipeline commands;
  for (const CellRetirement& cell : cells) {
    const std::string key = redis_key(cell.cell);
    const std::string field = redis_field(cell.writer);
    add_script(commands, OriginCommand::kRetire, Script::kRetire, {key}, {field});
  }
  call_scripts({.commands = std::move(commands),
                .scripts = {Script::kRetire},
                .done = [reply = std::move(reply)](Result<Replies> replies) {
                  if (!replies) return reply(replies.error());
                  size_t retired = 0;
                  for (const RedisReply& each : *replies) retired += each.integer == 1 ? 1 : 0;
                  reply(retired);
                }});
}

}  // namespace weir::origins

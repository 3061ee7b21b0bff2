#include "origins/redis/redis_scripts.h"

#include <openssl/sha.h>

#include <array>
#include <set>

#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_exact_scripts.h"

namespace weir::origins {
namespace {

// HINCRBY comes before HDEL: if the sum fails, the count is still there.
constexpr std::string_view kRetireText = R"(
local count = redis.call('HGET', KEYS[1], ARGV[1])
if not count or not string.match(count, '^%d+$') then return 0 end
redis.call('HINCRBY', KEYS[1], 'departed', count)
local limit = tonumber(redis.call('HGET', KEYS[1], 'l' .. ARGV[1]))
if limit then
  local departed = tonumber(redis.call('HGET', KEYS[1], 'ldeparted'))
  if not departed or limit < departed then
    redis.call('HSET', KEYS[1], 'ldeparted', string.format('%.0f', limit))
  end
  redis.call('HDEL', KEYS[1], 'l' .. ARGV[1])
end
return redis.call('HDEL', KEYS[1], ARGV[1])
)";

constexpr std::string_view kRestoreText = R"(
local least = tonumber(ARGV[1])
if least > 0 and (tonumber(redis.call('HGET', KEYS[1], 'departed')) or 0) < least then
  redis.call('HSET', KEYS[1], 'departed', ARGV[1])
end
if redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then return 1 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
)";

// The field of a component is its incarnation, a point, and its generation.
constexpr std::string_view kRaiseDepartedText = R"(
local chosen = {}
for i = 3, #ARGV do chosen[ARGV[i]] = true end
local fields = redis.call('HGETALL', KEYS[1])
local written, departed = 0, 0
for i = 1, #fields, 2 do
  local name, count = fields[i], tonumber(string.match(fields[i + 1], '^%d+$')) or 0
  if name == 'departed' then
    departed = count
  elseif chosen[string.match(name, '^[^.]*')] then
    written = written + count
  end
end
local missing = tonumber(ARGV[1]) - written
if missing <= departed then return 0 end
redis.call('HSET', KEYS[1], 'departed', string.format('%.0f', missing))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
)";

// Numbers are exact up to 2^53, products of a count and a time are not: share() splits them. A new
// field may be the first one of a new cell, which then needs an expiry. The clock of another
// process may have given it a later one.
constexpr std::string_view kStepText = R"(
local numbers = {}
for i = 2, #ARGV do
  numbers[i] = tonumber(string.match(ARGV[i], '^%d+$'))
  if not numbers[i] then return redis.error_reply('ERR weir: argument ' .. i .. ' is no number') end
end
local field, own, ttl, seen = ARGV[1], numbers[2], numbers[3], numbers[4]
local duration = numbers[10]
if #ARGV < 10 or #ARGV % 3 ~= 1 or duration < 1 then
  return redis.error_reply('ERR weir: wrong arguments')
end
local function share(count, rest)
  local whole = math.floor(count / duration)
  local part = count - whole * duration
  local high = math.floor(part / 65536)
  local first = high * rest
  local quotient = math.floor(first / duration)
  local second = (first - quotient * duration) * 65536 + (part - high * 65536) * rest
  return whole * rest + quotient * 65536 + math.floor(second / duration)
end
local function read(key)
  local all = redis.call('HGETALL', key)
  local mine, others = nil, 0
  for i = 1, #all, 2 do
    local name, count = all[i], tonumber(string.match(all[i + 1], '^%d+$'))
    if count and count <= 17592186044416 and string.match(name, '^[^lr]') then
      if name == field then mine = count else others = others + count end
    end
  end
  return all, mine, others
end
local cell, written, others = read(KEYS[1])
local last, last_mine, last_others = read(KEYS[2])
local mine = written or 0
others = math.max(others, numbers[5]) + numbers[7]
local before = math.max(last_others, numbers[6]) + numbers[8] + math.max(last_mine or 0, numbers[9])
local total, granted, refused = own, '', false
for i = 11, #ARGV, 3 do
  local used = others + total + share(before, numbers[i + 2])
  if used + numbers[i] <= numbers[i + 1] then
    total = total + numbers[i]
    granted = granted .. '1'
  else
    granted, refused = granted .. '0', true
  end
end
local fields = {}
local function set(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
if total > mine or (seen > 0 and not written) then set(field, string.format('%.0f', total)) end
if seen > 0 then
  local limit = tonumber(redis.call('HGET', KEYS[1], 'l' .. field))
  if not limit or seen < limit then set('l' .. field, ARGV[4]) end
end
if refused then set('refused', '1') end
if #fields > 0 and redis.call('HSET', KEYS[1], unpack(fields)) > 0
    and redis.call('PTTL', KEYS[1]) < ttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
local reply = {granted, string.format('%.0f', math.max(mine, total)), cell, last}
if KEYS[3] then reply[5] = redis.call('HGETALL', KEYS[3]) end
return reply
)";

// Numbers are exact up to 2^53. Stored windows with impossible values (above 2^44) are dropped.
constexpr std::string_view kUpdateTupleText = R"(
local key = KEYS[1]
for i = 2, #ARGV, 5 do
  local region, sequence, count = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local limit, lease = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local stored = redis.call('HGET', key, region) or ''
  local windows, known = {}, false
  local newest, newest_limit
  for s, c, l in string.gmatch(stored, ';(-?%d+),(%d+),?(%d*)') do
    local window = {(newest or 0) + tonumber(s), tonumber(c), tonumber(l) or newest_limit or 0}
    newest, newest_limit = newest or window[1], newest_limit or window[3]
    if window[2] <= 17592186044416 and window[3] <= 17592186044416 then
      if window[1] == sequence then
        known = true
        window[2] = math.max(window[2], count)
        if window[3] == 0 or (limit > 0 and limit < window[3]) then window[3] = limit end
      end
      windows[#windows + 1] = window
    end
  end
  if not known and (count > 0 or limit > 0) then
    windows[#windows + 1] = {sequence, count, limit}
    table.sort(windows, function(a, b) return a[1] > b[1] end)
  end
  lease = math.max(lease, tonumber(string.match(stored, '^%d+')) or 0)
  local value = string.format('%.0f', lease)
  for j = 1, math.min(3, #windows) do
    local window, first = windows[j], windows[1]
    if j == 1 then
      value = value .. string.format(';%.0f,%.0f,%.0f', window[1], window[2], window[3])
    else
      value = value .. string.format(';%.0f,%.0f', window[1] - first[1], window[2])
      if window[3] ~= first[3] then value = value .. string.format(',%.0f', window[3]) end
    end
  end
  if value ~= stored then redis.call('HSET', key, region, value) end
end
local ttl = tonumber(ARGV[1])
if ttl > 0 and redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ARGV[1]) end
local reply = {}
for i, each in ipairs(KEYS) do reply[i] = redis.call('HGETALL', each) end
return reply
)";

constexpr std::string_view kAcquireText = R"(
local holder = redis.call('GET', KEYS[1])
local ours = 0
if not holder or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  ours = 1
end
return {ours, redis.call('GET', KEYS[2]) or '', redis.call('TIME')}
)";

constexpr std::string_view kReleaseText = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
)";

constexpr std::string_view kSaveText = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[2], ARGV[3])
return 1
)";

constexpr std::string_view kAddDueText = R"(
for i = 1, #ARGV, 2 do
  local before = redis.call('ZSCORE', KEYS[1], ARGV[i + 1])
  local score = ARGV[i]
  if before then
    local fraction = (tonumber(before) % 1 + 1 / 1024) % 1
    score = string.format('%.10f', tonumber(score) + fraction)
  end
  redis.call('ZADD', KEYS[1], score, ARGV[i + 1])
end
return 1
)";

constexpr std::string_view kRemoveDueText = R"(
local removed = 0
for i = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[i + 1]) then
    removed = removed + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return removed
)";

constexpr std::string_view kNotifyText = R"(
local number = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], string.format('%.0f', number) .. ' ' .. ARGV[2])
return number
)";

constexpr std::array kTexts = {kRetireText,    kRestoreText, kRaiseDepartedText, kStepText,
                               kBacklogText,   kRingText,    kLogText,           kUpdateTupleText,
                               kAcquireText,   kReleaseText, kSaveText,          kAddDueText,
                               kRemoveDueText, kNotifyText};
static_assert(kTexts.size() == static_cast<size_t>(Script::kCount));

std::array<std::string, kTexts.size()> all_digests() {
  std::array<std::string, kTexts.size()> digests;
  for (size_t i = 0; i < kTexts.size(); ++i) {
    unsigned char hash[SHA_DIGEST_LENGTH];
    SHA1(reinterpret_cast<const unsigned char*>(kTexts[i].data()), kTexts[i].size(), hash);
    digests[i] = hex_of(hash);
  }
  return digests;
}

}  // namespace

std::string_view text_of(Script script) {
  return kTexts[static_cast<size_t>(script)];
}

std::string commands_of(std::span<const Script> scripts) {
  constexpr std::string_view kCall = "redis.call('";
  std::set<std::string_view> names;
  for (const Script script : scripts) {
    std::string_view rest = text_of(script);
    for (size_t at = rest.find(kCall); at != std::string_view::npos; at = rest.find(kCall)) {
      rest.remove_prefix(at + kCall.size());
      names.insert(rest.substr(0, rest.find('\'')));
    }
  }
  std::string list;
  for (const std::string_view name : names) {
    if (!list.empty()) list += ' ';
    list += name;
  }
  return list;
}

const std::string& sha_of(Script script) {
  static const std::array kDigests = all_digests();
  return kDigests[static_cast<size_t>(script)];
}

}  // namespace weir::origins

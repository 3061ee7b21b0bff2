// The Lua scripts that decide requests on a tuple whose whole state is in Redis; redis_scripts.h
// describes their arguments and exact_rule.h the rules.
//
// Numbers are exact up to 2^53. A script changes nothing before all its arguments are valid.

#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace weir::origins {

// What the scripts have in common. ARGV: the writer, then numbers: that of the call, the duration,
// what the writer has admitted by itself and was acknowledged of that, what it has admitted in all,
// for how long a refusal matters, the width of a window of other regions, its sequence, what they
// have admitted in it and in the one before, what to charge of that if neither is known, the
// most to charge of it at a time, and the capacity of what the writer has admitted by itself.
//
// The field `s` of the hash KEYS[1] is the state; the first two numbers in it are the version and
// the time of the last admission. The field `w` + writer is the last call of the writer that
// changed the state: its number, its time, what the writer had admitted by itself, how much of that
// the call charged, what was granted, and the state that it found. The field `r` is the time of the
// last refusal that was marked. The field `f` + width is what was charged for other regions: the
// sequence of the newest window, its total, and that of the window before.
//
// A key is kept for some time after that of the decision, which may be ahead of the clock. No time
// to live is ever shortened.
inline constexpr std::string_view kExactCallText = R"(
local numbers = {}
for i = 2, #ARGV do
  numbers[i] = tonumber(string.match(ARGV[i], '^%d+$'))
  if not numbers[i] or numbers[i] > 9007199254740992 then
    return redis.error_reply('ERR weir: argument ' .. i .. ' is no number')
  end
end
local field, number, duration = 'w' .. ARGV[1], numbers[2], numbers[3]
local acked, own, strict_for = numbers[4], numbers[5], numbers[6]
local width_of_others, sequence_of_others = numbers[7], numbers[8]
if #ARGV < 13 or duration < 1 then return redis.error_reply('ERR weir: wrong arguments') end
local function text(value) return string.format('%.0f', value) end
local function has_capacities(first, size)
  for i = first, #ARGV, size do
    if numbers[i + size - 1] + (size == 4 and numbers[i + 2] or 0) < 1 then return false end
  end
  return true
end
local others = 'f' .. ARGV[7]
local hash = redis.call('HMGET', KEYS[1], field, 's', 'r', others)
local told, refused = 0, tonumber(hash[3]) or 0
local charged, news = 0, nil
local function remember(now, granted, found)
  if news then redis.call('HSET', KEYS[1], others, news) end
  local value = text(number) .. ' ' .. text(now) .. ' ' .. text(own) .. ' ' .. text(charged) .. ' '
      .. granted .. ' ' .. found
  if redis.call('HSET', KEYS[1], field, value) == 0 then return end
  local all = redis.call('HGETALL', KEYS[1])
  if #all <= 2 * 70 then return end
  local writers = {}
  for i = 1, #all, 2 do
    local time = tonumber(string.match(all[i + 1], '^%d+ (%d+)')) or 0
    if string.sub(all[i], 1, 1) == 'w' and all[i] ~= field then writers[#writers + 1] = {time, all[i]} end
  end
  table.sort(writers, function(a, b) return a[1] > b[1] end)
  for i = 64, #writers do redis.call('HDEL', KEYS[1], writers[i][2]) end
end
if hash[1] then
  local of, time, before, part, granted, found =
    string.match(hash[1], '^(%d+) (%d+) (%d+) (%d+) (%S*) (.*)$')
  if of and tonumber(of) == number then
    return {1, time, found, granted, part, text(refused)}
  end
  if of and tonumber(of) > number then return {2} end
  told = of and tonumber(before) or 0
end
local unreported = math.max(0, own - math.max(acked, told))
charged = unreported
if numbers[9] + numbers[10] > 0 then
  local of, current, last = string.match(hash[4] or '', '^(%d+) (%d+) (%d+)$')
  local ahead = of and sequence_of_others - tonumber(of) or 2
  if ahead == 1 then current, last = 0, current end
  if ahead > 1 then current, last = 0, 0 end
  current, last = tonumber(current), tonumber(last)
  local now_current, now_last = math.max(current, numbers[9]), math.max(last, numbers[10])
  local more = now_current - current + now_last - last
  if ahead > 1 then more = math.min(numbers[11], more) end
  local left = more - math.min(more, numbers[12])
  more = more - left
  local left_of_current = math.min(left, now_current - current)
  now_current, now_last = now_current - left_of_current, now_last - (left - left_of_current)
  if ahead >= 0 and (now_current > current or now_last > last or ahead > 0) then
    charged = charged + more
    news = text(sequence_of_others) .. ' ' .. text(now_current) .. ' ' .. text(now_last)
  end
end
local stored = hash[2] or ''
if redis.replicate_commands then redis.replicate_commands() end
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local version, at, rest = string.match(stored, '^(%d+) (%d+) (.*)$')
if version then version, at = tonumber(version), tonumber(at) else version, at, rest = 0, 0, '' end
local set_back = at > clock + duration
local now = math.max(clock, at)
local function keep(key, ms)
  ms = math.max(ms + now - clock, redis.call('PTTL', key))
  redis.call('PEXPIRE', key, text(ms))
end
local function keep_state(ms)
  if numbers[9] + numbers[10] > 0 then ms = math.max(ms, 2 * width_of_others) end
  if refused > 0 and refused <= now then ms = math.max(ms, refused + strict_for - now) end
  keep(KEYS[1], ms)
end
local function mark_refusal()
  if strict_for == 0 or (refused <= now and now - refused < strict_for / 4) then return end
  redis.call('HSET', KEYS[1], 'r', text(now))
  keep(KEYS[1], strict_for)
end
)";

// The common part and one of the others.
template <const std::string_view& kFirst, const std::string_view& kSecond>
struct JoinedText {
  static constexpr auto kChars = [] {
    std::array<char, kFirst.size() + kSecond.size()> chars{};
    std::copy(kSecond.begin(), kSecond.end(),
              std::copy(kFirst.begin(), kFirst.end(), chars.begin()));
    return chars;
  }();
  static constexpr std::string_view kText{kChars.data(), kChars.size()};
};

// The backlog of another rate is converted with integers of any size: their digits are below 4096,
// the lowest first, so that a digit times a number below 2^40 is exact.
inline constexpr std::string_view kDecideBacklogText = R"(
local num, den, keeps_time = numbers[14], numbers[15], numbers[16]
if #ARGV < 16 or #ARGV % 4 ~= 0 or num < 1 or den < 1 or not has_capacities(17, 4) then
  return redis.error_reply('ERR weir: wrong arguments')
end
local ms, pulses = 0, 0
local n, d, m, p = string.match(rest, '^(%d+) (%d+) (%d+) (%d+)$')
if n and tonumber(n) > 0 and tonumber(d) > 0 then
  n, d, ms, pulses = tonumber(n), tonumber(d), tonumber(m), tonumber(p)
else
  version, at, stored, set_back, now, n, d = 0, 0, '', false, clock, num, den
end
local function state()
  return text(version) .. ' ' .. text(at) .. ' ' .. text(n) .. ' ' .. text(d) .. ' ' .. text(ms)
      .. ' ' .. text(pulses)
end
if set_back then
  ms, at, now = ms - (at - clock), clock, clock
  stored = state()
  redis.call('HSET', KEYS[1], 's', stored)
  keep_state(math.max(ms - now, 0) + 5001)
end
local function multiply_add(digits, factor, carry)
  local result, i = {}, 1
  while digits[i] or carry > 0 do
    local sum = (digits[i] or 0) * factor + carry
    result[i] = sum % 4096
    carry = math.floor(sum / 4096)
    i = i + 1
  end
  return result
end
local function divide(digits, divisor)
  local result, left = {}, 0
  for i = 1, #digits do result[i] = 0 end
  for i = #digits, 1, -1 do
    local part = left * 4096 + digits[i]
    result[i] = math.floor(part / divisor)
    left = part - result[i] * divisor
  end
  while result[#result] == 0 do result[#result] = nil end
  return result, left
end
local function at_most_a_burst(digits)
  if #digits > 6 or (digits[6] or 0) > 1 then return {0, 0, 0, 0, 0, 2} end
  return digits
end
if ms < now then ms, pulses = now, 0 end
local converts = n ~= num or d ~= den
if converts then
  local from, to = n, num
  if keeps_time > 0 then from, to = d, den end
  local waiting = at_most_a_burst(multiply_add(multiply_add({}, 0, ms - now), d, pulses))
  waiting = at_most_a_burst((divide(multiply_add(waiting, to, from - 1), from)))
  local whole, part = divide(waiting, den)
  ms = 0
  for i = #whole, 1, -1 do ms = ms * 4096 + whole[i] end
  if ms >= 2251799813685248 then ms, part = 2251799813685248, 0 end
  ms, pulses, n, d = now + ms, part, num, den
end
if unreported > 0 and numbers[13] > 0 then
  local units, sum = 0, (ms - now) * den + pulses + num - 1
  if sum < 9007199254740992 then
    units = (sum - sum % num) / num
  else
    local waiting = multiply_add(multiply_add({}, 0, ms - now), den, pulses)
    local digits = divide(multiply_add(waiting, 1, num - 1), num)
    for i = #digits, 1, -1 do units = units * 4096 + digits[i] end
  end
  local room = numbers[13] + math.ceil(numbers[13] / 4) - units
  charged = charged - math.max(0, unreported - math.max(0, room))
end
if charged > 0 then
  local whole, part = 0, (ms - now) * den + pulses + charged * num
  if part < 9007199254740992 then
    whole, part = part, part % den
    whole = (whole - part) / den
  else
    local waiting = multiply_add(multiply_add({}, 0, ms - now), den, pulses)
    local more = multiply_add(multiply_add({}, 0, charged), num, 0)
    for i = 1, #more do waiting[i] = (waiting[i] or 0) + more[i] end
    local digits
    digits, part = divide(at_most_a_burst(multiply_add(waiting, 1, 0)), den)
    for i = #digits, 1, -1 do whole = whole * 4096 + digits[i] end
  end
  if whole >= 2251799813685248 then whole, part = 2251799813685248, 0 end
  ms, pulses = now + whole, part
end
local granted, changed, refuses = '', charged > 0, false
for i = 17, #ARGV, 4 do
  local has_cost = numbers[i] + numbers[i + 1] > 0
  local after_ms, after = ms + numbers[i], pulses + numbers[i + 1]
  if after >= den then after_ms, after = after_ms + 1, after - den end
  local full_ms, full = now + numbers[i + 2], numbers[i + 3]
  local fits = after_ms < full_ms or (after_ms == full_ms and after <= full)
  if fits then ms, pulses = after_ms, after end
  granted = granted .. (fits and '1' or '0')
  changed = changed or (has_cost and (fits or converts))
  refuses = refuses or (has_cost and not fits and numbers[i] <= numbers[i + 2])
end
if changed then
  version, at = version + 1, now
  redis.call('HSET', KEYS[1], 's', state())
  remember(clock, granted, stored)
  keep_state(ms - now + 5001)
end
if refuses then mark_refusal() end
return {1, text(clock), stored, granted, text(charged), text(refused)}
)";

inline constexpr std::string_view kDecideRingText = R"(
local width = numbers[14]
if #ARGV < 14 or #ARGV % 2 ~= 0 or width < 1 or not has_capacities(15, 2) then
  return redis.error_reply('ERR weir: wrong arguments')
end
if set_back then
  at, now, rest = clock, clock, ''
  stored = text(version) .. ' ' .. text(at) .. ' '
  redis.call('HSET', KEYS[1], 's', stored)
end
local sequence = math.floor(now / width)
local used, current, kept = 0, 0, ''
for cell, count in string.gmatch(rest, '(%d+),(%d+);') do
  local of = tonumber(cell)
  if of >= sequence - 16 and of <= sequence then
    used = used + tonumber(count)
    if of == sequence then
      current = tonumber(count)
    else
      kept = kept .. cell .. ',' .. count .. ';'
    end
  end
end
used, current = used + charged, current + charged
local granted, changed, refuses = '', charged > 0, false
for i = 15, #ARGV, 2 do
  if used + numbers[i] <= numbers[i + 1] then
    used, current, granted = used + numbers[i], current + numbers[i], granted .. '1'
    changed = changed or numbers[i] > 0
  else
    granted = granted .. '0'
    refuses = refuses or (numbers[i] > 0 and numbers[i] <= numbers[i + 1])
  end
end
if changed then
  redis.call('HSET', KEYS[1], 's', text(version + 1) .. ' ' .. text(now) .. ' ' .. kept
    .. text(sequence) .. ',' .. text(current) .. ';')
  remember(clock, granted, stored)
  keep_state(18 * width + 5000)
end
if refuses then mark_refusal() end
return {1, text(clock), stored, granted, text(charged), text(refused)}
)";

// KEYS[2] is a sorted set with an entry for each millisecond in which units were admitted: its
// time, and as score the number of its last unit. Units are numbered from 1.
inline constexpr std::string_view kDecideLogText = R"(
if #ARGV % 2 ~= 1 or not has_capacities(14, 2) then
  return redis.error_reply('ERR weir: wrong arguments')
end
local log = KEYS[2]
local total, left = string.match(rest, '^(%d+) (%d+)$')
if total then
  total, left = tonumber(total), tonumber(left)
else
  version, at, total, left, set_back, now = 0, 0, 0, 0, false, clock
end
if set_back then at, now = clock, clock end
local function entry(rank) return redis.call('ZRANGE', log, rank, rank, 'WITHSCORES') end
local function has_left(rank)
  local found = entry(rank)
  return not found[1] or set_back or tonumber(found[1]) <= now - duration
end
if version == 0 then redis.call('DEL', log) end
if redis.call('ZCARD', log) == 0 then
  left = total
elseif has_left(0) then
  local inside, outside = redis.call('ZCARD', log), 0
  while inside - outside > 1 do
    local middle = math.floor((inside + outside) / 2)
    if has_left(middle) then outside = middle else inside = middle end
  end
  left = tonumber(entry(outside)[2])
  redis.call('ZREMRANGEBYSCORE', log, '-inf', text(left))
end
local used = total - left
local newest = used > 0 and redis.call('ZRANGE', log, -1, -1)[1] or '-'
local function state()
  return text(version) .. ' ' .. text(at) .. ' ' .. text(total) .. ' ' .. text(left)
end
if version > 0 and state() ~= stored then redis.call('HSET', KEYS[1], 's', state()) end
local found = text(version) .. ' ' .. text(at) .. ' ' .. text(used) .. ' ' .. newest
local granted, changed, refuses = '', charged > 0, false
if charged > 0 then
  total, used = total + charged, used + charged
  redis.call('ZADD', log, text(total), text(now))
end
for i = 14, #ARGV, 2 do
  local cost, capacity = numbers[i], numbers[i + 1]
  if used + cost <= capacity then
    if cost > 0 then
      total, used, changed = total + cost, used + cost, true
      redis.call('ZADD', log, text(total), text(now))
    end
    granted = granted .. '1,'
  elseif cost <= capacity then
    refuses = refuses or cost > 0
    local unit = text(total - (capacity - cost))
    local stamp = redis.call('ZRANGEBYSCORE', log, unit, '+inf', 'LIMIT', 0, 1)[1]
    granted = granted .. '0:' .. stamp .. ','
  else
    granted = granted .. '0,'
  end
end
if changed then
  version, at = version + 1, now
  redis.call('HSET', KEYS[1], 's', state())
  remember(clock, granted, found)
  keep_state(duration + 5000)
  keep(log, duration + 5000)
end
if refuses then mark_refusal() end
return {1, text(clock), found, granted, text(charged), text(refused)}
)";

inline constexpr std::string_view kBacklogText =
    JoinedText<kExactCallText, kDecideBacklogText>::kText;
inline constexpr std::string_view kRingText = JoinedText<kExactCallText, kDecideRingText>::kText;
inline constexpr std::string_view kLogText = JoinedText<kExactCallText, kDecideLogText>::kText;

}  // namespace weir::origins

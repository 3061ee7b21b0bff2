// Six rate limiters as Lua scripts, the way they are usually written: one call per request, the state in
// one key, the time of redis-server. KEYS[1]; ARGV: limit, duration in ms, cost. The reply is 1 if the
// request is admitted, else 0. One of them also exists with the time of the client.

const given = `
local limit, duration, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
`;

const now = `${given}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

const fixedWindow = `${now}
local window = math.floor(now / duration)
local state = redis.call('HMGET', KEYS[1], 'window', 'count')
local count = tonumber(state[1]) == window and tonumber(state[2]) or 0
if count + cost > limit then return 0 end
redis.call('HSET', KEYS[1], 'window', window, 'count', string.format('%.0f', count + cost))
redis.call('PEXPIRE', KEYS[1], duration)
return 1`;

const slidingWindow = `${now}
local window = math.floor(now / duration)
local state = redis.call('HMGET', KEYS[1], 'window', 'count', 'last')
local known, count, last = tonumber(state[1]), tonumber(state[2]) or 0, tonumber(state[3]) or 0
if known ~= window then count, last = 0, known == window - 1 and count or 0 end
local weighted = math.floor(last * (duration - now % duration) / duration)
if count + weighted + cost > limit then return 0 end
redis.call('HSET', KEYS[1], 'window', window, 'count', string.format('%.0f', count + cost), 'last',
  string.format('%.0f', last))
redis.call('PEXPIRE', KEYS[1], 2 * duration)
return 1`;

// Ten parts of the duration; those that the trailing duration touches count in full.
const slidingWindowStrict = `${now}
local parts = 10
local part = math.floor(now * parts / duration)
local sum, old = 0, {}
local state = redis.call('HGETALL', KEYS[1])
for i = 1, #state, 2 do
  if tonumber(state[i]) < part - parts then old[#old + 1] = state[i] else sum = sum + tonumber(state[i + 1]) end
end
if sum + cost > limit then return 0 end
if #old > 0 then redis.call('HDEL', KEYS[1], unpack(old)) end
redis.call('HINCRBY', KEYS[1], string.format('%.0f', part), cost)
redis.call('PEXPIRE', KEYS[1], 2 * duration)
return 1`;

const slidingLog = `${now}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - duration)
local count = redis.call('ZCARD', KEYS[1])
if count + cost > limit then return 0 end
for i = 1, cost do
  redis.call('ZADD', KEYS[1], now, time[1] .. '.' .. time[2] .. '.' .. count + i)
end
redis.call('PEXPIRE', KEYS[1], duration)
return 1`;

const gcra = `${now}
local interval = duration / limit
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local after = tat + cost * interval
if after - duration > now then return 0 end
redis.call('SET', KEYS[1], string.format('%.17g', after), 'PX', math.max(1, math.ceil(after - now)))
return 1`;

const tokens = `
local state = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local tokens = tonumber(state[1]) or limit
tokens = math.min(limit, tokens + (now - (tonumber(state[2]) or now)) * limit / duration)
if tokens < cost then return 0 end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens - cost), 'time', now)
redis.call('PEXPIRE', KEYS[1], duration)
return 1`;
const tokenBucket = `${now}${tokens}`;

// ARGV[4]: the time of the client in ms.
export const tokenBucketOfClient = `${given}
local now = tonumber(ARGV[4])
${tokens}`;

// By the names of the algorithms.
export const luaLimits = {
  fixed_window: fixedWindow,
  sliding_window: slidingWindow,
  sliding_window_strict: slidingWindowStrict,
  sliding_log: slidingLog,
  gcra,
  token_bucket: tokenBucket,
};

-- For wrk: POSTs of ratelimit.limit for 10,000 identifiers, made before the measurement begins.
--
--   BENCH_KEY         the key
--   BENCH_NAMESPACE   default: api
--   BENCH_IDENTIFIER  format of a number from 1 to 10,000 and one from 0 to 6; default: user-%06d
--   BENCH_LIMIT       default: 1000000

local requests = {}
local at = 0

function init()
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")
  wrk.headers["Content-Type"] = "application/json"
  local namespace = os.getenv("BENCH_NAMESPACE") or "api"
  local identifier = os.getenv("BENCH_IDENTIFIER") or "user-%06d"
  local limit = os.getenv("BENCH_LIMIT") or "1000000"
  for i = 1, 10000 do
    requests[i] = wrk.format(nil, nil, nil, string.format(
      '{"namespace":"%s","identifier":"%s","limit":%s,"duration":60000}',
      namespace, string.format(identifier, i, i % 7), limit))
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

-- POSTs of ratelimit.limit for 10,000 identifiers of a namespace, with a key; made before the
-- measurement begins.
local requests = {}
local at = 0

function init()
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")
  wrk.headers["Content-Type"] = "application/json"
  local namespace = os.getenv("BENCH_NAMESPACE")
  for i = 1, 10000 do
    requests[i] = wrk.format(nil, nil, nil, string.format(
      '{"namespace":"%s","identifier":"customer-%d-user-%d","limit":1000000,"duration":60000}',
      namespace, i, i % 7))
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

-- For wrk: ratelimit.limit by a few hundred callers, and a count of what was not a decision.
-- wrk reports anything but 2xx and 3xx by itself; a 2xx without a verdict would go unseen.

local counter = 0
local threads = {}

function setup(thread)
  thread:set("without_verdict", 0)
  table.insert(threads, thread)
end

function init(args)
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. args[1]
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  counter = counter + 1
  local body = string.format(
    '{"namespace":"wrk","identifier":"user%d","limit":100,"duration":60000}', counter % 300)
  return wrk.format(nil, "/v2/ratelimit.limit", nil, body)
end

function response(status, headers, body)
  if status ~= 200 or not string.find(body, '"success":', 1, true) then
    without_verdict = without_verdict + 1
  end
end

function done(summary, latency, requests)
  local bad = 0
  for _, thread in ipairs(threads) do bad = bad + thread:get("without_verdict") end
  local errors = summary.errors
  io.write(string.format("requests=%d without_verdict=%d connect=%d read=%d write=%d status=%d timeout=%d\n",
    summary.requests, bad, errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end

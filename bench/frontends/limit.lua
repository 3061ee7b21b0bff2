-- POSTs of ratelimit.limit for 10,000 identifiers, made before the measurement begins.
local requests = {}
local at = 0

function init()
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("WEIR_ROOT_KEY")
  wrk.headers["Content-Type"] = "application/json"
  for i = 1, 10000 do
    requests[i] = wrk.format(nil, nil, nil, string.format(
      '{"namespace":"api","identifier":"user-%06d","limit":1000000,"duration":60000}', i))
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

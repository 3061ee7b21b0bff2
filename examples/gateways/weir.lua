-- The action weir_check for HAProxy: asks Weir about a request (docs/gateways.md).
--
-- WEIR_KEY is a key of Weir; WEIR_URL is the frontend `weir` of haproxy.cfg.

local key = os.getenv("WEIR_KEY") or error("WEIR_KEY is not set: set it to a key of Weir")
local url = (os.getenv("WEIR_URL") or "http://127.0.0.1:8082") .. "/v1/check"

-- Headers of the client that the rules use.
local forwarded = { "x-api-key" }

local function first(headers, name)
  return headers[name] and headers[name][0]
end

core.register_action("weir_check", { "http-req" }, function(txn)
  local headers = {
    ["x-weir-key"] = { key },
    ["x-forwarded-method"] = { txn.sf:method() },
    ["x-forwarded-uri"] = { txn.sf:url() },
    ["x-forwarded-host"] = { txn.sf:req_fhdr("host", 1) or "" },
    ["x-forwarded-for"] = { txn.sf:src() },
  }
  for _, name in ipairs(forwarded) do
    local value = txn.sf:req_fhdr(name, 1)
    if value then headers[name] = { value } end
  end
  local answer = core.httpclient():get({ url = url, headers = headers })
  local result = "failed"
  if answer.status == 200 then result = "admitted" end
  if answer.status == 429 or answer.status == 403 then result = "denied" end
  txn:set_var("txn.weir", result)
  if result == "failed" then return end
  for name, variable in pairs({
    ["ratelimit-policy"] = "txn.weir_policy",
    ["ratelimit"] = "txn.weir_limit",
    ["retry-after"] = "txn.weir_retry_after",
  }) do
    local value = first(answer.headers, name)
    if value then txn:set_var(variable, value) end
  end
end)

-- create: one new row per request. With ROWS set it stops after that many, which fills a table.
-- With WRAP set the row is a member `data` of the body, as Kinto has it. With NAMED set each request
-- has its own idempotency key, by which the server would recognize it.
-- One thread only (-t1): the count is the thread's own.

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

wrk.method = 'POST'
wrk.headers['Content-Type'] = 'application/json'
wrk.headers['ZUMO-API-VERSION'] = '2.0.0'

local rows = tonumber(os.getenv('ROWS') or 0)
local body = '{"text":"item %08d %s","complete":%s}'
if os.getenv('WRAP') then body = '{"data":' .. body .. '}' end
local named = os.getenv('NAMED')
local first_sent = os.date('!%a, %d %b %Y %H:%M:%S GMT')
-- The keys must differ from those of other runs, and of another wrk that runs at the same time.
local run = os.time()
local share = tonumber(os.getenv('SHARE') or 0)
local letters = 'abcdefghijklmnopqrstuvwxyz'
-- wrk calls `request` once before it begins, to inspect the text.
local asked, answered = -1, 0

function request()
  asked = asked + 1
  -- Requests that are in flight when the last row is requested must not add rows.
  if rows > 0 and asked > rows then return wrk.format('GET', '/health', nil, '') end
  local complete = asked % 2 == 0 and 'true' or 'false'
  if named then
    wrk.headers['Repeatability-First-Sent'] = first_sent
    wrk.headers['Repeatability-Request-ID'] = string.format('%08x-%04x-4000-8000-%012x', run, share, asked + 1)
  end
  return wrk.format(nil, nil, nil, string.format(body, asked, letters, complete))
end

if rows > 0 then
  function response()
    answered = answered + 1
    if answered >= rows + 100 then wrk.thread:stop() end
  end
end

-- batch: 1000 new rows in each request; the server makes the ids. With GROUP set they are one group, of
-- which all or none are written. With NAMED set each row has its own idempotency key, by which the server
-- would recognize it; otherwise one text serves all requests.

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

local named, group = os.getenv('NAMED'), os.getenv('GROUP')
local name = '"headers":{"Repeatability-Request-ID":"%08x-%04x-4000-8000-%012x",'
  .. '"Repeatability-First-Sent":"' .. os.date('!%a, %d %b %Y %H:%M:%S GMT') .. '"},'
local part = '{"id":"%d","method":"post","url":"tables/TodoItem",%s"body":{"text":"item %08d %s","complete":%s}}'
if group then part = part:gsub('"method"', '"atomicityGroup":"g","method"') end
local letters = 'abcdefghijklmnopqrstuvwxyz'
-- The keys must differ from those of other runs, and of another wrk that runs at the same time.
local run = os.time()
local share = tonumber(os.getenv('SHARE') or 0)
local count = 0

local function body()
  local parts = {}
  for number = 1, 1000 do
    count = count + 1
    local complete = number % 2 == 0 and 'true' or 'false'
    local title = named and string.format(name, run, share + 0x100, count) or ''
    parts[number] = string.format(part, number, title, number, letters, complete)
  end
  return '{"requests":[' .. table.concat(parts, ',') .. ']}'
end

wrk.method = 'POST'
wrk.headers['Content-Type'] = 'application/json'

if named then
  function request() return wrk.format(nil, nil, nil, body()) end
else
  wrk.body = body()
end

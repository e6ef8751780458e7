-- update: PATCH with If-Match. The file POOL has a line "path etag" per row; each answer brings the
-- next tag. A row is not in the pool while its request is in flight, so one thread only (-t1).
-- Rows without a tag are updated without the check. With WRAP set the row is a member `data`.

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

local headers = { ['Content-Type'] = 'application/json', ['ZUMO-API-VERSION'] = '2.0.0' }
local body = '{"text":"update %08d %s","complete":%s}'
if os.getenv('WRAP') then body = '{"data":' .. body .. '}' end
local letters = 'abcdefghijklmnopqrstuvwxyz'
local pool, first, last = {}, 1, 0
local count = 0
-- The part of the paths before the id.
local table_path

function init()
  for line in io.lines(os.getenv('POOL')) do
    local path, tag = line:match('^(%S+)%s*(%S*)$')
    table_path = path:match('^(.*/)')
    last = last + 1
    pool[last] = { path, tag ~= '' and tag or nil }
  end
end

function request()
  local row = pool[first]
  if row == nil then return wrk.format('GET', '/pool-is-empty') end
  pool[first] = nil
  first = first + 1
  count = count + 1
  local complete = count % 2 == 0 and 'true' or 'false'
  headers['If-Match'] = row[2]
  return wrk.format('PATCH', row[1], headers, string.format(body, count, letters, complete))
end

function response(status, fields, answer)
  if status ~= 200 then return end
  last = last + 1
  pool[last] = { table_path .. answer:match('"id":"([^"]+)"'), fields['ETag'] }
end

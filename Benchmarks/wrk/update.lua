-- update: PATCH with If-Match. The file POOL has a line "path etag" per row; each answer brings the
-- next tag. A row leaves the pool while its request is under way, so one thread only (-t1).

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

local headers = { ['Content-Type'] = 'application/json', ['ZUMO-API-VERSION'] = '2.0.0' }
local letters = 'abcdefghijklmnopqrstuvwxyz'
local pool, first, last = {}, 1, 0
local count = 0

function init()
  for line in io.lines(os.getenv('POOL')) do
    local path, tag = line:match('^(%S+)%s+(%S+)$')
    last = last + 1
    pool[last] = { path, tag }
  end
end

function request()
  local row = pool[first]
  if row == nil then return wrk.format('GET', '/pool-is-empty') end
  pool[first] = nil
  first = first + 1
  count = count + 1
  local text = string.format('update %08d %s', count, letters)
  local complete = count % 2 == 0 and 'true' or 'false'
  headers['If-Match'] = row[2]
  return wrk.format(
    'PATCH', row[1], headers, '{"text":"' .. text .. '","complete":' .. complete .. '}'
  )
end

function response(status, fields, body)
  if status ~= 200 then return end
  last = last + 1
  pool[last] = { '/tables/TodoItem/' .. body:match('"id":"([^"]+)"'), fields['ETag'] }
end

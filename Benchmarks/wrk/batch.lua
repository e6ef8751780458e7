-- batch: 1000 new rows in each request. One text serves all: the server makes the ids.

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

local part = '{"id":"%d","method":"post","url":"tables/TodoItem","body":{"text":"item %08d %s","complete":%s}}'
local letters = 'abcdefghijklmnopqrstuvwxyz'
local parts = {}
for number = 1, 1000 do
  local complete = number % 2 == 0 and 'true' or 'false'
  parts[number] = string.format(part, number, number, letters, complete)
end

wrk.method = 'POST'
wrk.headers['Content-Type'] = 'application/json'
wrk.body = '{"requests":[' .. table.concat(parts, ',') .. ']}'

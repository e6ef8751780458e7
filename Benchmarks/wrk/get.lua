-- get: requests the URL of the command line repeatedly, like a classic client. With PAGE set
-- it acts like a datasync client that prefers pages of that many rows. TOKENS is a file with a token per
-- line: the users take turns.

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

local page, users = os.getenv('PAGE'), os.getenv('TOKENS')

wrk.headers['ZUMO-API-VERSION'] = page and '3.0.0' or '2.0.0'
if page then wrk.headers['Prefer'] = 'odata.maxpagesize=' .. page end

if users then
  local requests, asked = {}, 0
  function init()
    for token in io.lines(users) do
      wrk.headers['X-ZUMO-AUTH'] = token
      requests[#requests + 1] = wrk.format()
    end
  end
  function request()
    asked = asked + 1
    return requests[asked % #requests + 1]
  end
end

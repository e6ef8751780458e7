-- get: the URL of the command line, again and again, as a classic client asks for it.

dofile(os.getenv('WRK_SCRIPTS') .. '/report.lua')

wrk.headers['ZUMO-API-VERSION'] = '2.0.0'

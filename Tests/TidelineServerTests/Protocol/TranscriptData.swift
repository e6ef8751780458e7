// TranscriptData: the recorded calls of the original Node server (azure-mobile-apps 4.0.3, SQLite).
//
// One line each: `#` number and title, `>` request line and headers, `<` status and headers, `=`
// the body of the request or answer before it. Left out: `ZUMO-API-VERSION: 2.0.0`, which every
// request has that does not say otherwise, `Content-Type: application/json`, headers of caching,
// weak tags, tokens, bodies that are no JSON or were recorded in part.

enum TranscriptData {
    static let text = #"""
        # 1 insert, server makes the id
        > POST /tables/TodoItem
        = {"text": "Buy milk", "complete": false}
        < 201
        < ETag: "MQ=="
        = {"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","createdAt":"2026-11-20T20:32:22.404Z","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ==","deleted":false}
        # 2 insert, client id
        > POST /tables/TodoItem
        = {"id": "t1", "text": "Read book", "complete": true}
        < 201
        < ETag: "MQ=="
        = {"text":"Read book","complete":true,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.427Z","version":"MQ==","deleted":false}
        # 3 insert, duplicate id: 409, body is the item as sent
        > POST /tables/TodoItem
        = {"id": "t1", "text": "Another", "complete": false}
        < 409
        = {"id":"t1","text":"Another","complete":false}
        # 4 insert, reserved property (createdAt, updatedAt, deleted): 400
        > POST /tables/TodoItem
        = {"id": "t2", "text": "x", "createdAt": "2020-01-01T00:00:00.000Z"}
        < 400
        = {"error":"Cannot update item with property 'createdAt' as it is reserved"}
        # 5 insert, version in the body
        > POST /tables/TodoItem
        = {"id": "t2v", "text": "with version", "version": "OQ=="}
        < 201
        < ETag: "T1E9PQ=="
        = {"text":"with version","complete":null,"id":"t2v","createdAt":"2026-11-20T20:32:22.435Z","updatedAt":"2026-11-20T20:32:22.435Z","version":"T1E9PQ==","deleted":false}
        # 6 insert, empty object
        > POST /tables/TodoItem
        = {}
        < 201
        < ETag: "MQ=="
        = {"text":null,"complete":null,"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c","createdAt":"2026-11-20T20:32:22.437Z","updatedAt":"2026-11-20T20:32:22.437Z","version":"MQ==","deleted":false}
        # 7 insert, malformed JSON: 400
        > POST /tables/TodoItem
        = {"text": 
        < 400
        = {"error":"Unexpected end of JSON input"}
        # 8 insert, body is an array
        > POST /tables/TodoItem
        = [{"text": "a"}]
        < 500
        = {"error":"0 is not a valid identifier. Identifiers must be under 128 characters in length, start with a letter or underscore, and can contain only alpha-numeric and underscore characters."}
        # 9 insert, no body
        > POST /tables/TodoItem
        = 
        < 201
        < ETag: "MQ=="
        = {"text":null,"complete":null,"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f","createdAt":"2026-11-20T20:32:22.442Z","updatedAt":"2026-11-20T20:32:22.442Z","version":"MQ==","deleted":false}
        # 10 insert, new columns (dynamic schema)
        > POST /tables/TodoItem
        = {"id": "t3", "text": "typed", "complete": false, "priority": 2.5, "due": "2026-12-24T10:00:00.000Z", "flag": true}
        < 201
        < ETag: "MQ=="
        = {"text":"typed","complete":false,"id":"t3","createdAt":"2026-11-20T20:32:22.448Z","updatedAt":"2026-11-20T20:32:22.448Z","version":"MQ==","deleted":false,"priority":2.5,"due":"2026-12-24T10:00:00.000Z","flag":true}
        # 11 insert, nested object as a value
        > POST /tables/TodoItem
        = {"id": "t4", "text": "nested", "extra": {"a": 1}}
        < 500
        = {"error":"Unsupported type: Object"}
        # 12 insert, null value in an unknown column
        > POST /tables/TodoItem
        = {"id": "t5", "text": null, "complete": null}
        < 201
        < ETag: "MQ=="
        = {"text":null,"complete":null,"id":"t5","createdAt":"2026-11-20T20:32:22.452Z","updatedAt":"2026-11-20T20:32:22.452Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 13 insert, number where the column is a string
        > POST /tables/TodoItem
        = {"id": "t6", "text": 42, "complete": "yes"}
        < 201
        < ETag: "MQ=="
        = {"text":"42","complete":true,"id":"t6","createdAt":"2026-11-20T20:32:22.454Z","updatedAt":"2026-11-20T20:32:22.454Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 14 insert, unicode and quotes
        > POST /tables/TodoItem
        = {"id": "o'brien-é", "text": "Zażółć \"gęślą\" 'jaźń' 🙂\n\t\\", "complete": false}
        < 201
        < ETag: "MQ=="
        = {"text":"Zażółć \"gęślą\" 'jaźń' 🙂\n\t\\","complete":false,"id":"o'brien-é","createdAt":"2026-11-20T20:32:22.456Z","updatedAt":"2026-11-20T20:32:22.456Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 15 insert, invalid column name
        > POST /tables/TodoItem
        = {"id": "t7", "bad-name": 1}
        < 500
        = {"error":"bad-name is not a valid identifier. Identifiers must be under 128 characters in length, start with a letter or underscore, and can contain only alpha-numeric and underscore characters."}
        # 16 insert, content type text/plain
        > POST /tables/TodoItem
        > Content-Type: text/plain
        = {"text":"plain"}
        < 500
        = {"error":"An item to insert was not provided"}
        # 17 no ZUMO-API-VERSION: 400
        > GET /tables/TodoItem?$top=1
        > ZUMO-API-VERSION: 
        < 400
        = {"error":"An invalid API version was specified in the request, this request needs to specify a ZUMO-API-VERSION of 2.0.0."}
        # 18 wrong version: 400
        > GET /tables/TodoItem?$top=1
        > ZUMO-API-VERSION: 3.0.0
        < 400
        = {"error":"An invalid API version was specified in the request, this request needs to specify a ZUMO-API-VERSION of 2.0.0."}
        # 19 version as a query parameter
        > GET /tables/TodoItem?$top=1&zumo-api-version=2.0.0
        > ZUMO-API-VERSION: 
        < 200
        < Link: http://127.0.0.1/?%24top=1&zumo-api-version=2.0.0&%24skip=1; rel=next
        = [{"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","createdAt":"2026-11-20T20:32:22.404Z","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}]
        # 20 by id
        > GET /tables/TodoItem/t1
        < 200
        < ETag: "MQ=="
        = {"text":"Read book","complete":true,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.427Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 21 by id, missing: 404
        > GET /tables/TodoItem/nope
        < 404
        = {"error":"The item does not exist"}
        # 22 by id, with If-None-Match of the current version
        > GET /tables/TodoItem/t1
        > If-None-Match: "MQ=="
        < 200
        < ETag: "MQ=="
        = {"text":"Read book","complete":true,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.427Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 23 by id with a quote and non-ASCII
        > GET /tables/TodoItem/o'brien-%C3%A9
        < 200
        < ETag: "MQ=="
        = {"text":"Zażółć \"gęślą\" 'jaźń' 🙂\n\t\\","complete":false,"id":"o'brien-é","createdAt":"2026-11-20T20:32:22.456Z","updatedAt":"2026-11-20T20:32:22.456Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 24 list
        > GET /tables/TodoItem
        < 200
        # 25 $filter complete eq false
        > GET /tables/TodoItem?$filter=complete%20eq%20false
        < 200
        = [{"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","createdAt":"2026-11-20T20:32:22.404Z","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null},{"text":"typed","complete":false,"id":"t3","createdAt":"2026-11-20T20:32:22.448Z","updatedAt":"2026-11-20T20:32:22.448Z","version":"MQ==","deleted":false,"priority":2.5,"due":"2026-12-24T10:00:00.000Z","flag":true},{"text":"Zażółć \"gęślą\" 'jaźń' 🙂\n\t\\","complete":false,"id":"o'brien-é","createdAt":"2026-11-20T20:32:22.456Z","updatedAt":"2026-11-20T20:32:22.456Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}]
        # 26 $filter text eq, and/or/not, parentheses
        > GET /tables/TodoItem?$filter=(text%20eq%20'Buy%20milk'%20or%20text%20eq%20'Read%20book')%20and%20not%20(complete%20eq%20false)
        < 200
        = [{"text":"Read book","complete":true,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.427Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}]
        # 27 $filter startswith (SQLite: '+' is not concatenation)
        > GET /tables/TodoItem?$filter=startswith(text,'Buy')
        < 200
        = []
        # 28 $filter substringof
        > GET /tables/TodoItem?$filter=substringof('book',text)
        < 200
        = []
        # 29 $filter tolower
        > GET /tables/TodoItem?$filter=tolower(text)%20eq%20'buy%20milk'
        < 200
        = [{"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","createdAt":"2026-11-20T20:32:22.404Z","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}]
        # 30 $filter indexof
        > GET /tables/TodoItem?$filter=indexof(text,'milk')%20eq%204
        < 200
        = []
        # 31 $filter length (SQLite has no LEN)
        > GET /tables/TodoItem?$filter=length(text)%20eq%208
        < 500
        = {"error":"SQLITE_ERROR: no such function: LEN"}
        # 32 $filter number compare and arithmetic
        > GET /tables/TodoItem?$filter=priority%20mul%202%20ge%205
        < 200
        = [{"text":"typed","complete":false,"id":"t3","createdAt":"2026-11-20T20:32:22.448Z","updatedAt":"2026-11-20T20:32:22.448Z","version":"MQ==","deleted":false,"priority":2.5,"due":"2026-12-24T10:00:00.000Z","flag":true}]
        # 33 $filter null
        > GET /tables/TodoItem?$filter=text%20eq%20null
        < 200
        = [{"text":null,"complete":null,"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c","createdAt":"2026-11-20T20:32:22.437Z","updatedAt":"2026-11-20T20:32:22.437Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null},{"text":null,"complete":null,"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f","createdAt":"2026-11-20T20:32:22.442Z","updatedAt":"2026-11-20T20:32:22.442Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null},{"text":null,"complete":null,"id":"t5","createdAt":"2026-11-20T20:32:22.452Z","updatedAt":"2026-11-20T20:32:22.452Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}]
        # 34 $filter date, datetimeoffset literal
        > GET /tables/TodoItem?$filter=updatedAt%20ge%20datetimeoffset'2020-01-01T00:00:00.000Z'&$top=2
        < 200
        < Link: http://127.0.0.1/?%24filter=updatedAt%20ge%20datetimeoffset'2020-01-01T00%3A00%3A00.000Z'&%24top=2&%24skip=2; rel=next
        = [{"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","createdAt":"2026-11-20T20:32:22.404Z","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null},{"text":"Read book","complete":true,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.427Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}]
        # 35 $filter date, datetime literal
        > GET /tables/TodoItem?$filter=due%20gt%20datetime'2026-01-01T00:00:00.000Z'
        < 200
        = [{"text":"typed","complete":false,"id":"t3","createdAt":"2026-11-20T20:32:22.448Z","updatedAt":"2026-11-20T20:32:22.448Z","version":"MQ==","deleted":false,"priority":2.5,"due":"2026-12-24T10:00:00.000Z","flag":true}]
        # 36 $filter year()
        > GET /tables/TodoItem?$filter=year(due)%20eq%202026
        < 500
        = {"error":"SQLITE_ERROR: no such function: YEAR"}
        # 37 $filter malformed
        > GET /tables/TodoItem?$filter=text%20eq
        < 500
        = {"error":"Expression expected (at index 8)"}
        # 38 $filter unknown function
        > GET /tables/TodoItem?$filter=foo(text)%20eq%201
        < 500
        = {"error":"Unknown identifier 'foo' (at index 1)"}
        # 39 $filter unknown column (dynamic schema): empty list
        > GET /tables/TodoItem?$filter=nosuch%20eq%201
        < 200
        = []
        # 40 $orderby two columns
        > GET /tables/TodoItem?$orderby=complete%20desc,text&$select=id,text,complete
        < 200
        = [{"text":"42","complete":true,"id":"t6"},{"text":"Read book","complete":true,"id":"t1"},{"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e"},{"text":"Zażółć \"gęślą\" 'jaźń' 🙂\n\t\\","complete":false,"id":"o'brien-é"},{"text":"typed","complete":false,"id":"t3"},{"text":null,"complete":null,"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c"},{"text":null,"complete":null,"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f"},{"text":null,"complete":null,"id":"t5"},{"text":"with version","complete":null,"id":"t2v"}]
        # 41 $orderby unknown column
        > GET /tables/TodoItem?$orderby=nosuch
        < 200
        = []
        # 42 $top and $skip
        > GET /tables/TodoItem?$top=2&$skip=1&$orderby=id&$select=id
        < 200
        < Link: http://127.0.0.1/?%24top=2&%24skip=3&%24orderby=id&%24select=id; rel=next
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e"},{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c"}]
        # 43 $skip alone
        > GET /tables/TodoItem?$skip=2&$orderby=id&$select=id
        < 200
        = [{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c"},{"id":"o'brien-é"},{"id":"t1"},{"id":"t2v"},{"id":"t3"},{"id":"t5"},{"id":"t6"}]
        # 44 $top=0
        > GET /tables/TodoItem?$top=0
        < 200
        # 45 $top not a number
        > GET /tables/TodoItem?$top=abc&$select=id
        < 200
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e"},{"id":"t1"},{"id":"t2v"},{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c"},{"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f"},{"id":"t3"},{"id":"t5"},{"id":"t6"},{"id":"o'brien-é"}]
        # 46 $top negative
        > GET /tables/TodoItem?$top=-1&$select=id
        < 200
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e"},{"id":"t1"},{"id":"t2v"},{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c"},{"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f"},{"id":"t3"},{"id":"t5"},{"id":"t6"},{"id":"o'brien-é"}]
        # 47 $inlinecount=allpages
        > GET /tables/TodoItem?$top=1&$inlinecount=allpages&$filter=complete%20eq%20false
        < 200
        < Link: http://127.0.0.1/?%24top=1&%24inlinecount=allpages&%24filter=complete%20eq%20false&%24skip=1; rel=next
        = {"results":[{"text":"Buy milk","complete":false,"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","createdAt":"2026-11-20T20:32:22.404Z","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ==","deleted":false,"priority":null,"due":null,"flag":null}],"count":3}
        # 48 $top over maxTop: 400
        > GET /tables/TodoItem?$top=1001
        < 400
        = {"error":"You cannot request more than 1000 records"}
        # 49 $select with system columns
        > GET /tables/TodoItem?$select=id,version,updatedAt&$top=1
        < 200
        < Link: http://127.0.0.1/?%24select=id%2Cversion%2CupdatedAt&%24top=1&%24skip=1; rel=next
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","updatedAt":"2026-11-20T20:32:22.404Z","version":"MQ=="}]
        # 50 $select unknown column
        > GET /tables/TodoItem?$select=nosuch&$top=1
        < 200
        = []
        # 51 first page, no $top: Link header
        > GET /tables/harddelete?$orderby=id
        < 200
        < Link: http://127.0.0.1/?%24orderby=id&%24top=50&%24skip=50; rel=next
        # 52 $top=120 (more than pageSize)
        > GET /tables/harddelete?$orderby=id&$top=120
        < 200
        < Link: http://127.0.0.1/?%24orderby=id&%24top=120&%24skip=120; rel=next
        # 53 $top=1000 as $skip=50
        > GET /tables/harddelete?$orderby=id&$top=1000&$skip=50
        < 200
        # 54 third page: fewer than a page, no Link
        > GET /tables/harddelete?$orderby=id&$top=50&$skip=100
        < 200
        # 55 $inlinecount with a page
        > GET /tables/harddelete?$orderby=id&$inlinecount=allpages&$top=10
        < 200
        < Link: http://127.0.0.1/?%24orderby=id&%24inlinecount=allpages&%24top=10&%24skip=10; rel=next
        # 56 PATCH without If-Match
        > PATCH /tables/TodoItem/t1
        = {"complete": false}
        < 200
        < ETag: "Mg=="
        = {"text":"Read book","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.702Z","version":"Mg==","deleted":false,"priority":null,"due":null,"flag":null}
        # 57 PATCH, id in the body only, collection route
        > PATCH /tables/TodoItem
        = {"id": "t1", "text": "via body"}
        < 200
        < ETag: "Mw=="
        = {"text":"via body","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.704Z","version":"Mw==","deleted":false,"priority":null,"due":null,"flag":null}
        # 58 read it again for its version
        > GET /tables/TodoItem/t1
        < 200
        < ETag: "Mw=="
        = {"text":"via body","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.704Z","version":"Mw==","deleted":false,"priority":null,"due":null,"flag":null}
        # 59 PATCH with the right If-Match
        > PATCH /tables/TodoItem/t1
        > If-Match: "Mw=="
        = {"id": "t1", "text": "Second"}
        < 200
        < ETag: "NA=="
        = {"text":"Second","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.710Z","version":"NA==","deleted":false,"priority":null,"due":null,"flag":null}
        # 60 PATCH with a stale If-Match: 412 and the server item
        > PATCH /tables/TodoItem/t1
        > If-Match: "Mw=="
        = {"text": "Stale"}
        < 412
        < ETag: "NA=="
        = {"text":"Second","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.710Z","version":"NA==","deleted":false,"priority":null,"due":null,"flag":null}
        # 61 PATCH with a stale version in the body, no If-Match: 409
        > PATCH /tables/TodoItem/t1
        = {"text": "Stale", "version": "Mw=="}
        < 409
        < ETag: "NA=="
        = {"text":"Second","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.710Z","version":"NA==","deleted":false,"priority":null,"due":null,"flag":null}
        # 62 PATCH If-Match: *
        > PATCH /tables/TodoItem/t1
        > If-Match: *
        = {"text": "Star"}
        < 412
        < ETag: "NA=="
        = {"text":"Second","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.710Z","version":"NA==","deleted":false,"priority":null,"due":null,"flag":null}
        # 63 PATCH If-Match weak
        > PATCH /tables/TodoItem/t1
        > If-Match: W/"NA=="
        = {"text": "Weak"}
        < 412
        < ETag: "NA=="
        = {"text":"Second","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.710Z","version":"NA==","deleted":false,"priority":null,"due":null,"flag":null}
        # 64 PATCH If-Match not base64
        > PATCH /tables/TodoItem/t1
        > If-Match: "!!"
        = {"text": "Odd"}
        < 412
        < ETag: "NA=="
        = {"text":"Second","complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.710Z","version":"NA==","deleted":false,"priority":null,"due":null,"flag":null}
        # 65 PATCH missing: 404
        > PATCH /tables/TodoItem/nope
        = {"text": "x"}
        < 404
        = {"error":"The item does not exist"}
        # 66 PATCH missing with If-Match: 404
        > PATCH /tables/TodoItem/nope
        > If-Match: "MQ=="
        = {"text": "x"}
        < 404
        = {"error":"The item does not exist"}
        # 67 PATCH id in path and body differ: 400
        > PATCH /tables/TodoItem/t1
        = {"id": "t3", "text": "x"}
        < 400
        = {"error":"The item ID and querystring ID did not match"}
        # 68 PATCH reserved property: 400
        > PATCH /tables/TodoItem/t1
        = {"deleted": true}
        < 400
        = {"error":"Cannot update item with property 'deleted' as it is reserved"}
        # 69 PATCH null value
        > PATCH /tables/TodoItem/t1
        = {"text": null}
        < 200
        < ETag: "NQ=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.726Z","version":"NQ==","deleted":false,"priority":null,"due":null,"flag":null}
        # 70 PATCH empty object
        > PATCH /tables/TodoItem/t1
        = {}
        < 500
        = {"error":"SQLITE_ERROR: near \"WHERE\": syntax error"}
        # 71 PATCH new column
        > PATCH /tables/TodoItem/t1
        = {"note": "added"}
        < 200
        < ETag: "Ng=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.731Z","version":"Ng==","deleted":false,"priority":null,"due":null,"flag":null,"note":"added"}
        # 72 PATCH malformed JSON: 400
        > PATCH /tables/TodoItem/t1
        = {oops
        < 400
        = {"error":"Expected property name or '}' in JSON at position 1"}
        # 73 PUT: not routed
        > PUT /tables/TodoItem/t1
        = {"text": "x"}
        < 404
        # 74 read t1 for its version
        > GET /tables/TodoItem/t1
        < 200
        < ETag: "Ng=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.731Z","version":"Ng==","deleted":false,"priority":null,"due":null,"flag":null,"note":"added"}
        # 75 DELETE stale If-Match: 412
        > DELETE /tables/TodoItem/t1
        > If-Match: "MQ=="
        < 412
        < ETag: "Ng=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.731Z","version":"Ng==","deleted":false,"priority":null,"due":null,"flag":null,"note":"added"}
        # 76 DELETE right If-Match
        > DELETE /tables/TodoItem/t1
        > If-Match: "Ng=="
        < 200
        < ETag: "Nw=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.737Z","version":"Nw==","deleted":true,"priority":null,"due":null,"flag":null,"note":"added"}
        # 77 DELETE again: 404
        > DELETE /tables/TodoItem/t1
        < 404
        = {"error":"The item does not exist"}
        # 78 DELETE deleted with a stale If-Match
        > DELETE /tables/TodoItem/t1
        > If-Match: "MQ=="
        < 404
        = {"error":"The item does not exist"}
        # 79 DELETE missing: 404
        > DELETE /tables/TodoItem/nope
        < 404
        = {"error":"The item does not exist"}
        # 80 DELETE without If-Match
        > DELETE /tables/TodoItem/t3
        < 200
        < ETag: "Mg=="
        = {"text":"typed","complete":false,"id":"t3","createdAt":"2026-11-20T20:32:22.448Z","updatedAt":"2026-11-20T20:32:22.742Z","version":"Mg==","deleted":true,"priority":2.5,"due":"2026-12-24T10:00:00.000Z","flag":true,"note":null}
        # 81 GET a deleted id
        > GET /tables/TodoItem/t1
        < 404
        = {"error":"The item does not exist"}
        # 82 GET a deleted id with __includeDeleted
        > GET /tables/TodoItem/t1?__includeDeleted=true
        < 404
        = {"error":"The item does not exist"}
        # 83 list with __includeDeleted
        > GET /tables/TodoItem?__includeDeleted=true&$select=id,deleted,version
        < 200
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","version":"MQ==","deleted":false},{"id":"t1","version":"Nw==","deleted":true},{"id":"t2v","version":"T1E9PQ==","deleted":false},{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c","version":"MQ==","deleted":false},{"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f","version":"MQ==","deleted":false},{"id":"t3","version":"Mg==","deleted":true},{"id":"t5","version":"MQ==","deleted":false},{"id":"t6","version":"MQ==","deleted":false},{"id":"o'brien-é","version":"MQ==","deleted":false}]
        # 84 list without it
        > GET /tables/TodoItem?$select=id,deleted
        < 200
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","deleted":false},{"id":"t2v","deleted":false},{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c","deleted":false},{"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f","deleted":false},{"id":"t5","deleted":false},{"id":"t6","deleted":false},{"id":"o'brien-é","deleted":false}]
        # 85 __includeDeleted=false (any value counts)
        > GET /tables/TodoItem?__includeDeleted=false&$select=id,deleted
        < 200
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e","deleted":false},{"id":"t1","deleted":true},{"id":"t2v","deleted":false},{"id":"77d9b430-e481-45d5-897f-a07d6ab7cd5c","deleted":false},{"id":"1d13bbdf-dfcc-45e3-8315-97d2134dca8f","deleted":false},{"id":"t3","deleted":true},{"id":"t5","deleted":false},{"id":"t6","deleted":false},{"id":"o'brien-é","deleted":false}]
        # 86 insert over a deleted id: 409
        > POST /tables/TodoItem
        = {"id": "t1", "text": "again", "complete": false}
        < 409
        = {"id":"t1","text":"again","complete":false}
        # 87 PATCH a deleted row: 404
        > PATCH /tables/TodoItem/t1
        = {"text": "x"}
        < 404
        = {"error":"The item does not exist"}
        # 88 PATCH a deleted row with If-Match
        > PATCH /tables/TodoItem/t1
        > If-Match: "MQ=="
        = {"text": "x"}
        < 404
        = {"error":"The item does not exist"}
        # 89 undelete
        > POST /tables/TodoItem/t1
        < 201
        < ETag: "OA=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.756Z","version":"OA==","deleted":false,"priority":null,"due":null,"flag":null,"note":"added"}
        # 90 undelete of a live row
        > POST /tables/TodoItem/t1
        < 201
        < ETag: "OQ=="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.757Z","version":"OQ==","deleted":false,"priority":null,"due":null,"flag":null,"note":"added"}
        # 91 DELETE then undelete with a stale If-Match
        > DELETE /tables/TodoItem/t1
        < 200
        < ETag: "MTA="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.759Z","version":"MTA=","deleted":true,"priority":null,"due":null,"flag":null,"note":"added"}
        # 92 undelete, stale If-Match
        > POST /tables/TodoItem/t1
        > If-Match: "MQ=="
        < 412
        < ETag: "MTA="
        = {"text":null,"complete":false,"id":"t1","createdAt":"2026-11-20T20:32:22.427Z","updatedAt":"2026-11-20T20:32:22.759Z","version":"MTA=","deleted":true,"priority":null,"due":null,"flag":null,"note":"added"}
        # 93 undelete missing
        > POST /tables/TodoItem/nope
        < 404
        = {"error":"The item does not exist"}
        # 94 hard delete table: DELETE
        > DELETE /tables/harddelete/r000
        < 200
        < ETag: "MQ=="
        = {"text":"row 0","id":"r000","createdAt":"2026-11-20T20:32:22.522Z","updatedAt":"2026-11-20T20:32:22.522Z","version":"MQ=="}
        # 95 hard delete table: DELETE stale
        > DELETE /tables/harddelete/r001
        > If-Match: "OQ=="
        < 412
        < ETag: "MQ=="
        = {"text":"row 1","id":"r001","createdAt":"2026-11-20T20:32:22.523Z","updatedAt":"2026-11-20T20:32:22.523Z","version":"MQ=="}
        # 96 hard delete table: GET after
        > GET /tables/harddelete/r000
        < 404
        = {"error":"The item does not exist"}
        # 97 DELETE on the collection with a filter
        > DELETE /tables/harddelete?$filter=id%20eq%20'r002'
        < 200
        < ETag: "MQ=="
        = {"text":"row 2","id":"r002","createdAt":"2026-11-20T20:32:22.524Z","updatedAt":"2026-11-20T20:32:22.524Z","version":"MQ=="}
        # 98 first pull page
        > GET /tables/TodoItem?$filter=(updatedAt%20ge%20datetimeoffset'1970-01-01T00:00:00.000Z')&$orderby=updatedAt&$skip=0&$top=50&__includeDeleted=true
        > X-ZUMO-FEATURES: OL,TT
        < 200
        # 99 integer ids: insert
        > POST /tables/numbers
        = {"n": 1.5, "d": "2026-01-02T03:04:05.678Z"}
        < 201
        < ETag: "MQ=="
        = {"id":1,"n":1.5,"d":"2026-01-02T03:04:05.678Z","createdAt":"2026-11-20T20:32:22.774Z","updatedAt":"2026-11-20T20:32:22.774Z","version":"MQ==","deleted":false}
        # 100 integer ids: by id
        > GET /tables/numbers/1
        < 200
        < ETag: "MQ=="
        = {"id":1,"n":1.5,"d":"2026-01-02T03:04:05.678Z","createdAt":"2026-11-20T20:32:22.774Z","updatedAt":"2026-11-20T20:32:22.774Z","version":"MQ==","deleted":false}
        # 101 integer ids: not a number
        > GET /tables/numbers/abc
        < 404
        = {"error":"The item does not exist"}
        # 102 fixed schema, unknown column
        > POST /tables/fixedschema
        = {"id": "f1", "text": "a", "other": 1}
        < 500
        = {"error":"SQLITE_ERROR: table fixedschema has no column named other"}
        # 103 fixed schema, filter on an unknown column
        > GET /tables/fixedschema?$filter=other%20eq%201
        < 500
        = {"error":"SQLITE_ERROR: no such column: other"}
        # 104 unknown table: 404
        > GET /tables/nosuch
        < 404
        # 105 case of the table name
        > GET /tables/todoitem?$top=1&$select=id
        < 200
        < Link: http://127.0.0.1/?%24top=1&%24select=id&%24skip=1; rel=next
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e"}]
        # 106 disabled operation: 405
        > POST /tables/readonly
        = {"text": "x"}
        < 405
        # 107 disabled update: 405
        > PATCH /tables/readonly/1
        = {"text": "x"}
        < 405
        # 108 authorize, no token: 401
        > GET /tables/private
        < 401
        # 109 authorize, bad token: 401
        > GET /tables/private
        > X-ZUMO-AUTH: abc
        < 401
        = {"name":"JsonWebTokenError","message":"jwt malformed"}
        # 110 auth stub login (local only): redirect with the token
        > GET /.auth/login/facebook
        < 302
        # 111 expired token: 401
        > GET /tables/private
        > X-ZUMO-AUTH: (a token)
        < 401
        = {"name":"TokenExpiredError","message":"jwt expired","expiredAt":"2026-11-20T20:32:12.000Z"}
        # 112 per user: insert as user 1
        > POST /tables/private
        > X-ZUMO-AUTH: (a token)
        = {"id": "p1", "text": "mine"}
        < 201
        < ETag: "MQ=="
        = {"text":"mine","userId":"sid:1","id":"p1","createdAt":"2026-11-20T20:32:22.791Z","updatedAt":"2026-11-20T20:32:22.791Z","version":"MQ==","deleted":false}
        # 113 per user: list as user 2
        > GET /tables/private
        > X-ZUMO-AUTH: (a token)
        < 200
        = []
        # 114 per user: update as user 2
        > PATCH /tables/private/p1
        > X-ZUMO-AUTH: (a token)
        = {"text": "theirs"}
        < 404
        = {"error":"The item does not exist"}
        # 115 CORS preflight from localhost
        > OPTIONS /tables/TodoItem
        > Origin: http://localhost:8080
        > Access-Control-Request-Method: POST
        > Access-Control-Request-Headers: content-type, zumo-api-version
        < 200
        < Allow: GET,HEAD,POST,PATCH,DELETE
        # 116 CORS: request from another origin
        > GET /tables/TodoItem?$top=1&$select=id
        > Origin: http://evil.example
        < 200
        < Link: http://127.0.0.1/?%24top=1&%24select=id&%24skip=1; rel=next
        = [{"id":"741ca5cc-34e8-49dd-be4a-462afdb65f5e"}]
        # 117 HEAD
        > HEAD /tables/TodoItem?$top=1&$select=id
        < 500
        # 118 push installation (local stub)
        > PUT /push/installations/abc
        = {"platform": "gcm"}
        < 204
        # 119 custom API that is not there
        > GET /api/nosuch
        < 404
        # 120 root
        > GET /
        < 404
        """#
}

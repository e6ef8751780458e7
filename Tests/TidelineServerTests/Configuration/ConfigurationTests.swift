// The configuration file: what it accepts, and how it names its errors.

import Foundation
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServer
import TidelineServerCore

@Suite struct ConfigurationTests {
    @Test("A byte order mark is skipped and not counted in the positions of errors")
    func aByteOrderMarkIsSkipped() throws {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let text = Array(#"{"listen":"localhost:9"}"#.utf8)
        let configuration = try ServerConfiguration(json: mark + text)
        #expect(configuration.host == "localhost" && configuration.port == 9)
        for (bytes, fault) in [
            (mark + mark + text, "line 1, column 1:"), (mark + Array("{x".utf8), "column 2:"),
            ([0xFF, 0xFE] + text, "not valid UTF-8"),
        ] {
            let error = #expect(throws: ConfigurationError.self) {
                try ServerConfiguration(json: bytes)
            }
            #expect(error?.description.contains(fault) == true, "\(fault)")
        }
    }

    @Test("A configuration file sets the server, its limits, its tables and their columns")
    func readsTheExampleOfTheContract() throws {
        let text = """
            {
              "listen": "[::1]:0", "database": "sqlite:x.db", "publicURL": "https://a.example/t/",
              "dynamicSchema": true, "readers": 6, "limits": { "pageBytes": 5000, "logBytes": 9000000, "mergeBases": 7, "queryTime": 0.5, "bodyBytes": 9999 },
              "log": { "level": "debug", "format": "json", "requests": "info" },
              "tables": {
                "TodoItem": {
                  "columns": {
                    "text": { "type": "string", "required": true },
                    "start": "date", "end": "date",
                    "complete": { "type": "boolean", "nullable": false, "default": true },
                    "rating": { "enum": ["Unrated", "G"], "default": "G" },
                    "mood": { "type": { "enum": ["good", "bad"] }, "nullable": false }
                  },
                  "softDelete": false, "pageSize": 20, "maxTop": 500, "indexes": [["complete", "updatedAt"]],
                  "permissions": { "read": "anonymous" }, "conflict": "merge", "audit": true,
                  "references": { "text": { "table": "todoitem", "onDelete": "cascade" } },
                  "unique": [["text", "start"]], "compare": [["start", "<=", "end"]],
                  "aliases": { "title": "text" }
                }
              }
            }
            """
        let configuration = try ServerConfiguration(json: Array(text.utf8))
        #expect(configuration.host == "::1")
        #expect(configuration.port == 0)
        #expect(configuration.database == .sqlite(path: "x.db"))
        #expect(configuration.publicURL == "https://a.example/t")
        #expect(configuration.dynamicSchema)
        #expect(configuration.limits.pageBytes == 5000)
        #expect(configuration.limits.mergeBases == 7)
        #expect(configuration.limits.logBytes == 9_000_000)
        #expect(configuration.readers == 6)
        #expect(configuration.limits.queryTime == .milliseconds(500))
        #expect(configuration.http.bodyBytesMax == 9999)
        #expect(configuration.log.format == .json)
        let table = try #require(configuration.tables.first)
        #expect(table.pageSize == 20)
        #expect(table.maxTop == 500)
        #expect(!table.softDelete)
        #expect(table.conflict == .merge)
        #expect(table.audit)
        #expect(table.references == [TableReference("text", to: "todoitem", onDelete: .cascade)])
        #expect(table.indexes == [["complete", "updatedAt"]])
        #expect(table.schema.rules.unique == [["text", "start"]])
        #expect(
            table.schema.rules.comparisons == [ColumnComparison("start", .lessOrEqual, "end")]
        )
        #expect(table.aliases == ["title": "text"])
        #expect(
            table.schema.columns == [
                ColumnDefinition("text", .string, rules: ColumnRules(required: true)),
                ColumnDefinition("start", .date), ColumnDefinition("end", .date),
                ColumnDefinition("complete", .boolean, nullable: false, default: true),
                ColumnDefinition("rating", .enumeration(["Unrated", "G"]), default: "G"),
                ColumnDefinition("mood", .enumeration(["good", "bad"]), nullable: false),
            ]
        )
    }

    @Test(
        "An error in the configuration is reported once and names the key",
        arguments: [
            ("", "not valid JSON: line 1, column 1:"),
            ("{\"tables\": {},\n \"é\": tru}", "line 2, column 10: "),
            ("{\"listen\":\n\"a:1\"", "line 2, column 6: "),
            (
                "{\"log\": {},\n\"log\": {}}",
                "line 2, column 2: duplicate member name, at 'log\": {}}'"
            ),
            (#"{"tabels":{}}"#, "did you mean 'tables'?"),
            (#"{"tables":{"A":{"softdelete":true}}}"#, "did you mean 'softDelete'?"),
            (#"{"tables":{"A":{"colums":{}}}}"#, "tables.A.colums: this key is unknown"),
            (
                #"{"tables":{"A":{"clock":"owner"}}}"#,
                "tables.A.clock: this key no longer exists, because every table has one table clock; remove the key"
            ),
            (#"{"limits":{"pageByte":5}}"#, "did you mean 'pageBytes'?"),
            (#"{"limits":{"rowBytes":"many"}}"#, #"to 1073741824 is expected, not "many""#),
            (
                #"{"limits":{"connections":-5}}"#,
                "a whole number from 1 to 1000000 is expected, not -5"
            ),
            (#"{"listen":"8080"}"#, "with a port from 0 to 65535 is expected, not '8080'"),
            (#"{"dynamicSchema":"yes"}"#, #"true or false is expected, not "yes""#),
            (
                #"{"database":"mysql://me:secret@host/a"}"#,
                "postgres://… is expected, not 'mysql:…'"
            ),
            ("[]", "an object is expected"),
            (#"{"listne":1}"#, "listne: this key is unknown; allowed keys are listen"),
            (#"{"listen":5}"#, "listen: a string is expected"),
            (#"{"listen":"x"}"#, "listen: HOST:PORT"),
            (#"{"listen":"a:70000"}"#, "listen: HOST:PORT"),
            (#"{"listen":"::1:+80"}"#, "listen: HOST:PORT"),
            (#"{"listen":"127.0.0.1:-0"}"#, "listen: HOST:PORT"),
            (#"{"listen":"127.0.0.1:"}"#, "listen: HOST:PORT"),
            (#"{"listen":":8080"}"#, "listen: HOST:PORT"),
            (#"{"listen":"::1:8080"}"#, "listen: an IPv6 address must be in brackets"),
            (
                #"{"listen":"http://a:80"}"#,
                "listen: the host must be an IPv4 address of this machine"
            ),
            (#"{"listen":"example.org:80"}"#, "or localhost, such as 127.0.0.1:8080"),
            (#"{"listen":"[localhost]:80"}"#, "listen: the host must be an IPv4 address"),
            (#"{"listen":"[127.0.0.1]:80"}"#, "listen: the host must be an IPv4 address"),
            (#"{"listen":"[::1:80"}"#, "listen: the host must be an IPv4 address"),
            (#"{"listen":"127.1:80"}"#, "listen: the host must be an IPv4 address"),
            (#"{"database":"mysql:x"}"#, "database: sqlite:PATH"),
            (#"{"database":"mysql:y"}"#, "postgres://… is expected"),
            (#"{"publicURL":"ftp://x"}"#, "publicURL: an http or https URL"),
            (#"{"dynamicSchema":1}"#, "dynamicSchema: true or false is expected"),
            (#"{"limits":{"pageBytes":-1}}"#, "limits.pageBytes: a whole number from"),
            (#"{"limits":{"page":1}}"#, "limits.page: this key is unknown"),
            (#"{"readers":1}"#, "readers: "), (#"{"limits":{"logBytes":9}}"#, "limits.logBytes: "),
            (
                #"{"limits":{"headerFields":1}}"#,
                "limits.headerFields: a whole number from 10 to 10000"
            ),
            (#"{"limits":{"queryTime":"1s"}}"#, "limits.queryTime: a number of seconds"),
            (#"{"log":{"level":"loud"}}"#, "log.level: one of 'error', 'warning', 'info', 'debug'"),
            (#"{"tables":{"__x":{}}}"#, "tables.__x: the table name is not valid"),
            (#"{"tables":{"A":{},"a":{}}}"#, "tables.a: another table has this name"),
            (
                #"{"tables":{"A":{"conflict":"x"}}}"#,
                "tables.A.conflict: one of 'reject', 'serverWins', 'clientWins', 'merge' is expected"
            ),
            (#"{"limits":{"mergeBases":0}}"#, "limits.mergeBases: a whole number from 1 to 1000"),
            (#"{"limits":{"callerRequests":-1}}"#, "limits.callerRequests: a whole number from 0"),
            (#"{"limits":{"callerBytes":"1"}}"#, "limits.callerBytes: a whole number from 0"),
            (#"{"limits":{"callerQueries":-1}}"#, "limits.callerQueries: a whole number from 0"),
            (
                #"{"limits":{"callerConnections":-1}}"#,
                "limits.callerConnections: a whole number from 0"
            ),
            (
                #"{"limits":{"callerListeners":1.5}}"#,
                "limits.callerListeners: a whole number from 0"
            ),
            (#"{"limits":{"tables":0}}"#, "limits.tables: a whole number from 1 to 1000000"),
            (#"{"limits":{"columns":2000}}"#, "limits.columns: a whole number from 1 to 1500"),
            (#"{"limits":{"auditDays":0}}"#, "limits.auditDays: a whole number from 1 to 36500"),
            (#"{"tables":{"A":{"audit":1}}}"#, "tables.A.audit: true or false is expected"),
            (#"{"limits":{"drainNotice":-1}}"#, "limits.drainNotice: a number of seconds from 0"),
            (
                #"{"limits":{"handshakeTime":-1}}"#,
                "limits.handshakeTime: a number of seconds over 0"
            ),
            (#"{"log":{"slow":0}}"#, "log.slow: a number of seconds over 0"),
            (#"{"tls":{"keyFile":"a"}}"#, "tls: both certificateFile and keyFile"),
            (#"{"limits":{"patchSteps":0}}"#, "limits.patchSteps: a whole number from 1 to 100000"),
            (
                #"{"tables":{"A":{"permissions":{"read":"x"}}}}"#,
                "tables.A.permissions.read: one of 'anonymous', 'authenticated', 'disabled'"
            ),
            (#"{"tables":{"A":{"tombstoneDays":0}}}"#, "tables.A.tombstoneDays: a whole number"),
            (#"{"tables":{"A":{"columns":{"b":"text"}}}}"#, "tables.A.columns.b: one of 'string'"),
            (
                #"{"tables":{"A":{"columns":{"ID":"string"}}}}"#,
                "tables.A.columns.ID: a system column"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{}}}}}"#,
                "tables.A.columns.b: an object with 'type'"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"integer","default":"x"}}}}}"#,
                #"tables.A.columns.b.default: a 64-bit integer is expected, not "x""#
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"string","min":5}}}}}"#,
                "tables.A.columns.b.min: a column of type string cannot have 'min'"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"integer","maxLength":5}}}}}"#,
                "tables.A.columns.b.maxLength: a column of type integer cannot"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"string","maxLength":"x"}}}}}"#,
                "tables.A.columns.b.maxLength: a whole number"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"integer","min":"x"}}}}}"#,
                #"tables.A.columns.b.min: a 64-bit integer is expected, not "x""#
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"integer","min":5,"max":4}}}}}"#,
                "tables.A.columns.b.max: at least 5, which is 'min', is expected, not 4"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"string","pattern":"(a"}}}}}"#,
                "tables.A.columns.b.pattern: the pattern is not valid: ')' is expected, at character 2"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"integer","max":4,"default":5}}}}}"#,
                "tables.A.columns.b.default: at most 4 is expected, not 5"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"string","maxLength":2,"default":"abc"}}}}}"#,
                #"tables.A.columns.b.default: at most 2 characters are allowed: "abc""#
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"boolean","nullable":false,"default":null}}}}}"#,
                "tables.A.columns.b.default: null is not allowed: null"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"enum":["x"],"default":"y"}}}}}"#,
                #"tables.A.columns.b.default: one of 'x' is expected, not "y""#
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"enum":[]}}}}}"#,
                "tables.A.columns.b.enum: a non-empty list of different strings is expected, not []"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"enum":["x","x"]}}}}}"#,
                #"a non-empty list of different strings is expected, not ["x","x"]"#
            ),
            (#"{"tables":{"A":{"columns":{"b":{"type":"text"}}}}}"#, #"is expected, not "text""#),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"indexes":[["c"]]}}}"#,
                "tables.A.indexes[0][0]: one of 'b', 'id', 'createdAt', 'updatedAt', 'version', "
                    + #"'deleted' is expected, not "c""#
            ),
            (
                #"{"tables":{"A":{"indexes":[["id"],[]]}}}"#,
                "tables.A.indexes[1]: a non-empty list of columns is expected, not []"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"indexes":[["b","id","b"]]}}}"#,
                "tables.A.indexes[0][2]: a column that is listed only once is expected, "
                    + #"not "b""#
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"references":{"c":{"table":"A"}}}}}"#,
                "tables.A.references.c: the column does not exist; declare it in 'columns'"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"references":{"b":{"table":"B"}}}}}"#,
                "tables.A.references.b: table 'B' is not declared"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"integer"},"references":{"b":{"table":"A"}}}}}"#,
                "tables.A.references.b: a column of type integer cannot contain an id; 'string' or 'guid' "
                    + "is expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"string","nullable":false}},"references":"#
                    + #"{"b":{"table":"A","onDelete":"setNull"}}}}}"#,
                "tables.A.references.b: 'setNull' requires a column with 'nullable' true"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":{"type":"string","required":true}},"references":"#
                    + #"{"b":{"table":"A","onDelete":"setNull"}}}}}"#,
                "tables.A.references.b: 'setNull' requires a column without 'required'"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"references":{"b":{"table":"A"},"#
                    + #""B":{"table":"A"}}}}}"#,
                "tables.A.references.B: the column already has a reference; a column can have only one"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"references":{"b":{"onDelete":"cascade"}}}}}"#,
                "tables.A.references.b: an object with 'table' is expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"b":"string"},"references":{"b":{"table":"A","onDelete":"no"}}}}}"#,
                "tables.A.references.b.onDelete: one of 'restrict', 'setNull', 'cascade', 'none' is expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"string"},"unique":[["b"]]}}}"#,
                "tables.A.unique[0][0]: one of 'a' is expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"json"},"unique":[["a"]]}}}"#,
                "tables.A.unique[0][0]: a column of type json cannot be unique"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"string"},"unique":[["a"],["a"]]}}}"#,
                "tables.A.unique[1]: another rule has the same columns"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"string","b":"date"},"compare":[["a","<","b"]]}}}"#,
                "tables.A.compare[0]: two columns of the same type are expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"guid","b":"guid"},"compare":[["a","<","b"]]}}}"#,
                "columns of type guid cannot be compared with '<'"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"date","b":"date"},"compare":[["a","<<","b"]]}}}"#,
                "tables.A.compare[0][1]: one of '<', '<=', '=', '!=', '>=', '>' is expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"date"},"compare":[["a","<"]]}}}"#,
                "a column, an operator and a column"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"string"},"aliases":{"b":"c"}}}}"#,
                "tables.A.aliases.b: one of 'a' is expected"
            ),
            (
                #"{"tables":{"A":{"columns":{"a":"string"},"aliases":{"A":"a"}}}}"#,
                "tables.A.aliases.A: a column or another alias has this name"
            ),
            (
                #"{"tables":{"A":{"indexes":[5]}}}"#,
                "tables.A.indexes[0]: an array is expected, not 5"
            ),
            (
                #"{"tables":{"A":{"indexes":[[5]]}}}"#,
                "tables.A.indexes[0][0]: a string is expected"
            ),
        ]
    )
    func namesErrors(_ text: String, _ expected: String) {
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(text.utf8))
        }
        #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
        // An error is reported once.
        #expect(error?.faults.count == 1, "\(error?.description ?? "")")
    }

    @Test("An unknown key that resembles no other key gets no suggestion")
    func suggestsOnlySimilarKeys() {
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(#"{"colour":1,"xyz":2}"#.utf8))
        }
        #expect(error?.description.contains("did you mean") == false)
    }

    @Test("A long value is truncated in the error") func longValuesAreTruncated() {
        let text = "{\"dynamicSchema\":\"" + String(repeating: "x", count: 500) + "\"}"
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(text.utf8))
        }
        #expect((error?.description.count ?? 0) < 100)
    }

    @Test("All errors of a configuration file are reported together") func namesAllErrorsAtOnce() {
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(#"{"a":1,"listen":2,"log":{"level":3}}"#.utf8))
        }
        #expect(error?.faults.count == 3)
    }

    @Test("A server starts on a free port and may be stopped twice")
    func servesOverASocket() async throws {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.database = .memory
        configuration.log.level = .error
        let server = TidelineServer(configuration: configuration)
        let url = try await server.start()
        #expect(url.absoluteString.hasPrefix("http://127.0.0.1:"))
        await server.stop()
        await server.stop()
    }
}

// The conflict policy `merge`: the outcome for each column, and the writes that are rejected as by `reject`.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct MergePolicyTests {
    static let table = TableDefinition(
        "T",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("note", .string, default: "n"),
            ColumnDefinition("flag", .boolean, nullable: false),
            ColumnDefinition("rank", .integer), ColumnDefinition("size", .number),
            ColumnDefinition("price", .decimal), ColumnDefinition("due", .dateTime),
            ColumnDefinition("doc", .json), ColumnDefinition("data", .binary),
        ],
        conflict: .merge
    )

    static let row = #"""
        {"id":"a","text":"x","flag":true,"rank":1,"size":0.5,"price":1.50,
         "due":"2026-11-20T20:32:22.404999Z","doc":{"a":1,"b":[1.0,true]},"data":"AQI="}
        """#

    struct Case: Sendable, CustomTestStringConvertible {
        /// A PATCH by another caller.
        var theirs: String
        /// A PATCH with a base version from before it.
        var mine: String
        /// The members of the row afterwards; nil for a conflict.
        var row: String?

        init(_ theirs: String, _ mine: String, _ row: String?) {
            self.theirs = theirs
            self.mine = mine
            self.row = row
        }

        var testDescription: String { "\(theirs) \(mine)" }
    }

    static let cases = [
        Case(#"{"text":"y"}"#, #"{"rank":2}"#, #""text":"y","note":"n","flag":true,"rank":2"#),
        Case(
            #"{"text":"y"}"#,
            #"{"text":"x","rank":2}"#,
            #""text":"y","note":"n","flag":true,"rank":2"#
        ),
        Case(#"{"text":"y"}"#, #"{"text":"y"}"#, #""text":"y""#),
        Case(#"{"text":"y"}"#, #"{"text":"z"}"#, nil),
        Case(#"{"text":"y"}"#, #"{"text":"z","rank":2}"#, nil),
        Case(#"{"text":"y"}"#, #"{"text":null}"#, nil),
        Case(#"{"text":null}"#, #"{"text":"x"}"#, #""text":null"#),
        Case(#"{"text":null}"#, #"{"text":null}"#, #""text":null"#),
        Case(#"{"flag":false}"#, #"{"flag":true}"#, #""flag":false"#),
        Case("{}", #"{"text":"z"}"#, #""text":"z""#),
        Case(#"{"rank":2}"#, "{}", #""rank":2"#),
        // Strings that Swift considers equal are different.
        Case(#"{"text":"e\u0301"}"#, #"{"text":"\u00e9"}"#, nil),
        // Times are compared as in their JSON representation.
        Case(
            #"{"text":"y"}"#,
            #"{"due":"2026-11-20T21:32:22.404+01:00"}"#,
            #""due":"2026-11-20T20:32:22.404Z""#
        ),
        Case(
            #"{"due":"2026-11-20T20:32:22.404Z"}"#,
            #"{"due":"2026-11-21T00:00:00Z"}"#,
            #""due":"2026-11-21T00:00:00.000Z""#
        ),
        Case(#"{"due":null}"#, #"{"due":"2026-11-20T20:32:22.404Z"}"#, #""due":null"#),
        Case(#"{"price":2}"#, #"{"price":1.5}"#, #""price":2"#),
        Case(#"{"price":2}"#, #"{"price":2.00}"#, #""price":2"#),
        Case(#"{"size":1}"#, #"{"size":5e-1}"#, #""size":1"#),
        Case(#"{"data":"AQM="}"#, #"{"data":"AQI="}"#, #""data":"AQM=""#),
        // Documents are compared by value, regardless of member order and number formatting.
        Case(#"{"doc":{"a":2}}"#, #"{"doc":{"b":[1,true],"a":1.0}}"#, #""doc":{"a":2}"#),
        Case(#"{"doc":{"b":[1,true],"a":1.0}}"#, #"{"doc":[]}"#, #""doc":[]"#),
        Case(#"{"doc":{"a":2}}"#, #"{"doc":{"a":1,"b":[1,1]}}"#, nil),
        Case(#"{"doc":{"a":2}}"#, #"{"doc":null}"#, nil),
    ]

    static func server(
        _ change: (inout TableDefinition) -> Void = { _ in }
    ) async throws
        -> TestServer
    {
        var table = table
        change(&table)
        let server = try await TestServer([table])
        let created = await server.send("POST", "/tables/T", row)
        #expect(created.status == 201, "\(created.text)")
        return server
    }

    static func tag(_ server: TestServer) async -> String {
        await server.send("GET", "/tables/T/a?__includeDeleted=true").headers["ETag"] ?? ""
    }

    /// Sends with the version from before the other caller's change.
    static func stale(
        _ server: TestServer,
        after theirs: String,
        _ method: String,
        _ body: String?,
        classic: Bool = false,
        path: String = "/tables/T/a"
    ) async -> ServerResponse {
        let old = await tag(server)
        #expect(await server.send("PATCH", "/tables/T/a", theirs).status == 200)
        return await server.send(method, path, body, classic: classic, headers: ["If-Match": old])
    }

    @Test(
        "A merge takes the changed value of each column, or reports a conflict",
        arguments: cases,
        [false, true]
    )
    func eachColumnTakesTheChangedValue(_ example: Case, isClassic: Bool) async throws {
        let server = try await Self.server()
        let answer = await Self.stale(
            server,
            after: example.theirs,
            "PATCH",
            example.mine,
            classic: isClassic
        )
        let now = await server.send("GET", "/tables/T/a")
        #expect(answer.headers["ETag"] == now.headers["ETag"])
        #expect(answer.text == now.text)
        guard let row = example.row else {
            #expect(answer.status == 412)
            let theirs = try TestServer.object(example.theirs)
            #expect(theirs.allSatisfy { (now.row[$0] as? NSObject) == ($1 as? NSObject) })
            return
        }
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.text.contains(row), "\(answer.text)")
    }

    @Test("A PUT is merged column by column, including the columns that it omits")
    func putWritesAllColumns() async throws {
        let server = try await Self.server()
        // A PUT without `note` writes its default; the other columns except `rank` are unchanged.
        var mine = Self.row.replacing(#""rank":1"#, with: #""rank":2"#)
        let merged = await Self.stale(server, after: #"{"text":"y"}"#, "PUT", mine)
        #expect(merged.status == 200)
        #expect(merged.text.contains(#""text":"y","note":"n","flag":true,"rank":2"#))
        mine = mine.replacing(#""text":"x","#, with: "")
        let conflict = await Self.stale(server, after: #"{"text":"w"}"#, "PUT", mine)
        #expect(conflict.status == 412)
        #expect(conflict.row["text"] as? String == "w")
    }

    @Test(
        "A classic update with its base version in the body is merged",
        arguments: ["/tables/T/a", "/tables/T"]
    )
    func versionsInTheBody(_ path: String) async throws {
        let server = try await Self.server()
        let version = await server.send("GET", "/tables/T/a").row["version"] as? String ?? ""
        _ = await server.send("PATCH", "/tables/T/a", #"{"text":"y"}"#)
        func body(_ members: String) -> String {
            #"{"id":"a","version":"\#(version)",\#(members)}"#
        }
        let merged = await server.send("PATCH", path, body(#""rank":2"#), classic: true)
        #expect(merged.status == 200 && merged.row["text"] as? String == "y")
        #expect(merged.row["rank"] as? Int == 2)
        let conflict = await server.send("PATCH", path, body(#""text":"z""#), classic: true)
        #expect(conflict.status == 409 && conflict.row["text"] as? String == "y")
    }

    @Test("A row with the zero values of columns that are not nullable is merged")
    func zeroValuesAreMerged() async throws {
        let server = try await Self.server { table in
            table.schema.columns += [
                ColumnDefinition("day", .date, nullable: false),
                ColumnDefinition("hour", .time, nullable: false),
                ColumnDefinition("key", .guid, nullable: false),
                ColumnDefinition("body", .json, nullable: false),
            ]
        }
        for body in [
            #"{"rank":2}"#, #"{"rank":2,"day":"","hour":"","key":"","body":null}"#,
        ] {
            let theirs = #"{"text":"y","rank":1}"#
            #expect(await server.send("PATCH", "/tables/T/a", theirs).status == 200)
            let merged = await Self.stale(server, after: #"{"text":"z"}"#, "PATCH", body)
            #expect(merged.status == 200, "\(merged.text)")
            #expect(merged.row["text"] as? String == "z" && merged.row["rank"] as? Int == 2)
            #expect(merged.text.contains(#""day":"","hour":"","key":"","body":null"#))
        }
    }

    @Test("A repeated write that was merged changes nothing")
    func repeatedWritesChangeNothing() async throws {
        let server = try await Self.server()
        let old = await Self.tag(server)
        _ = await server.send("PATCH", "/tables/T/a", #"{"text":"y"}"#)
        func send() async -> ServerResponse {
            await server.send("PATCH", "/tables/T/a", #"{"rank":2}"#, headers: ["If-Match": old])
        }
        let first = await send()
        let second = await send()
        #expect(first.status == 200 && first.row["rank"] as? Int == 2)
        #expect(second.status == 200 && second.text == first.text)
        #expect(first.headers["Tideline-Conflict"] == "resolved")
        #expect(second.headers["Tideline-Conflict"] == "resolved")
    }

    @Test(
        "A replayed response reports the resolved conflict, as the first one did",
        arguments: [ConflictRule.merge, .clientWins, .serverWins]
    )
    func aReplayedResponseReportsTheConflict(_ rule: ConflictRule) async throws {
        let server = try await Self.server { $0.conflict = rule }
        let old = await Self.tag(server)
        _ = await server.send("PATCH", "/tables/T/a", #"{"text":"y"}"#)
        for _ in 0..<2 {
            let headers: HTTPFields = [
                "If-Match": old, "Repeatability-Request-ID": "n",
                "Repeatability-First-Sent": "Fri, 15 Jan 2027 08:00:00 GMT",
            ]
            let answer = await server.send("PATCH", "/tables/T/a", #"{"rank":2}"#, headers: headers)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(answer.headers["Tideline-Conflict"] == "resolved")
        }
    }

    /// The row of a write is not kept if it is large: a replayed response has the row of another writer, and says so.
    @Test("A replayed response that contains a later row reports it", arguments: ["POST", "PATCH"])
    func aReplayedResponseWithALaterRowReportsIt(_ method: String) async throws {
        let server = try await Self.server()
        let text = String(repeating: "x", count: 5000)
        var headers: HTTPFields = [
            "Repeatability-Request-ID": "n",
            "Repeatability-First-Sent": "Fri, 15 Jan 2027 08:00:00 GMT",
        ]
        let isInsert = method == "POST"
        if !isInsert { headers.append("If-Match", await Self.tag(server)) }
        let body = #"{"id":"\#(isInsert ? "b" : "a")","text":"\#(text)"}"#
        func write() async -> ServerResponse {
            await server.send(
                method,
                isInsert ? "/tables/T" : "/tables/T/a",
                body,
                headers: headers
            )
        }
        #expect(await write().headers["Tideline-Conflict"] == nil)
        let repeated = await write()
        #expect(repeated.status == (isInsert ? 201 : 200))
        #expect(repeated.headers["Tideline-Conflict"] == nil)
        _ = await server.send("PATCH", "/tables/T/\(isInsert ? "b" : "a")", #"{"rank":7}"#)
        let later = await write()
        #expect(later.text.contains(#""rank":7"#))
        #expect(later.headers["Tideline-Conflict"] == "resolved")
    }

    /// Method, body and headers with a stale version, and the status.
    static let rejected: [(String, String?, HTTPFields, Int)] = [
        ("DELETE", nil, [:], 412), ("PATCH", #"{"deleted":true}"#, [:], 412),
        ("PATCH", #"{"rank":2}"#, ["If-Match": "\"AAAAAAAAAAA=\""], 412),
        ("PATCH", #"{"rank":2}"#, ["If-Match": "\"none\""], 412),
        ("PATCH", #"{"rank":2}"#, ["If-Match": "W/\"AAAAAAAAAAA=\""], 412),
        ("PATCH", #"{"rank":2}"#, ["If-None-Match": "*"], 412),
        (
            "PATCH", #"[{"op":"add","path":"/rank","value":2}]"#,
            ["Content-Type": "application/json-patch+json"], 412
        ),
    ]

    @Test("A write that cannot be merged is rejected with 412", arguments: rejected)
    func writesThatCannotBeMergedAreRejected(
        _ method: String,
        _ body: String?,
        _ headers: HTTPFields,
        _ status: Int
    ) async throws {
        let server = try await Self.server()
        var headers = headers
        if headers["If-Match"] == nil { headers.append("If-Match", await Self.tag(server)) }
        let theirs = await server.send("PATCH", "/tables/T/a", #"{"text":"y"}"#)
        let answer = await server.send(method, "/tables/T/a", body, headers: headers)
        #expect(answer.status == status)
        #expect(answer.text == theirs.text)
        #expect(await server.send("GET", "/tables/T/a").text == theirs.text)
    }

    @Test("An update of a deleted row is merged only after the row is undeleted") func deletedRows()
        async throws
    {
        let server = try await Self.server()
        let live = await Self.tag(server)
        _ = await server.send("DELETE", "/tables/T/a")
        let tomb = await Self.tag(server)
        func send(_ body: String, _ tag: String) async -> ServerResponse {
            await server.send("PATCH", "/tables/T/a", body, headers: ["If-Match": tag])
        }
        #expect(await send(#"{"deleted":false,"rank":2}"#, live).status == 412)
        // Another caller undeletes it, and changes it.
        #expect(await server.send("PATCH", "/tables/T/a", #"{"deleted":false}"#).status == 200)
        #expect(await server.send("PATCH", "/tables/T/a", #"{"text":"y"}"#).status == 200)
        let merged = await send(#"{"deleted":false,"rank":2}"#, tomb)
        #expect(merged.status == 200 && merged.row["deleted"] as? Bool == false)
        #expect(merged.row["text"] as? String == "y" && merged.row["rank"] as? Int == 2)
        let older = await send(#"{"flag":false}"#, live)
        #expect(older.status == 200 && older.row["rank"] as? Int == 2)
        #expect(older.row["flag"] as? Bool == false)
    }
}

extension TestServer {
    static func object(_ text: String) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] ?? [:]
    }
}

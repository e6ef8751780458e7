// AuditTests: who changed what, on both backends, in the transaction of the change.

import Foundation
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite struct AuditTests {
    private static let backends = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

    private static var tables: [TableDefinition] {
        var audited = Door.todo
        audited.audit = true
        audited.conflict = .merge
        var hard = TableDefinition("Hard", columns: [ColumnDefinition("text", .string)])
        hard.softDelete = false
        hard.audit = true
        let other = TableDefinition("Other", columns: [ColumnDefinition("text", .string)])
        return [audited, hard, other]
    }

    /// A server, and what is asked of its audit.
    private func withServer(
        _ onPostgres: Bool,
        _ body: (Door, TestClock, (AuditQuery) throws -> [AuditEntry]) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            let path = onPostgres ? nil : directory + "/a.db"
            let database = onPostgres ? try PostgresCluster.shared().database() : nil
            let door = try await Door(
                Self.tables,
                path: path,
                onPostgres: onPostgres,
                database: database,
                clock: clock,
                authenticator: try Tokens.authenticator()
            )
            try await body(door, clock) { query in
                if let path { return try DatabaseInspection(path: path).audit(query) }
                return try PostgresCare(url: database ?? "").audit(query)
            }
            await door.store.stop()
        }
    }

    /// As `table id action author columns`, the oldest first.
    private func shown(_ entries: [AuditEntry]) -> [String] {
        entries.reversed().map { entry in
            let columns = entry.columns.joined(separator: ",")
            return "\(entry.table) \(entry.id) \(entry.action) \(entry.author ?? "-") \(columns)"
        }
    }

    @Test(arguments: backends)
    func eachChangeHasItsEntry(_ onPostgres: Bool) async throws {
        try await withServer(onPostgres) { door, _, audit in
            let (anna, bela) = (try Tokens.headers("anna"), try Tokens.headers("bela"))
            let row = "/tables/TodoItem/a"
            let todo = #"{"id":"a","text":"x","rank":1}"#
            for (method, path, body, headers, status) in [
                ("POST", "/tables/TodoItem", todo, anna, 201),
                // What stays as it was is no change of a column.
                ("PATCH", row, #"{"text":"y","rank":1}"#, bela, 200),
                ("PUT", row, #"{"id":"a","text":"y","complete":true}"#, anna, 200),
                // What is refused is not done.
                ("POST", "/tables/TodoItem", todo, bela, 409),
                ("PATCH", "/tables/TodoItem/none", "{}", bela, 404),
                ("DELETE", row, nil, bela, 204), ("PATCH", row, "{}", bela, 410),
                ("POST", "/tables/Hard", #"{"id":"h"}"#, anna, 201),
                ("DELETE", "/tables/Hard/h", nil, anna, 204),
                ("POST", "/tables/Other", #"{"id":"o"}"#, anna, 201),
            ] as [(String, String, String?, HTTPFields, Int)] {
                let answer = await door.send(method, path, body, headers: headers)
                #expect(answer.status == status, "\(method) \(path) \(answer.text)")
            }
            let undeleted = await door.send("POST", row, classic: true, headers: anna)
            #expect(undeleted.status == 201)
            #expect(
                shown(try audit(AuditQuery())) == [
                    "TodoItem a insert anna ", "TodoItem a update bela text",
                    "TodoItem a update anna complete,rank", "TodoItem a delete bela ",
                    "Hard h insert anna ", "Hard h delete anna ", "TodoItem a undelete anna ",
                ]
            )
            #expect(try audit(AuditQuery(table: "HARD")).count == 2)
            #expect(try audit(AuditQuery(id: "a")).count == 5)
            #expect(try audit(AuditQuery(author: "bela")).map(\.action) == [.delete, .update])
            var last = AuditQuery()
            last.countMax = 1
            let newest = try audit(last)
            #expect(shown(newest) == ["TodoItem a undelete anna "])
            // The stamp of an entry is the version of the row that it led to.
            let version = await door.send("GET", row, headers: anna).row["version"] as? String
            let bytes = try #require(version.flatMap { Data(base64Encoded: $0) })
            #expect(bytes.reduce(Int64(0)) { $0 << 8 | Int64($1) } == newest.first?.stamp)
        }
    }

    /// A group that is not done leaves nothing, and a repeat is no second change.
    @Test(arguments: backends)
    func onlyWhatIsDoneIsThere(_ onPostgres: Bool) async throws {
        try await withServer(onPostgres) { door, _, audit in
            let anna = try Tokens.headers("anna")
            let body = """
                {"requests":[
                  {"id":"1","method":"post","url":"tables/TodoItem","atomicityGroup":"g",
                   "headers":{"content-type":"application/json"},"body":{"id":"a"}},
                  {"id":"2","method":"patch","url":"tables/TodoItem/none","atomicityGroup":"g",
                   "headers":{"content-type":"application/json"},"body":{"text":"x"}},
                  {"id":"3","method":"post","url":"tables/TodoItem",
                   "headers":{"content-type":"application/json"},"body":{"id":"b"}}
                ]}
                """
            var headers = anna
            headers.append("Prefer", "continue-on-error")
            #expect(await door.send("POST", "/$batch", body, headers: headers).status == 200)
            var named = anna
            named.append("Repeatability-Request-ID", "ba5e9d0c-7a0c-4f0b-9d0e-0c4f1d2a3b4c")
            named.append(
                "Repeatability-First-Sent",
                HTTPDate.text(microseconds: 1_800_000_000_000_000)
            )
            for _ in 0..<2 {
                let answer = await door.send(
                    "POST",
                    "/tables/TodoItem",
                    #"{"id":"c"}"#,
                    headers: named
                )
                #expect(answer.status == 201, "\(answer.text)")
            }
            #expect(
                shown(try audit(AuditQuery())) == [
                    "TodoItem b insert anna ", "TodoItem c insert anna ",
                ]
            )
        }
    }

    @Test(arguments: backends)
    func oldEntriesGo(_ onPostgres: Bool) async throws {
        try await withServer(onPostgres) { door, clock, audit in
            for id in ["a", "b"] {
                let body = #"{"id":"\#(id)"}"#
                let headers = try Tokens.headers("anna")
                _ = await door.send("POST", "/tables/Hard", body, headers: headers)
                if id == "a" { clock.move(by: 3000 * 1_000_000) }
            }
            clock.move(by: 365 * 86_400_000_000 - 2000 * 1_000_000)
            try await door.purge()
            #expect(shown(try audit(AuditQuery())) == ["Hard b insert anna "])
            let metrics = await door.send("GET", "/metrics").text
            #expect(metrics.contains(#"tideline_purged_total{kind="audit"} 1"#))
        }
    }
}

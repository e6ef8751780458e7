// AuditTests: the audit log of changes and their callers, on both backends, in the transaction of the change.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct AuditTests {
    @Test("Each executed change has an entry in the audit log", arguments: AuditedServer.backends)
    func eachChangeHasItsEntry(_ onPostgres: Bool) async throws {
        try await AuditedServer.with(onPostgres) { server in
            let row = "/tables/TodoItem/a"
            let todo = #"{"id":"a","text":"x","rank":1}"#
            for (method, path, body, user, status) in [
                ("POST", "/tables/TodoItem", todo, "anna", 201),
                // A column that keeps its value is not a changed column.
                ("PATCH", row, #"{"text":"y","rank":1}"#, "bela", 200),
                ("PUT", row, #"{"id":"a","text":"y","complete":true}"#, "anna", 200),
                // A rejected write is not executed.
                ("POST", "/tables/TodoItem", todo, "bela", 409),
                ("PATCH", "/tables/TodoItem/none", "{}", "bela", 404),
                ("DELETE", row, nil, "bela", 204), ("PATCH", row, "{}", "bela", 410),
                ("POST", "/tables/Hard", #"{"id":"h"}"#, "anna", 201),
                ("DELETE", "/tables/Hard/h", nil, "anna", 204),
                ("POST", "/tables/Other", #"{"id":"o"}"#, "anna", 201),
            ] as [(String, String, String?, String, Int)] {
                let answer = try await server.send(method, path, body, by: user)
                #expect(answer.status == status, "\(method) \(path) \(answer.text)")
            }
            let headers = try Tokens.headers("anna")
            let undeleted = await server.testServer.send(
                "POST",
                row,
                classic: true,
                headers: headers
            )
            #expect(undeleted.status == 201)
            #expect(
                try server.shown() == [
                    "TodoItem a insert anna ", "TodoItem a update bela text",
                    "TodoItem a update anna complete,rank", "TodoItem a delete bela ",
                    "Hard h insert anna ", "Hard h delete anna ", "TodoItem a undelete anna ",
                ]
            )
            #expect(try server.audit(AuditQuery(table: "HARD")).count == 2)
            #expect(try server.audit(AuditQuery(id: "a")).count == 5)
            let ofBela = try server.audit(AuditQuery(user: "bela"))
            #expect(ofBela.map(\.action) == [.delete, .update])
            var last = AuditQuery()
            last.countMax = 1
            #expect(try server.shown(last) == ["TodoItem a undelete anna "])
            // The timestamp of an entry is the version of the row after the change.
            let now =
                await server.testServer.send("GET", row, headers: headers).row["version"] as? String
            #expect(try server.audit(last).first.map { RowVersion.text($0.timestamp) } == now)
        }
    }

    @Test(
        "An audit entry names the user, the device and the dashboard",
        arguments: AuditedServer.backends
    )
    func anEntryNamesTheDeviceAndTheDashboard(_ onPostgres: Bool) async throws {
        let gate = OperatorGate(
            hasAuthentication: true,
            isLoopback: false,
            host: "example.test",
            operators: Operators(["olga"])
        )
        let dashboard = Dashboard(gate: gate, files: [])
        try await AuditedServer.with(onPostgres, dashboard: dashboard) { server in
            let field = "X-ZUMO-INSTALLATION-ID"
            let phone: HTTPFields = [field: "phone-1"]
            let tables = "/tables/TodoItem"
            #expect(try await server.send("POST", tables, #"{"id":"a"}"#, phone).status == 201)
            let batch = """
                {"requests":[
                  {"id":"1","method":"post","url":"tables/TodoItem",
                   "headers":{"content-type":"application/json"},"body":{"id":"b"}},
                  {"id":"2","method":"post","url":"tables/TodoItem",
                   "headers":{"content-type":"application/json","\(field)":"own"},
                   "body":{"id":"c"}}
                ]}
                """
            #expect(try await server.send("POST", "/$batch", batch, phone).status == 200)
            // An installation id that is longer than those of Tideline's clients is not stored.
            let long: HTTPFields = [field: String(repeating: "x", count: 100)]
            #expect(try await server.send("DELETE", tables + "/a", by: "bela", long).status == 204)
            let created = try await server.send(
                "POST",
                "/$admin/tables/TodoItem",
                #"{"id":"d"}"#,
                by: "olga"
            )
            #expect(created.status == 201, "\(created.text)")
            #expect(
                try server.audit().reversed().map(\.author) == [
                    WriteAuthor(user: "anna", device: "phone-1"),
                    WriteAuthor(user: "anna", device: "phone-1"),
                    WriteAuthor(user: "anna", device: "own"),
                    WriteAuthor(user: "bela"),
                    WriteAuthor(user: "olga", isDashboard: true),
                ]
            )
        }
    }

    @Test(
        "Neither a failed group nor a repeated write adds an audit entry",
        arguments: AuditedServer.backends
    )
    func onlyExecutedChangesHaveEntries(_ onPostgres: Bool) async throws {
        try await AuditedServer.with(onPostgres) { server in
            func part(_ id: String, _ method: String, _ path: String, _ body: String?) -> String {
                let body = body.map { #""body":\#($0),"# } ?? ""
                return """
                    {"id":"\(id)","method":"\(method)","url":"tables/TodoItem\(path)",\(body)
                     "headers":{"content-type":"application/json"},
                     "atomicityGroup":"\(id.prefix(1))"}
                    """
            }
            let parts = [
                part("g1", "post", "", #"{"id":"a"}"#),
                part("g2", "patch", "/none", #"{"text":"x"}"#),
                part("h1", "post", "", #"{"id":"b"}"#),
                part("h2", "patch", "/b", #"{"text":"x"}"#),
                part("i1", "delete", "/b", nil),
            ]
            let body = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
            let prefer: HTTPFields = ["Prefer": "continue-on-error"]
            #expect(try await server.send("POST", "/$batch", body, prefer).status == 200)
            let named: HTTPFields = [
                "Repeatability-Request-ID": "ba5e9d0c-7a0c-4f0b-9d0e-0c4f1d2a3b4c",
                "Repeatability-First-Sent": HTTPDate.text(microseconds: 1_800_000_000_000_000),
            ]
            for _ in 0..<2 {
                let answer = try await server.send(
                    "POST",
                    "/tables/TodoItem",
                    #"{"id":"c"}"#,
                    named
                )
                #expect(answer.status == 201, "\(answer.text)")
            }
            #expect(
                try server.shown() == [
                    "TodoItem b insert anna ", "TodoItem b update anna text",
                    "TodoItem b delete anna ", "TodoItem c insert anna ",
                ]
            )
        }
    }

    @Test(
        "A change whose audit entry cannot be stored is not executed",
        arguments: AuditedServer.backends
    )
    func noChangeIsExecutedWithoutItsEntry(_ onPostgres: Bool) async throws {
        try await AuditedServer.with(onPostgres) { server in
            #expect(try await server.send("POST", "/tables/Hard", #"{"id":"a"}"#).status == 201)
            try server.execute(
                sqlite: """
                    CREATE TRIGGER "full" BEFORE INSERT ON "tideline_audit" WHEN NEW."user" = 'bela'
                    BEGIN SELECT RAISE(ABORT, 'full'); END
                    """,
                postgres: """
                    ALTER TABLE tideline.audit ADD CONSTRAINT "full" CHECK ("user" <> 'bela')
                    """
            )
            for (method, path, body) in [
                ("POST", "/tables/Hard", #"{"id":"b"}"#), ("PATCH", "/tables/Hard/a", "{}"),
                ("DELETE", "/tables/Hard/a", nil),
            ] as [(String, String, String?)] {
                let rejected = try await server.send(method, path, body, by: "bela")
                #expect(rejected.status >= 400, "\(method) \(path)")
            }
            #expect(try await server.send("POST", "/tables/Hard", #"{"id":"c"}"#).status == 201)
            let rows = try await server.send("GET", "/tables/Hard?$orderby=id")
            #expect(rows.ids == ["a", "c"])
            #expect(try server.shown() == ["Hard a insert anna ", "Hard c insert anna "])
            #expect(rows.rows.first?["version"] as? String == RowVersion.text(try first(server)))
        }
    }

    private func first(_ server: AuditedServer) throws -> Int64 {
        try #require(try server.audit().last?.timestamp)
    }

    @Test(
        "An audit entry includes the changes by hooks and the added columns",
        arguments: AuditedServer.backends
    )
    func changesByHooksAndAddedColumnsAreLogged(_ onPostgres: Bool) async throws {
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            if change.operation == .update { change.values["rank"] = .integer(7) }
        }
        let code = ["TodoItem": hooks]
        try await AuditedServer.with(onPostgres, dynamic: true, hooks: code) { server in
            for (method, path, body, status) in [
                ("POST", "/tables/TodoItem", #"{"id":"a"}"#, 201),
                ("PATCH", "/tables/TodoItem/a", #"{"text":"x","rank":1}"#, 200),
                ("PATCH", "/tables/TodoItem/a", #"{"extra":"x"}"#, 200),
                ("POST", "/tables/Made", #"{"id":"m"}"#, 201),
            ] {
                let answer = try await server.send(method, path, body)
                #expect(answer.status == status, "\(method) \(path) \(answer.text)")
            }
            #expect(
                try server.shown() == [
                    "TodoItem a insert anna ", "TodoItem a update anna text,rank",
                    "TodoItem a update anna extra",
                ]
            )
        }
    }

    // MARK: - Retention

    @Test("Audit entries are removed after their retention", arguments: AuditedServer.backends)
    func oldEntriesAreRemoved(_ onPostgres: Bool) async throws {
        try await AuditedServer.with(onPostgres) { server in
            for id in ["a", "b"] {
                _ = try await server.send("POST", "/tables/Hard", #"{"id":"\#(id)"}"#)
                if id == "a" { server.clock.move(by: 3000 * 1_000_000) }
            }
            server.clock.move(by: 365 * 86_400_000_000 - 2000 * 1_000_000)
            try await server.testServer.purge()
            #expect(try server.shown() == ["Hard b insert anna "])
            let metrics = await server.testServer.send("GET", "/metrics").text
            #expect(metrics.contains(#"tideline_purged_total{kind="audit"} 1"#))
        }
    }

    @Test(
        "Audit entries with timestamps in the future do not delay the removal of others",
        arguments: AuditedServer.backends
    )
    func entriesAreRemovedInSmallStepsDespiteAWrongClock(_ onPostgres: Bool) async throws {
        try await AuditedServer.with(onPostgres) { server in
            func fill(_ table: String) async throws {
                let parts = (0..<250).map { number in
                    """
                    {"id":"\(number)","method":"post","url":"tables/\(table)",
                     "headers":{"content-type":"application/json"},"body":{"id":"\(number)"}}
                    """
                }
                let body = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
                #expect(try await server.send("POST", "/$batch", body).status == 200)
            }
            let wrong: Int64 = 1000 * 1_000_000
            server.clock.move(by: wrong)
            try await fill("Hard")
            server.clock.move(by: -wrong)
            try await fill("TodoItem")
            server.clock.move(by: 365 * 86_400_000_000 + 500 * 1_000_000)
            for left in [300, 250, 250] {
                try await server.testServer.purge()
                var all = AuditQuery()
                all.countMax = 1000
                #expect(try server.audit(all).count == left)
            }
            #expect(Set(try server.audit().map(\.table)) == ["Hard"])
        }
    }

    @Test(
        "Auditing that is enabled later starts with the next change",
        arguments: AuditedServer.backends
    )
    func auditingCanBeEnabledLater(_ onPostgres: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let url = try onPostgres ? PostgresCluster.shared().database() : ""
            let location = (path: directory + "/a.db", url: url)
            var plain = AuditedServer.tables
            for index in plain.indices { plain[index].audit = false }
            try await AuditedServer.with(onPostgres, plain, location: location) { server in
                #expect(try await server.send("POST", "/tables/Hard", #"{"id":"a"}"#).status == 201)
                #expect(try server.shown().isEmpty)
                // The state that servers without auditing create.
                try server.execute(
                    sqlite: #"DROP TABLE "tideline_audit""#,
                    postgres: "DROP TABLE tideline.audit"
                )
                #expect(try server.shown().isEmpty)
            }
            try await AuditedServer.with(onPostgres, location: location) { server in
                let changed = try await server.send("PATCH", "/tables/Hard/a", #"{"text":"x"}"#)
                #expect(changed.status == 200)
                #expect(try server.shown() == ["Hard a update anna text"])
            }
            // Without the option no entry is added, and existing ones stay.
            try await AuditedServer.with(onPostgres, plain, location: location) { server in
                let deleted = try await server.send("DELETE", "/tables/Hard/a")
                #expect(deleted.status == 204)
                #expect(try server.shown() == ["Hard a update anna text"])
            }
        }
    }

    @Test("A backup contains the audit log") func aBackupContainsTheAuditLog() async throws {
        try await AuditedServer.with(false) { server in
            #expect(try await server.send("POST", "/tables/Hard", #"{"id":"a"}"#).status == 201)
            let path = try #require(server.path)
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            let database = try ServerDatabase(configuration)
            _ = try database.backup(to: path + ".backup")
            #expect(try await server.send("POST", "/tables/Hard", #"{"id":"b"}"#).status == 201)
            await server.testServer.store.stop()
            #expect(try DatabaseInspection(path: path + ".backup").audit(AuditQuery()).count == 1)
            let former = try #require(try database.restore(from: path + ".backup").former)
            #expect(try server.shown() == ["Hard a insert anna "])
            #expect(try DatabaseInspection(path: former).audit(AuditQuery()).count == 2)
        }
    }
}

// FormerNameTests: a renamed column is read and written under both names, on every route.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct FormerNameTests {
    private static func task(
        conflict: ConflictRule = .reject,
        aliases: [String: String] = ["title": "name", "label": "name", "size": "count"]
    ) -> TableDefinition {
        TableDefinition(
            "Task",
            columns: [
                ColumnDefinition("name", .string), ColumnDefinition("rank", .integer),
                ColumnDefinition("count", .integer),
            ],
            conflict: conflict,
            aliases: aliases
        )
    }

    /// The table before its column was renamed.
    private static let before = TableDefinition(
        "Task",
        columns: [
            ColumnDefinition("title", .string), ColumnDefinition("rank", .integer),
            ColumnDefinition("count", .integer),
        ],
        indexes: [["title"]]
    )

    private func names(_ row: [String: Any]) -> [String?] {
        ["name", "title", "label"].map { row[$0] as? String }
    }

    @Test("A body that cannot be read is left unchanged, so that the server reports it")
    func unreadable() throws {
        let names = try #require(FormerNames(of: Table(Self.task())))
        let row = Array(#"{"id":"a","name":"x"}"#.utf8)
        let all = try #require(names.added(to: row, .row))
        #expect(String(decoding: all, as: UTF8.self).contains(#""title":"x""#))
        for body in ["{", #"{"name":}"#, ""] {
            #expect(names.added(to: Array(body.utf8), .row) == nil)
        }
    }

    @Test(
        "Rows are sent with all names of a column, on each route and in both generations",
        arguments: FieldService.backends
    )
    func reads(_ onPostgres: Bool) async throws {
        let server = try await TestServer([Self.task()], onPostgres: onPostgres)
        let created = await server.send("POST", "/tables/Task", #"{"id":"a","title":"x","rank":1}"#)
        #expect(created.status == 201 && names(created.row) == ["x", "x", "x"])
        let all: [String?] = ["x", "x", "x"]
        #expect(names(await server.send("GET", "/tables/Task/a").row) == all)
        for classic in [true, false] {
            let list = await server.send("GET", "/tables/Task", classic: classic)
            #expect(list.rows.map(names) == [all])
        }
        let stale = await server.send(
            "PATCH",
            "/tables/Task/a",
            #"{"title":"y"}"#,
            headers: ["If-Match": "\"x\""]
        )
        #expect(stale.status == 412 && names(stale.row) == all)
        let twice = await server.send("POST", "/tables/Task", #"{"id":"a"}"#)
        #expect(twice.status == 409 && names(twice.row) == all)
        let tracked = await server.send(
            "GET",
            "/tables/Task",
            headers: ["Prefer": "odata.track-changes"]
        )
        let link = try #require(tracked.deltaLink)
        _ = await server.send("PATCH", "/tables/Task/a", #"{"label":"z"}"#)
        let changes = await server.send("GET", "/tables/Task?" + link)
        #expect(changes.rows.map(names) == [["z", "z", "z"]])
        let batch = await server.batch([
            BatchPart("1", "get", "tables/Task/a"),
            BatchPart("2", "patch", "tables/Task/a", #"{"name":"w"}"#),
            BatchPart("3", "get", "tables/Task"),
        ])
        #expect(names(batch.partBody(0)) == ["z", "z", "z"])
        #expect(names(batch.partBody(1)) == ["w", "w", "w"])
        #expect(batch.parts[1].description.components(separatedBy: "title").count == 2)
        let document = try SchemaDocument((await server.send("GET", "/$schema")).body)
        #expect(document.tables[0].schema.aliases["title"] == "name")
    }

    @Test(
        "Queries may use each name of a column, and find the same rows",
        arguments: FieldService.backends
    )
    func queries(_ onPostgres: Bool) async throws {
        let server = try await TestServer([Self.task()], onPostgres: onPostgres)
        for (id, title) in [("a", "x"), ("b", "y"), ("c", "x")] {
            let body = #"{"id":"\#(id)","title":"\#(title)","size":7}"#
            #expect(await server.send("POST", "/tables/Task", body).status == 201)
        }
        var digests: Set<String> = []
        for name in ["name", "title", "Label"] {
            let query = "$filter=\(name) eq 'x'&$orderby=\(name) desc,id desc&$select=id,\(name)"
            let list = await server.send("GET", "/tables/Task?" + query)
            #expect(list.ids == ["c", "a"], "\(list.text)")
            #expect(list.rows.map(names) == [["x", "x", "x"], ["x", "x", "x"]])
            #expect(list.rows[0]["rank"] == nil)
            let digest = await server.send("GET", "/tables/Task/$digest?$filter=\(name) eq 'x'")
            #expect(digest.row["count"] as? Int == 2 && digest.row["size"] == nil)
            digests.insert(digest.text)
        }
        #expect(digests.count == 1)
        // Without the column, its former names are left out, too.
        let ids = await server.send("GET", "/tables/Task?$select=id")
        #expect(ids.rows.allSatisfy { $0.keys.sorted() == ["id"] })
        let text = await server.send(
            "GET",
            "/tables/Task/a",
            headers: ["Accept": "application/json;IEEE754Compatible=true"]
        )
        #expect(text.row["count"] as? String == "7" && text.row["size"] as? String == "7")
    }

    @Test(
        "If a body uses several names, the value that differs from the stored value counts",
        arguments: ["PATCH", "PUT"],
        FieldService.backends
    )
    func writes(_ method: String, _ onPostgres: Bool) async throws {
        let server = try await TestServer([Self.task()], onPostgres: onPostgres)
        #expect(await server.send("POST", "/tables/Task", #"{"id":"a","name":"x"}"#).status == 201)
        func write(_ body: String) async -> ServerResponse {
            await server.send(method, "/tables/Task/a", body)
        }
        for (body, value) in [
            (#"{"title":"1"}"#, "1"), (#"{"name":"2"}"#, "2"), (#"{"TITLE":"3"}"#, "3"),
            (#"{"name":"3","title":"4","label":"3"}"#, "4"), (#"{"title":"4","name":"5"}"#, "5"),
            (#"{"title":"6","name":"6"}"#, "6"), (#"{"title":"6","name":"6","label":"6"}"#, "6"),
        ] {
            let answer = await write(body)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(names(answer.row) == [value, value, value])
        }
        let both = await write(#"{"title":"7","name":"8"}"#)
        #expect(both.status == 400 && both.error.contains("'name'"))
        #expect(await write(#"{"title":"7","title":"7"}"#).status == 400)
        let stored = await server.send("GET", "/tables/Task/a")
        #expect(names(stored.row) == ["6", "6", "6"])
    }

    @Test(
        "With '__changed', the value under the current name counts if it was set",
        arguments: ["PATCH", "PUT"],
        FieldService.backends
    )
    func changedMembers(_ method: String, _ onPostgres: Bool) async throws {
        let server = try await TestServer(
            [Self.task(conflict: .clientWins)],
            onPostgres: onPostgres
        )
        let created = await server.send("POST", "/tables/Task", #"{"id":"a","name":"x"}"#)
        // The version is stale in each write but the first.
        let tag = try #require(created.headers["ETag"])
        let cases: [(changed: String, body: String, value: String?)] = [
            ("title,name", #"{"title":"7","name":"8"}"#, "8"),
            // The stored row has the value already.
            ("title,name", #"{"title":"7","name":"8"}"#, "8"),
            ("title", #"{"title":"9","name":"8"}"#, "9"),
            ("title", #"{"title":"9","name":"x"}"#, "9"),
            ("rank,NAME", #"{"title":"9","name":"5","rank":1}"#, "5"),
            ("title", #"{"title":"6","name":null}"#, "6"), ("", #"{"title":"4","name":null}"#, "4"),
            ("title,name", #"{"title":"6","name":null}"#, nil),
            ("label,name", #"{"title":"1","label":"2","name":"3"}"#, "3"),
        ]
        for (changed, body, value) in cases {
            let answer = await server.send(
                method,
                "/tables/Task/a?__Changed=" + changed,
                body,
                headers: ["If-Match": tag]
            )
            #expect(answer.status == 200, "\(answer.text)")
            #expect(names(answer.row) == [value, value, value], "\(changed) \(body)")
        }
        for body in [
            #"{"title":"1","label":"2"}"#, #"{"title":"1","label":"2","name":"4"}"#,
        ] {
            let answer = await server.send(
                method,
                "/tables/Task/a?__changed=title,label",
                body,
                headers: ["If-Match": tag]
            )
            #expect(answer.status == 400 && answer.error.contains("under several names"))
        }
    }

    @Test(
        "A row that replaces a tombstone has the value that the caller has set",
        arguments: FieldService.backends
    )
    func replacedTombstone(_ onPostgres: Bool) async throws {
        let server = try await TestServer([Self.task()], onPostgres: onPostgres)
        for (changed, name, value) in [("title", "null", "x"), ("title,name", "\"y\"", "y")] {
            let id = "/tables/Task/" + value
            let body = "{\"id\":\"\(value)\",\"name\":\"one\"}"
            #expect(await server.send("POST", "/tables/Task", body).status == 201)
            #expect(await server.send("DELETE", id).status == 204)
            let answer = await server.send(
                "PUT",
                id + "?__includeDeleted=true&__changed=" + changed,
                "{\"title\":\"x\",\"name\":\(name),\"deleted\":false}"
            )
            #expect(answer.status == 200, "\(answer.text)")
            #expect(names(answer.row) == [value, value, value])
        }
    }

    @Test("If an insert uses several names, the value other than null and the default counts")
    func insertedByAnUpdatedApp() async throws {
        var table = Self.task()
        table.schema.columns[2].defaultValue = .integer(7)
        let server = try await TestServer([table])
        let cases: [(String, [Any?])] = [
            (#""name":null,"title":"x""#, ["x", 7]), (#""title":null,"name":"x""#, ["x", 7]),
            (#""title":"x","label":null,"name":null"#, ["x", 7]),
            (#""count":7,"size":3"#, [nil, 3]), (#""count":3,"size":7"#, [nil, 3]),
            (#""count":null,"size":7"#, [nil, 7]), (#""count":3,"size":4"#, [nil, 3]),
            (#""name":"y","title":"x","label":"z""#, ["y", 7]),
        ]
        for (place, (members, expected)) in cases.enumerated() {
            let body = "{\"id\":\"\(place)\",\(members)}"
            let answer = await server.send("POST", "/tables/Task", body)
            #expect(answer.status == 201, "\(answer.text)")
            #expect(answer.row["title"] as? String == expected[0] as? String)
            #expect(answer.row["size"] as? Int == expected[1] as? Int)
        }
        for members in [#""title":"x","label":"y""#, #""name":null,"title":"x","label":"y""#] {
            let answer = await server.send("POST", "/tables/Task", "{\(members)}")
            #expect(answer.status == 400 && answer.error.contains("under several names"))
        }
    }

    @Test(
        "An insert under several names needs one value, and a JSON Patch may use each name",
        arguments: FieldService.backends
    )
    func inserts(_ onPostgres: Bool) async throws {
        let server = try await TestServer([Self.task()], onPostgres: onPostgres)
        let two = await server.send("POST", "/tables/Task", #"{"id":"a","label":"x","title":"y"}"#)
        #expect(two.status == 400)
        let one = await server.send("POST", "/tables/Task", #"{"id":"a","name":"x","title":"x"}"#)
        #expect(one.status == 201)
        let patch = await server.send(
            "PATCH",
            "/tables/Task/a",
            #"[{"op":"test","path":"/name","value":"x"},{"op":"replace","path":"/title","value":"z"}]"#,
            headers: ["Content-Type": "application/json-patch+json"]
        )
        #expect(patch.status == 200 && names(patch.row) == ["z", "z", "z"])
    }

    @Test("An error names the columns as the request names them", arguments: [true, false])
    func errors(classic: Bool) async throws {
        let job = TableDefinition(
            "Job",
            columns: [
                ColumnDefinition("name", .string, rules: ColumnRules(maxLength: 3)),
                ColumnDefinition("task", .string), ColumnDefinition("start", .integer),
                ColumnDefinition("end", .integer),
            ],
            references: [TableReference("task", to: "Task")],
            rules: TableRules(
                unique: [["name", "start"]],
                comparisons: [ColumnComparison("start", .lessOrEqual, "end")]
            ),
            aliases: ["title": "name", "label": "name", "taskID": "task", "stop": "end"]
        )
        let server = try await TestServer([Self.task(), job])
        let first = #"{"id":"a","title":"x","start":1,"stop":2}"#
        #expect(await server.send("POST", "/tables/Job", first, classic: classic).status == 201)
        let cases = [
            (#"{"taskID":"z"}"#, "Member 'taskID' names a row of table 'Task'", ["taskID"]),
            (#"{"task":"z"}"#, "Member 'task' names a row of table 'Task'", ["task"]),
            (#"{"task":"z","taskID":"z"}"#, "Member 'task' names a row", ["task"]),
            (#"{"LABEL":"long"}"#, "Member 'label': at most 3", ["label"]),
            (#"{"title":"x","start":1}"#, "Members 'title', 'start': another", ["title", "start"]),
            (#"{"name":"x","start":1}"#, "Members 'name', 'start': another", ["name", "start"]),
            (
                #"{"start":3,"stop":2}"#, "must not be greater than that of 'stop'",
                ["start", "stop"]
            ),
        ]
        func check(_ body: [String: Any], _ message: String, _ columns: [String]) {
            let named = (body["column"] as? String).map { [$0] } ?? body["columns"] as? [String]
            #expect(named == columns)
            #expect((body["detail"] as? String)?.contains(message) == true, "\(body)")
        }
        for (body, message, columns) in cases {
            let alone = await server.send("POST", "/tables/Job", body, classic: classic)
            check(alone.row, message, columns)
            for group in [nil, "g"] {
                let part = BatchPart("1", "post", "tables/Job", body, group: group)
                check(await server.batch([part]).partBody(0), message, columns)
            }
        }
        let changed = #"{"taskID":"z"}"#
        let answer = await server.send("PATCH", "/tables/Job/a", changed, classic: classic)
        check(answer.row, "Member 'taskID' names", ["taskID"])
    }

    @Test(
        "A merge combines an edit under a former name with another column, and sees a conflict",
        arguments: FieldService.backends
    )
    func merges(_ onPostgres: Bool) async throws {
        let server = try await TestServer([Self.task(conflict: .merge)], onPostgres: onPostgres)
        let created = await server.send("POST", "/tables/Task", #"{"id":"a","name":"x","rank":1}"#)
        let tag = try #require(created.headers["ETag"])
        func patch(_ body: String) async -> ServerResponse {
            await server.send("PATCH", "/tables/Task/a", body, headers: ["If-Match": tag])
        }
        #expect(await patch(#"{"rank":2}"#).status == 200)
        // The whole row as it was read, with one of its names changed.
        let merged = await patch(#"{"name":"x","title":"y","label":"x","rank":1}"#)
        #expect(merged.status == 200 && names(merged.row) == ["y", "y", "y"])
        #expect(merged.row["rank"] as? Int == 2)
        let conflict = await patch(#"{"name":"z"}"#)
        #expect(conflict.status == 412 && names(conflict.row) == ["y", "y", "y"])
    }

    @Test("A caller without read permission cannot find out the stored value with two names")
    func unread() async throws {
        var table = Self.task()
        table.permissions = TablePermissions(read: .disabled)
        let server = try await TestServer([table])
        #expect(await server.send("POST", "/tables/Task", #"{"id":"a","name":"x"}"#).status == 201)
        let guess = await server.send("PATCH", "/tables/Task/a", #"{"name":"x","title":"y"}"#)
        #expect(guess.status == 400)
        let other = await server.send("PATCH", "/tables/Task/a", #"{"name":"w","title":"y"}"#)
        #expect(other.status == 400 && other.text == guess.text)
        let set = await server.send(
            "PATCH",
            "/tables/Task/a?__changed=title",
            #"{"name":"w","title":"y"}"#
        )
        #expect(set.status == 200)
    }

    @Test("A column of a file is renamed with its values, and older requests can be repeated")
    func renames() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let key: HTTPFields = [
                "Repeatability-Request-ID": "1",
                "Repeatability-First-Sent": "Fri, 15 Jan 2027 08:00:00 GMT",
            ]
            let body = #"{"id":"a","title":"x"}"#
            let old = try await TestServer([Self.before], path: path)
            #expect(await old.send("POST", "/tables/Task", body, headers: key).status == 201)
            let delta = await old.send(
                "GET",
                "/tables/Task",
                headers: ["Prefer": "odata.track-changes"]
            )
            await old.store.stop()
            let declared = Self.task(aliases: ["title": "name"])
            let rejection = await #expect(throws: SchemaError.self) {
                _ = try await TestServer([declared], path: path)
            }
            #expect(rejection?.description.contains("it is named 'title' in the database") == true)
            let steps = try DatabaseMaintenance(path: path).migrate(
                [declared],
                isComplete: true,
                now: ServerEnvironment.live.now
            )
            #expect(steps.map(\.kind) == [.renameColumn("title", to: declared.schema.columns[0])])
            let new = try await TestServer([declared], path: path)
            let row = await new.send("GET", "/tables/Task/a").row
            #expect(row["name"] as? String == "x" && row["title"] as? String == "x")
            let again = await new.send("POST", "/tables/Task", body, headers: key)
            #expect(again.status == 201 && again.row["name"] as? String == "x")
            // Devices get the new name by reading again.
            let link = try #require(delta.deltaLink)
            #expect(await new.send("GET", "/tables/Task?" + link).code == "schemaChanged")
            await new.store.stop()
        }
    }

    @Test(
        "A column of a PostgreSQL database is renamed with its values",
        .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
    )
    func renamesInPostgres() async throws {
        let url = try PostgresCluster.shared().emptyDatabase()
        let old = try await TestServer([Self.before], onPostgres: true, database: url)
        #expect(await old.send("POST", "/tables/Task", #"{"id":"a","title":"x"}"#).status == 201)
        await old.store.stop()
        let declared = Self.task(aliases: ["title": "name"])
        await #expect(throws: SchemaError.self) {
            _ = try await TestServer([declared], onPostgres: true, database: url)
        }
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        configuration.tables = [declared]
        let plan = try ServerDatabase(configuration).migrationPlan()
        #expect(plan.steps.count == 1)
        try ServerDatabase(configuration).migrate()
        let new = try await TestServer([declared], onPostgres: true, database: url)
        let row = await new.send("GET", "/tables/Task/a").row
        #expect(row["name"] as? String == "x" && row["title"] as? String == "x")
        #expect(await new.send("PATCH", "/tables/Task/a", #"{"title":"y"}"#).status == 200)
        await new.store.stop()
    }
}

// DryRunTests: a batch that is undone answers as if it were done, and leaves nothing behind, on both databases.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineSQLite
import TidelineServerCore
import TidelineTestKit

@Suite struct DryRunTests {
    private static let table: TableDefinition = {
        var table = TableRuleCodeTests.visits
        table.audit = true
        table.conflict = .merge
        return table
    }()

    /// A server with a database whose whole contents can be read.
    private struct Place {
        let server: TestServer
        let dump: () throws -> [String]
    }

    private func onDatabases(
        _ tables: [TableDefinition] = [table],
        dynamic: Bool = false,
        hooks: [String: TableHooks] = [:],
        traffic: ServerTraffic = ServerTraffic(),
        limits: ServerLimits = ServerLimits(),
        _ body: (Place) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(
                tables,
                path: path,
                dynamic: dynamic,
                limits: limits,
                hooks: hooks,
                traffic: traffic
            )
            try await body(Place(server: server) { try Self.dump(file: path) })
            await server.store.stop()
        }
        guard PostgresCluster.reasonToSkip == nil else { return }
        let url = try PostgresCluster.shared().emptyDatabase()
        let server = try await TestServer(
            tables,
            onPostgres: true,
            database: url,
            dynamic: dynamic,
            limits: limits,
            hooks: hooks,
            traffic: traffic
        )
        try await body(Place(server: server) { try Self.dump(database: url) })
        await server.store.stop()
    }

    private static func dump(file: String) throws -> [String] {
        let database = try Database(path: file, mode: .existing)
        var lines: [String] = []
        let schema = try database.prepare(
            "SELECT \"name\", \"sql\" FROM \"sqlite_master\" ORDER BY 1"
        )
        var tables: [String] = []
        while try schema.step() {
            lines.append("\(schema.text(0)) \(schema.text(1))")
            if schema.text(1).hasPrefix("CREATE TABLE") { tables.append(schema.text(0)) }
        }
        schema.reset()
        for table in tables {
            let columns = try database.prepare(
                "SELECT group_concat('quote(\"' || \"name\" || '\")', ' || '','' || ') "
                    + "FROM pragma_table_info('\(table)')"
            )
            _ = try columns.step()
            let cells = columns.text(0)
            columns.reset()
            let rows = try database.prepare("SELECT \(cells) FROM \"\(table)\" ORDER BY 1")
            while try rows.step() { lines.append("\(table): \(rows.text(0))") }
            rows.reset()
        }
        return lines
    }

    private static func dump(database url: String) throws -> [String] {
        let connection = try PostgresConnection(PostgresAddress(url))
        var lines: [String] = []
        let tables = try connection.run(
            """
            SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
            WHERE schemaname IN ('public', 'tideline') ORDER BY 1
            """
        )
        for place in 0..<tables.count {
            let table = tables.text(place, 0)
            let rows = try connection.run("SELECT x::text FROM \(table) AS x ORDER BY 1")
            lines += (0..<rows.count).map { "\(table): \(rows.text($0, 0))" }
        }
        let sequences = try connection.run(
            "SELECT sequencename::text || ' ' || coalesce(last_value::text, '') FROM pg_sequences "
                + "ORDER BY 1"
        )
        lines += (0..<sequences.count).map { sequences.text($0, 0) }
        return lines
    }

    private static let parts = [
        BatchPart("1", "post", "tables/Visit", #"{"id":"new","title":"a","number":2}"#),
        BatchPart(
            "2",
            "patch",
            "tables/Visit/a",
            #"{"title":"b"}"#,
            headers: ["if-match": "\"x\""]
        ),
        BatchPart("3", "patch", "tables/Visit/a", #"{"title":"toolong"}"#),
        BatchPart("4", "post", "tables/Visit", #"{"id":"c","title":"a","number":1}"#),
        BatchPart("5", "delete", "tables/Visit/nothing"),
        BatchPart("6", "patch", "tables/Visit/new", #"{"title":"c"}"#),
        BatchPart("7", "delete", "tables/Visit/b", headers: ["if-match": "*"]),
        BatchPart(
            "8",
            "post",
            "tables/Visit",
            #"{"id":"key","title":"a"}"#,
            headers: [
                "repeatability-request-id": "request-1",
                "repeatability-first-sent": "Fri, 15 Jan 2027 08:00:00 GMT",
            ]
        ),
        BatchPart("9", "post", "tables/Visit", #"{"id":"g","title":"a"}"#, group: "g"),
        BatchPart("10", "patch", "tables/Visit/b", #"{"title":"a"}"#, group: "g"),
    ]
    private static let statuses = [201, 412, 400, 409, 404, 200, 204, 201, 424, 410]

    private func fill(_ server: TestServer) async {
        for (id, number) in [("a", 1), ("b", 5)] {
            let body = #"{"id":"\#(id)","title":"a","number":\#(number)}"#
            #expect(await server.send("POST", "/tables/Visit", body).status == 201)
        }
    }

    private func dryRun(_ server: TestServer, _ parts: [BatchPart]) async -> ServerResponse {
        await server.batch(
            parts,
            headers: ["Prefer": "continue-on-error, tideline.dry-run"]
        )
    }

    @Test("A dry run returns the outcome of each request, and does not change the database")
    func nothingChanges() async throws {
        let traffic = ServerTraffic()
        try await onDatabases(traffic: traffic) { place in
            let server = place.server
            await fill(server)
            let clock = await server.send("GET", "/tables/Visit").headers["Tideline-Epoch"]
            let written = await server.send("GET", "/metrics").text.metric(
                "tideline_rows_written_total"
            )
            let before = try place.dump()
            let answer = await dryRun(server, Self.parts)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(answer.partStatuses == Self.statuses, "\(answer.text)")
            #expect(
                answer.headers["Preference-Applied"] == "continue-on-error, tideline.dry-run"
            )
            #expect(answer.partBody(1)["title"] as? String == "a")
            #expect(answer.partBody(2)["code"] as? String == "valueTooLong")
            #expect(answer.partBody(3)["code"] as? String == "notUnique")
            #expect(answer.partBody(5)["title"] as? String == "c")
            #expect(answer.partHeaders(7)["repeatability-result"] == nil)
            #expect(try place.dump() == before)
            let after = await server.send("GET", "/metrics").text
            #expect(after.metric("tideline_rows_written_total") == written)
            #expect(await server.send("GET", "/tables/Visit").headers["Tideline-Epoch"] == clock)
            // The same batch does what was said.
            let done = await server.batch(Self.parts, headers: ["Prefer": "continue-on-error"])
            #expect(done.partStatuses == Self.statuses)
            #expect(try place.dump() != before)
        }
    }

    @Test(
        "Dry runs of several batches change nothing, and none sees the writes of another"
    )
    func severalBatches() async throws {
        try await onDatabases(FieldService.tables()) { place in
            let server = place.server
            let customer = #"{"id":"old","name":"a"}"#
            #expect(await server.send("POST", "/tables/Customer", customer).status == 201)
            let list = await server.send("GET", "/tables/Customer")
            let before = try place.dump()
            let batches = [
                [
                    BatchPart(
                        "1",
                        "post",
                        "tables/Customer",
                        #"{"id":"c","name":"a"}"#,
                        headers: [
                            "repeatability-request-id": "request-1",
                            "repeatability-first-sent": "Fri, 15 Jan 2027 08:00:00 GMT",
                        ]
                    ), BatchPart("2", "post", "tables/Job", #"{"id":"j","customerID":"c"}"#),
                    BatchPart("3", "delete", "tables/Customer/old"),
                ],
                // The customer of the first batch is not there.
                [
                    BatchPart("4", "post", "tables/Job", #"{"id":"k","customerID":"c"}"#),
                    BatchPart("5", "post", "tables/Job", #"{"id":"l","customerID":"old"}"#),
                ],
                [
                    BatchPart(
                        "6",
                        "patch",
                        "tables/Customer/old",
                        #"{"name":"b"}"#,
                        group: "g"
                    ), BatchPart("7", "delete", "tables/Customer/old", group: "g"),
                ],
            ]
            var statuses: [[Int]] = []
            for batch in batches { statuses.append(await dryRun(server, batch).partStatuses) }
            #expect(statuses == [[201, 201, 204], [409, 201], [200, 204]])
            #expect(try place.dump() == before)
            let after = await server.send("GET", "/tables/Customer")
            #expect(after.text == list.text && after.headers["ETag"] == list.headers["ETag"])
        }
    }

    @Test("A dry run of a delete with more rows than a transaction may change deletes nothing")
    func largeCascade() async throws {
        var limits = ServerLimits()
        limits.cascadeRows = 2
        try await onDatabases(FieldService.tables(), limits: limits) { place in
            let server = place.server
            let customer = #"{"id":"c","name":"a"}"#
            #expect(await server.send("POST", "/tables/Customer", customer).status == 201)
            for number in 0..<5 {
                let job = #"{"id":"j\#(number)","customerID":"c"}"#
                #expect(await server.send("POST", "/tables/Job", job).status == 201)
            }
            let before = try place.dump()
            let parts = [
                BatchPart("1", "delete", "tables/Customer/c"),
                BatchPart("2", "post", "tables/Visit", #"{"id":"v","jobID":"j1"}"#),
                BatchPart("3", "post", "tables/Job", #"{"id":"k","customerID":"c"}"#),
            ]
            let answer = await dryRun(server, parts)
            #expect(answer.partStatuses == [204, 409, 409], "\(answer.text)")
            #expect(answer.partBody(1)["code"] as? String == "parentNotFound")
            #expect(try place.dump() == before)
            #expect(await server.send("GET", "/tables/Job").ids.count == 5)
        }
    }

    @Test("A batch can request a dry run in its body")
    func inTheBody() async throws {
        try await onDatabases { place in
            await fill(place.server)
            let before = try place.dump()
            let requests = Self.parts.map(\.json).joined(separator: ",")
            let answer = await place.server.send(
                "POST",
                "/$batch",
                #"{"dryRun":true,"requests":[\#(requests)]}"#,
                headers: ["Prefer": "continue-on-error"]
            )
            #expect(answer.partStatuses == Self.statuses)
            #expect(
                answer.headers["Preference-Applied"] == "continue-on-error, tideline.dry-run"
            )
            #expect(try place.dump() == before)
            let wrong = #"{"dryRun":"yes","requests":[]}"#
            #expect(await place.server.send("POST", "/$batch", wrong).status == 400)
        }
    }

    @Test("A dry run of a request with a known key returns the replayed answer")
    func repeated() async throws {
        try await onDatabases { place in
            let key = [
                "repeatability-request-id": "request-1",
                "repeatability-first-sent": "Fri, 15 Jan 2027 08:00:00 GMT",
            ]
            let part = BatchPart(
                "1",
                "post",
                "tables/Visit",
                #"{"id":"a","title":"a"}"#,
                headers: key
            )
            #expect(await place.server.batch([part]).partStatuses == [201])
            let before = try place.dump()
            #expect(await dryRun(place.server, [part]).partStatuses == [201])
            #expect(try place.dump() == before)
        }
    }

    @Test("A dry run does not run the hooks of the table")
    func hooks() async throws {
        let called = Flag()
        var hooks = TableHooks()
        hooks.beforeWrite = { (_: inout TableChange) in called.set() }
        hooks.afterWrite = { _ in called.set() }
        try await onDatabases(hooks: ["Visit": hooks]) { place in
            let part = BatchPart("1", "post", "tables/Visit", #"{"id":"a","title":"a"}"#)
            let before = try place.dump()
            #expect(await dryRun(place.server, [part]).partStatuses == [201])
            #expect(!called.isSet)
            #expect(try place.dump() == before)
        }
    }

    @Test("A dry run with a read or an endpoint is rejected as malformed")
    func onlyWrites() async throws {
        let server = try await TestServer([Self.table])
        for url in ["tables/Visit", "tables/Visit/a", "api/x"] {
            let answer = await dryRun(
                server,
                [
                    BatchPart("1", "post", "tables/Visit", #"{"id":"a","title":"a"}"#),
                    BatchPart("2", "get", url),
                ]
            )
            #expect(answer.status == 400)
            #expect(answer.error.contains("requests[1]"))
        }
        #expect(await server.send("GET", "/tables/Visit").ids.isEmpty)
    }

    @Test("A single write that prefers a dry run is rejected and not executed")
    func alone() async throws {
        let server = try await TestServer([Self.table])
        let headers: HTTPFields = ["Prefer": "tideline.dry-run"]
        let body = #"{"id":"a","title":"a"}"#
        let answer = await server.send("POST", "/tables/Visit", body, headers: headers)
        #expect(answer.status == 400 && answer.error.contains("POST /$batch"))
        #expect(await server.send("DELETE", "/tables/Visit/a", headers: headers).status == 400)
        #expect(await server.send("GET", "/tables/Visit").ids.isEmpty)
    }

    @Test("A dry run creates no table and no column, and later requests see the earlier rows")
    func growth() async throws {
        try await onDatabases([TestServer.todo], dynamic: true) { place in
            let before = try place.dump()
            let answer = await dryRun(
                place.server,
                [
                    BatchPart("1", "post", "tables/New", #"{"id":"a","text":"a"}"#),
                    BatchPart("2", "post", "tables/TodoItem", #"{"id":"b","text":"b"}"#),
                    BatchPart("3", "post", "tables/TodoItem", #"{"id":"c","other":1}"#),
                    BatchPart("4", "patch", "tables/TodoItem/b", #"{"rank":1}"#),
                ]
            )
            #expect(answer.partStatuses == [400, 201, 400, 200], "\(answer.text)")
            #expect(answer.partBody(3)["text"] as? String == "b")
            #expect(try place.dump() == before)
            #expect(await place.server.send("GET", "/$schema").text.contains("other") == false)
        }
    }
}

extension String {
    /// Returns the line of a metric.
    fileprivate func metric(_ name: String) -> Substring? {
        split(separator: "\n").first { $0.hasPrefix(name + " ") }
    }
}

// A table with `tombstones: bare` erases the values of a deleted row everywhere in the database.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@Suite struct BareTombstoneTests {
    private static let columns = [
        ColumnDefinition("text", .string), ColumnDefinition("rank", .integer, nullable: false),
        ColumnDefinition("due", .dateTime), ColumnDefinition("data", .binary),
        ColumnDefinition("kind", .enumeration(["a", "b"]), default: .string("b")),
    ]

    private static let table = TableDefinition(
        "T",
        columns: columns,
        conflict: .merge,
        tombstones: .bare
    )

    private static let row = """
        {"id":"ID","text":"secret","rank":7,"due":"2026-01-02T03:04:05Z","data":"c2VjcmV0","kind":"b"}
        """

    static let stores = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

    /// A SQLite file, or a PostgreSQL database if it has an address.
    private struct TestDatabase {
        var path: String
        var url: String?

        var address: String { url ?? "sqlite:" + path }

        func server(_ tables: [TableDefinition]) async throws -> TestServer {
            try await TestServer(
                tables,
                path: url == nil ? path : nil,
                onPostgres: url != nil,
                database: url
            )
        }

        /// All bytes of the database outside free pages.
        func dump() async throws -> String {
            if let url {
                let psql = try PostgresConnection(PostgresAddress(url))
                let sources = [
                    "SELECT \"T\"::text FROM \"T\"", "SELECT b::text FROM tideline.bases AS b",
                    "SELECT l::text FROM tideline.ledger AS l",
                    "SELECT l::text FROM tideline.\"log.T\" AS l",
                ]
                return try sources.map { source in
                    let found = try psql.run(source)
                    return (0..<found.count).map { found.text($0, 0) }.joined(separator: "\n")
                }
                .joined(separator: "\n")
            }
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            configuration.tables = [BareTombstoneTests.table]
            _ = try ServerDatabase(configuration).compact()
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        }
    }

    private func withDatabase(
        _ onPostgres: Bool,
        _ body: (TestDatabase) async throws -> Void
    ) async throws {
        let url = onPostgres ? try PostgresCluster.shared().database() : nil
        try await withTemporaryDirectory {
            try await body(TestDatabase(path: $0 + "/a.db", url: url))
        }
    }

    private func check(_ row: [String: Any], _ id: String) {
        #expect(row["id"] as? String == id && row["deleted"] as? Bool == true, "\(row)")
        #expect(row["text"] is NSNull && row["due"] is NSNull && row["data"] is NSNull)
        #expect(row["rank"] as? Int == 0 && row["kind"] is NSNull)
        #expect(row["version"] is String && row["createdAt"] is String)
        #expect(row["updatedAt"] is String)
    }

    @Test(
        "Each way to delete a row erases its values, and leaves no copy of them",
        arguments: stores
    )
    func deletes(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            let server = try await database.server([Self.table])
            let keys: HTTPFields = [
                "Repeatability-Request-ID": "one",
                "Repeatability-First-Sent": HTTPDate.text(microseconds: 1_800_000_000_000_000),
            ]
            for id in ["a", "b", "c", "d"] {
                let body = Self.row.replacing("ID", with: id)
                let created = await server.send(
                    "POST",
                    "/tables/T",
                    body,
                    headers: id == "a" ? keys : [:]
                )
                #expect(created.status == 201)
                // Older versions, for merging.
                #expect(await server.send("PATCH", "/tables/T/\(id)", #"{"rank":8}"#).status == 200)
            }
            let first = await server.send("GET", "/tables/T/a").row
            #expect(await server.send("DELETE", "/tables/T/a").status == 204)
            #expect(await server.send("PATCH", "/tables/T/b", #"{"deleted":true}"#).status == 200)
            let whole = #"{"text":"secret","rank":1,"deleted":true}"#
            #expect(await server.send("PUT", "/tables/T/c", whole).status == 200)
            let batch = #"{"requests":[{"id":"1","method":"delete","url":"tables/T/d"}]}"#
            #expect(await server.send("POST", "/$batch", batch).text.contains("204"))
            let rows = await server.send("GET", "/tables/T?__includeDeleted=true").rows
            #expect(rows.count == 4)
            for row in rows { check(row, row["id"] as? String ?? "") }
            #expect(rows.first?["createdAt"] as? String == first["createdAt"] as? String)
            #expect(rows.first?["version"] as? String != first["version"] as? String)
            // The replayed response to the insert does not contain the erased values.
            let body = Self.row.replacing("ID", with: "a")
            let repeated = await server.send("POST", "/tables/T", body, headers: keys)
            #expect(repeated.status == 201 && !repeated.text.contains("secret"))
            // A row that is undeleted has the values that are sent with it.
            let back = await server.send("PATCH", "/tables/T/b", #"{"deleted":false,"rank":3}"#)
            #expect(back.row["rank"] as? Int == 3 && back.row["text"] is NSNull)
            await server.store.stop()
            #expect(try await !database.dump().contains("secret"))
        }
    }

    @Test("A tombstone without values keeps a reference that must not be null", arguments: stores)
    func references(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            let child = TableDefinition(
                "C",
                columns: [
                    ColumnDefinition("parentID", .string, nullable: false),
                    ColumnDefinition("otherID", .string), ColumnDefinition("text", .string),
                ],
                tombstones: .bare,
                references: ["parentID", "otherID"].map { TableReference($0, to: "T") }
            )
            var server = try await database.server([Self.table, child])
            #expect(await server.send("POST", "/tables/T", #"{"id":"p"}"#).status == 201)
            let body = #"{"id":"c","parentID":"p","otherID":"p","text":"secret"}"#
            #expect(await server.send("POST", "/tables/C", body).status == 201)
            #expect(await server.send("DELETE", "/tables/C/c").status == 204)
            for _ in 0..<2 {
                let answer = await server.send("GET", "/tables/C/c?__includeDeleted=true")
                #expect(answer.row["parentID"] as? String == "p")
                #expect(answer.row["otherID"] is NSNull && answer.row["text"] is NSNull)
                #expect(answer.headers["Tideline-Tombstone"] == "bare")
                // A start erases the values of earlier tombstones.
                await server.store.stop()
                server = try await database.server([Self.table, child])
            }
            await server.store.stop()
        }
    }

    @Test(
        "A read of a tombstone without values says so, even if the table keeps values now",
        arguments: stores
    )
    func marked(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            let path = "/tables/T/ID?__includeDeleted=true"
            func mark(_ server: TestServer, _ id: String) async -> String? {
                await server.send("GET", path.replacing("ID", with: id)).headers[
                    "Tideline-Tombstone"
                ]
            }
            let server = try await database.server([Self.table])
            for id in ["a", "b"] {
                _ = await server.send("POST", "/tables/T", Self.row.replacing("ID", with: id))
            }
            #expect(await server.send("DELETE", "/tables/T/a").status == 204)
            #expect(await mark(server, "a") == "bare")
            #expect(await mark(server, "b") == nil)
            await server.store.stop()
            var full = Self.table
            full.tombstones = .full
            let later = try await database.server([full])
            #expect(await later.send("DELETE", "/tables/T/b").status == 204)
            #expect(await mark(later, "a") == "bare")
            #expect(await mark(later, "b") == nil)
            await later.store.stop()
        }
    }

    @Test("A tombstone that keeps its only value, a reference, is not marked", arguments: stores)
    func onlyReferences(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            let child = TableDefinition(
                "C",
                columns: [
                    ColumnDefinition("parentID", .string, nullable: false),
                    ColumnDefinition("text", .string),
                ],
                references: [TableReference("parentID", to: "T")]
            )
            let server = try await database.server([Self.table, child])
            #expect(await server.send("POST", "/tables/T", #"{"id":"p"}"#).status == 201)
            let body = #"{"id":"c","parentID":"p"}"#
            #expect(await server.send("POST", "/tables/C", body).status == 201)
            #expect(await server.send("DELETE", "/tables/C/c").status == 204)
            let answer = await server.send("GET", "/tables/C/c?__includeDeleted=true")
            #expect(answer.row["parentID"] as? String == "p")
            #expect(answer.headers["Tideline-Tombstone"] == nil)
            await server.store.stop()
        }
    }

    @Test(
        "A tombstone without values is read even if null or zero breaks a rule of a column",
        arguments: stores
    )
    func brokenRules(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            var table = Self.table
            table.schema.columns = [
                ColumnDefinition("title", .string, rules: ColumnRules(required: true)),
                ColumnDefinition("rank", .integer, nullable: false, rules: ColumnRules(min: 1)),
                ColumnDefinition("day", .date, nullable: false),
                ColumnDefinition("doc", .json, nullable: false),
            ]
            let server = try await database.server([table])
            let row = #"{"id":"a","title":"x","rank":7,"day":"2026-01-02","doc":[1]}"#
            #expect(await server.send("POST", "/tables/T", row).status == 201)
            #expect(await server.send("DELETE", "/tables/T/a").status == 204)
            let tombstone = await server.send("GET", "/tables/T/a?__includeDeleted=true")
            #expect(tombstone.status == 200, "\(tombstone.text)")
            #expect(tombstone.headers["Tideline-Tombstone"] == "bare")
            #expect(tombstone.text.contains(#""title":null,"rank":0,"day":"","doc":null"#))
            await server.store.stop()
        }
    }

    @Test(
        "Tombstones from before the option lose their values when the server starts",
        arguments: stores
    )
    func older(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            var full = Self.table
            full.tombstones = .full
            let before = try await database.server([full])
            for id in ["a", "b"] {
                _ = await before.send("POST", "/tables/T", Self.row.replacing("ID", with: id))
            }
            _ = await before.send("PATCH", "/tables/T/a", #"{"rank":8}"#)
            #expect(await before.send("DELETE", "/tables/T/a").status == 204)
            let kept = await before.send("GET", "/tables/T/a?__includeDeleted=true").row
            #expect(kept["text"] as? String == "secret")
            await before.store.stop()
            let server = try await database.server([Self.table])
            let row = await server.send("GET", "/tables/T/a?__includeDeleted=true").row
            check(row, "a")
            #expect(row["version"] as? String == kept["version"] as? String)
            #expect(await server.send("GET", "/tables/T/b").row["text"] as? String == "secret")
            await server.store.stop()
        }
    }

    @Test("An owner receives the tombstone, and export shows no values", arguments: stores)
    func owners(onPostgres: Bool) async throws {
        try await withDatabase(onPostgres) { database in
            var table = Self.table
            table.owner = "userId"
            table.completeOwner()
            let server = try await TestServer(
                [table],
                path: onPostgres ? nil : database.path,
                onPostgres: onPostgres,
                database: database.url,
                authenticator: try Tokens.authenticator()
            )
            let anna = try Tokens.headers("anna")
            let row = Self.row.replacing("ID", with: "a")
            #expect(await server.send("POST", "/tables/T", row, headers: anna).status == 201)
            #expect(await server.send("DELETE", "/tables/T/a", headers: anna).status == 204)
            let rows = await server.send("GET", "/tables/T?__includeDeleted=true", headers: anna)
                .rows
            #expect(rows.count == 1)
            for row in rows {
                check(row, "a")
                #expect(row["userId"] as? String == "anna")
            }
            await server.store.stop()
            var configuration = ServerConfiguration()
            configuration.database =
                database.url.map { .postgres(url: $0) } ?? .sqlite(path: database.path)
            configuration.tables = [table]
            var lines: [String] = []
            _ = try ServerDatabase(configuration).export(user: "anna") { lines.append($0) }
            #expect(lines.count == 1 && lines[0].contains("tombstones"), "\(lines)")
            #expect(!lines[0].contains("secret"))
        }
    }

    @Test(
        "A delete by an external writer erases the values, too",
        .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
    )
    func externalWriters() async throws {
        try await withDatabase(true) { database in
            let server = try await database.server([Self.table])
            for id in ["a", "b"] {
                _ = await server.send("POST", "/tables/T", Self.row.replacing("ID", with: id))
            }
            let psql = try PostgresConnection(PostgresAddress(database.url ?? ""))
            try psql.execute(
                """
                DELETE FROM "T" WHERE id = 'a';
                UPDATE "T" SET deleted = TRUE, text = 'secret' WHERE id = 'b'
                """
            )
            for id in ["a", "b"] {
                check(await server.send("GET", "/tables/T/\(id)?__includeDeleted=true").row, id)
            }
            await server.store.stop()
        }
    }

    @Test("The option requires tombstones, and no row filter on an erased column")
    func configuration() async throws {
        var table = Self.table
        table.softDelete = false
        await #expect(throws: SchemaError.self) { try await TestServer([table]) }
        var hooks = TableHooks()
        hooks.rowFilter = { _ in "rank eq 1" }
        await #expect(throws: SchemaError.self) {
            try await TestServer([Self.table], hooks: ["t": hooks])
        }
    }
}

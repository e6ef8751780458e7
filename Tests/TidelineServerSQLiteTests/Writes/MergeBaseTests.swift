// The base rows that are kept for merging: how many, for how long, and across restarts and storage formats.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite

@Suite struct MergeBaseTests {
    private static func table(_ conflict: ConflictRule = .merge) -> TableDefinition {
        var table = TestServer.todo
        table.conflict = conflict
        return table
    }

    private static func bases(_ path: String) throws -> Int64 {
        try Database(path: path, mode: .readOnly)
            .integer("SELECT count(*) FROM \"tideline_bases\"") ?? -1
    }

    private static func patch(
        _ server: TestServer,
        _ body: String,
        _ tag: String? = nil
    ) async -> ServerResponse {
        let headers: HTTPFields = tag.map { ["If-Match": $0] } ?? [:]
        return await server.send("PATCH", "/tables/TodoItem/a", body, headers: headers)
    }

    @Test("A table stores as many base rows as its limit allows")
    func keepsAsManyVersionsAsTheLimit() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.mergeBases = 3
            let server = try await TestServer([Self.table()], path: path, limits: limits)
            var tags: [String] = []
            let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"0"}"#)
            tags.append(created.headers["ETag"] ?? "")
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
            for number in 1...5 {
                let answer = await Self.patch(server, #"{"text":"\#(number)"}"#)
                tags.append(answer.headers["ETag"] ?? "")
            }
            #expect(try Self.bases(path) == 3)
            // Each merge creates one more version.
            for (index, status) in [(0, 412), (1, 412), (2, 200), (2, 412), (4, 200)] {
                let answer = await Self.patch(server, #"{"rank":\#(index)}"#, tags[index])
                #expect(answer.status == status, "version \(index)")
                if status == 200 {
                    _ = await Self.patch(server, #"{"rank":null}"#)
                }
            }
            await server.store.stop()
        }
    }

    @Test("Only a table that merges stores base rows", arguments: ConflictRule.allCases)
    func onlyTablesThatMergeKeepBaseRows(_ rule: ConflictRule) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer([Self.table(rule)], path: path)
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            for method in ["PATCH", "PUT"] {
                _ = await server.send(method, "/tables/TodoItem/a", "{}")
            }
            _ = await server.send("DELETE", "/tables/TodoItem/a")
            #expect(try Self.bases(path) == (rule == .merge ? 3 : 0))
            await server.store.stop()
        }
    }

    @Test("A rejected write stores no base row") func rejectedWritesKeepNoBaseRows() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.rowBytes = 50_000
            var table = Self.table()
            table.schema.columns += ["b", "c"].map { ColumnDefinition($0, .string) }
            let server = try await TestServer([table], path: path, limits: limits)
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            #expect(await Self.patch(server, #"{"rank":1}"#, "\"AAAAAAAAAAA=\"").status == 412)
            #expect(try Self.bases(path) == 0)
            let wide = String(repeating: "x", count: 40_000)
            for (name, status) in [("text", 200), ("b", 200), ("c", 413)] {
                let answer = await Self.patch(server, #"{"\#(name)":"\#(wide)"}"#)
                #expect(answer.status == status)
            }
            #expect(try Self.bases(path) == 2)
            await server.store.stop()
        }
    }

    @Test("A permanently deleted row removes its base rows")
    func removedRowsRemoveTheirBaseRows() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var table = Self.table()
            table.softDelete = false
            let server = try await TestServer([table], path: path)
            for id in ["a", "b"] {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                _ = await server.send("PATCH", "/tables/TodoItem/\(id)", "{}")
            }
            #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
            #expect(try Self.bases(path) == 1)
            await server.store.stop()
        }
    }

    @Test("A purged tombstone removes its base rows")
    func purgedTombstonesRemoveTheirBaseRows() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var table = Self.table()
            table.tombstoneDays = 1
            let clock = TestClock()
            let server = try await TestServer([table], path: path, clock: clock)
            for id in ["a", "b"] {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                _ = await server.send("PATCH", "/tables/TodoItem/\(id)", "{}")
            }
            _ = await server.send("DELETE", "/tables/TodoItem/a")
            #expect(try Self.bases(path) == 3)
            clock.move(by: 3 * 86_400_000_000)
            try await server.purge()
            #expect(try Self.bases(path) == 1)
            await server.store.stop()
        }
    }

    @Test("A write without a stored base row is not merged after the policy changes")
    func thePolicyMayChangeAtAStart() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var server = try await TestServer([Self.table(.reject)], path: path)
            let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            let first = created.headers["ETag"] ?? ""
            let second = await Self.patch(server, #"{"text":"y"}"#).headers["ETag"] ?? ""
            await server.store.stop()
            server = try await TestServer([Self.table()], path: path)
            #expect(await Self.patch(server, #"{"text":"z"}"#).status == 200)
            #expect(await Self.patch(server, #"{"rank":1}"#, first).status == 412)
            #expect(await Self.patch(server, #"{"rank":1}"#, second).status == 200)
            await server.store.stop()
            // Base rows survive a restart until the table no longer merges.
            server = try await TestServer([Self.table()], path: path)
            #expect(await Self.patch(server, #"{"complete":true}"#, second).status == 200)
            await server.store.stop()
            server = try await TestServer([Self.table(.reject)], path: path)
            #expect(try Self.bases(path) == 0)
            #expect(await Self.patch(server, #"{"complete":false}"#, second).status == 412)
            await server.store.stop()
            server = try await TestServer([Self.table()], path: path)
            #expect(await Self.patch(server, #"{"complete":false}"#, second).status == 412)
            await server.store.stop()
        }
    }

    @Test("A column that is missing in the base row or has another type conflicts")
    func columnsThatDifferFromTheBaseRowConflict() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var table = Self.table()
            var server = try await TestServer([table], path: path)
            let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            let first = created.headers["ETag"] ?? ""
            _ = await Self.patch(server, #"{"text":"y"}"#)
            await server.store.stop()
            table.schema.columns.append(ColumnDefinition("note", .string))
            server = try await TestServer([table], path: path)
            #expect(await Self.patch(server, #"{"note":"n"}"#, first).status == 412)
            #expect(await Self.patch(server, #"{"note":null,"rank":1}"#, first).status == 200)
            await server.store.stop()
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            table.schema.columns[2].type = .boolean
            configuration.tables = [table]
            try ServerDatabase(configuration).migrate()
            server = try await TestServer([table], path: path)
            let converted = await server.send("GET", "/tables/TodoItem/a")
            #expect(converted.row["rank"] as? Bool == true)
            #expect(await Self.patch(server, #"{"complete":true}"#, first).status == 200)
            #expect(await Self.patch(server, #"{"rank":false}"#, first).status == 412)
            await server.store.stop()
        }
    }

    @Test("An older storage format is upgraded, and backups contain the base rows")
    func olderStorageFormats() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = try await TestServer([Self.table(.reject)], path: path)
            let created = await old.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            await old.store.stop()
            try Database(path: path)
                .execute(
                    """
                    DROP TABLE "tideline_bases";
                    ALTER TABLE "tideline_tables" DROP COLUMN "horizon";
                    PRAGMA user_version = 3
                    """
                )
            let server = try await TestServer([Self.table()], path: path)
            #expect(await Self.patch(server, #"{"text":"y"}"#).status == 200)
            let tag = created.headers["ETag"] ?? ""
            #expect(await Self.patch(server, #"{"rank":1}"#, tag).status == 200)
            let format = try Database(path: path, mode: .readOnly).integer("PRAGMA user_version")
            #expect(format == 6)
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            try ServerDatabase(configuration).backup(to: directory + "/b.db")
            await server.store.stop()
            let restored = try await TestServer([Self.table()], path: directory + "/b.db")
            #expect(await Self.patch(restored, #"{"complete":true}"#, tag).status == 200)
            await restored.store.stop()
        }
    }
}

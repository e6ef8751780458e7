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
        var table = Door.todo
        table.conflict = conflict
        return table
    }

    private static func bases(_ path: String) throws -> Int64 {
        try Database(path: path, mode: .readOnly)
            .integer("SELECT count(*) FROM \"tideline_bases\"") ?? -1
    }

    private static func patch(
        _ door: Door,
        _ body: String,
        _ tag: String? = nil
    ) async -> ServerResponse {
        let headers: HTTPFields = tag.map { ["If-Match": $0] } ?? [:]
        return await door.send("PATCH", "/tables/TodoItem/a", body, headers: headers)
    }

    @Test("A table stores as many base rows as its limit allows")
    func keepsAsManyVersionsAsTheLimit() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.mergeBases = 3
            let door = try await Door([Self.table()], path: path, limits: limits)
            var tags: [String] = []
            let made = await door.send("POST", "/tables/TodoItem", #"{"id":"a","text":"0"}"#)
            tags.append(made.headers["ETag"] ?? "")
            _ = await door.send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
            for number in 1...5 {
                let answer = await Self.patch(door, #"{"text":"\#(number)"}"#)
                tags.append(answer.headers["ETag"] ?? "")
            }
            #expect(try Self.bases(path) == 3)
            // Each merge creates one more version.
            for (index, status) in [(0, 412), (1, 412), (2, 200), (2, 412), (4, 200)] {
                let answer = await Self.patch(door, #"{"rank":\#(index)}"#, tags[index])
                #expect(answer.status == status, "version \(index)")
                if status == 200 {
                    _ = await Self.patch(door, #"{"rank":null}"#)
                }
            }
            await door.store.stop()
        }
    }

    @Test("Only a table that merges stores base rows", arguments: ConflictRule.allCases)
    func onlyTablesThatMergeKeepBaseRows(_ rule: ConflictRule) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let door = try await Door([Self.table(rule)], path: path)
            _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            for method in ["PATCH", "PUT"] {
                _ = await door.send(method, "/tables/TodoItem/a", "{}")
            }
            _ = await door.send("DELETE", "/tables/TodoItem/a")
            #expect(try Self.bases(path) == (rule == .merge ? 3 : 0))
            await door.store.stop()
        }
    }

    @Test("A rejected write stores no base row") func rejectedWritesKeepNoBaseRows() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.rowBytes = 50_000
            var table = Self.table()
            table.schema.columns += ["b", "c"].map { ColumnDefinition($0, .string) }
            let door = try await Door([table], path: path, limits: limits)
            _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            #expect(await Self.patch(door, #"{"rank":1}"#, "\"AAAAAAAAAAA=\"").status == 412)
            #expect(try Self.bases(path) == 0)
            let wide = String(repeating: "x", count: 40_000)
            for (name, status) in [("text", 200), ("b", 200), ("c", 413)] {
                let answer = await Self.patch(door, #"{"\#(name)":"\#(wide)"}"#)
                #expect(answer.status == status)
            }
            #expect(try Self.bases(path) == 2)
            await door.store.stop()
        }
    }

    @Test("A permanently deleted row removes its base rows")
    func removedRowsRemoveTheirBaseRows() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var table = Self.table()
            table.softDelete = false
            let door = try await Door([table], path: path)
            for id in ["a", "b"] {
                _ = await door.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                _ = await door.send("PATCH", "/tables/TodoItem/\(id)", "{}")
            }
            #expect(await door.send("DELETE", "/tables/TodoItem/a").status == 204)
            #expect(try Self.bases(path) == 1)
            await door.store.stop()
        }
    }

    @Test("A purged tombstone removes its base rows")
    func purgedTombstonesRemoveTheirBaseRows() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var table = Self.table()
            table.tombstoneDays = 1
            let clock = TestClock()
            let door = try await Door([table], path: path, clock: clock)
            for id in ["a", "b"] {
                _ = await door.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                _ = await door.send("PATCH", "/tables/TodoItem/\(id)", "{}")
            }
            _ = await door.send("DELETE", "/tables/TodoItem/a")
            #expect(try Self.bases(path) == 3)
            clock.move(by: 3 * 86_400_000_000)
            try await door.purge()
            #expect(try Self.bases(path) == 1)
            await door.store.stop()
        }
    }

    @Test("A write without a stored base row is not merged after the policy changes")
    func thePolicyMayChangeAtAStart() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var door = try await Door([Self.table(.reject)], path: path)
            let made = await door.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            let first = made.headers["ETag"] ?? ""
            let second = await Self.patch(door, #"{"text":"y"}"#).headers["ETag"] ?? ""
            await door.store.stop()
            door = try await Door([Self.table()], path: path)
            #expect(await Self.patch(door, #"{"text":"z"}"#).status == 200)
            #expect(await Self.patch(door, #"{"rank":1}"#, first).status == 412)
            #expect(await Self.patch(door, #"{"rank":1}"#, second).status == 200)
            await door.store.stop()
            // Base rows survive a restart until the table no longer merges.
            door = try await Door([Self.table()], path: path)
            #expect(await Self.patch(door, #"{"complete":true}"#, second).status == 200)
            await door.store.stop()
            door = try await Door([Self.table(.reject)], path: path)
            #expect(try Self.bases(path) == 0)
            #expect(await Self.patch(door, #"{"complete":false}"#, second).status == 412)
            await door.store.stop()
            door = try await Door([Self.table()], path: path)
            #expect(await Self.patch(door, #"{"complete":false}"#, second).status == 412)
            await door.store.stop()
        }
    }

    @Test("A column that is missing in the base row or has another type conflicts")
    func columnsThatDifferFromTheBaseRowConflict() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var table = Self.table()
            var door = try await Door([table], path: path)
            let made = await door.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            let first = made.headers["ETag"] ?? ""
            _ = await Self.patch(door, #"{"text":"y"}"#)
            await door.store.stop()
            table.schema.columns.append(ColumnDefinition("note", .string))
            door = try await Door([table], path: path)
            #expect(await Self.patch(door, #"{"note":"n"}"#, first).status == 412)
            #expect(await Self.patch(door, #"{"note":null,"rank":1}"#, first).status == 200)
            await door.store.stop()
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            table.schema.columns[2].type = .boolean
            configuration.tables = [table]
            try ServerDatabase(configuration).migrate()
            door = try await Door([table], path: path)
            let converted = await door.send("GET", "/tables/TodoItem/a")
            #expect(converted.row["rank"] as? Bool == true)
            #expect(await Self.patch(door, #"{"complete":true}"#, first).status == 200)
            #expect(await Self.patch(door, #"{"rank":false}"#, first).status == 412)
            await door.store.stop()
        }
    }

    @Test("An older storage format is upgraded, and backups contain the base rows")
    func olderStorageFormats() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = try await Door([Self.table(.reject)], path: path)
            let made = await old.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            await old.store.stop()
            try Database(path: path)
                .execute(
                    """
                    DROP TABLE "tideline_bases";
                    ALTER TABLE "tideline_tables" DROP COLUMN "horizon";
                    PRAGMA user_version = 3
                    """
                )
            let door = try await Door([Self.table()], path: path)
            #expect(await Self.patch(door, #"{"text":"y"}"#).status == 200)
            let tag = made.headers["ETag"] ?? ""
            #expect(await Self.patch(door, #"{"rank":1}"#, tag).status == 200)
            let format = try Database(path: path, mode: .readOnly).integer("PRAGMA user_version")
            #expect(format == 6)
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            try ServerDatabase(configuration).backup(to: directory + "/b.db")
            await door.store.stop()
            let restored = try await Door([Self.table()], path: directory + "/b.db")
            #expect(await Self.patch(restored, #"{"complete":true}"#, tag).status == 200)
            await restored.store.stop()
        }
    }
}

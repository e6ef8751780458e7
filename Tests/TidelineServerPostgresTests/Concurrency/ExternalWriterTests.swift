// Goal: every device sees the writes of an external writer (psql, a job); its open transaction delays no server, and
// changes that could not be reported to devices are rejected. Method: two servers on one database and a connection of
// another program; devices of all generations at both.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.serialized, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing"))
struct ExternalWriterTests {
    /// Two servers with the rows 'a' to 'c', and another program that writes to their database.
    private struct SharedDatabase {
        let servers: [TestServer]
        let url: String
        let psql: PostgresConnection

        init(_ table: TableDefinition = TestServer.todo) async throws {
            url = try PostgresCluster.shared().database()
            let clock = TestClock()
            var servers: [TestServer] = []
            for _ in 0..<2 {
                servers.append(
                    try await TestServer([table], onPostgres: true, database: url, clock: clock)
                )
            }
            self.servers = servers
            psql = try PostgresConnection(PostgresAddress(url))
            for id in ["a", "b", "c"] { try await insert(id, at: servers[0]) }
        }

        func insert(_ id: String, at server: TestServer) async throws {
            let body = #"{"id":"\#(id)","text":"by a server"}"#
            let answer = await server.send("POST", "/tables/TodoItem", body)
            try #require(answer.status == 201, "\(answer.text)")
        }

        /// The texts by id, including tombstones.
        func rows() throws -> [String: (text: String, isDeleted: Bool, version: Int64)] {
            let found = try psql.run(
                "SELECT \"id\", \"text\", \"deleted\", \"version\" FROM \"TodoItem\""
            )
            var rows: [String: (text: String, isDeleted: Bool, version: Int64)] = [:]
            for row in 0..<found.count {
                rows[found.text(row, 0)] = (
                    found.isNull(row, 1) ? "" : found.text(row, 1), found.boolean(row, 2),
                    found.integer(row, 3)
                )
            }
            return rows
        }
    }

    /// The error message for the other program, as psql shows it.
    private static func words(of script: String, in url: String) -> String {
        do {
            try PostgresCluster.shared().psql(script, in: PostgresCluster.name(in: url))
            return ""
        } catch {
            return "\(error)"
        }
    }

    @Test(
        "A TRUNCATE by an external writer is rejected, and no row changes",
        arguments: [
            "TRUNCATE \"TodoItem\"", "TRUNCATE \"TodoItem\" CASCADE",
            "BEGIN; INSERT INTO tideline.moved VALUES ('x', 1); TRUNCATE \"TodoItem\"; COMMIT",
        ]
    )
    func truncateIsRejected(script: String) async throws {
        let shared = try await SharedDatabase()
        let before = try shared.rows()
        let words = Self.words(of: script, in: shared.url)
        #expect(words.contains("TRUNCATE would be told to no device; use DELETE"), "\(words)")
        let after = try shared.rows()
        #expect(after.mapValues(\.version) == before.mapValues(\.version))
        #expect(after.count == 3 && after.values.allSatisfy { !$0.isDeleted })
        #expect(await shared.servers[1].send("GET", "/tables/TodoItem").ids == ["a", "b", "c"])
    }

    @Test("A change of an ID by an external writer is rejected", arguments: [true, false])
    func aChangeOfAnIDIsRejected(softDelete: Bool) async throws {
        var table = TestServer.todo
        table.softDelete = softDelete
        let shared = try await SharedDatabase(table)
        let before = try shared.rows().mapValues(\.version)
        let words = Self.words(
            of: "UPDATE \"TodoItem\" SET \"id\" = 'z', \"text\" = 'moved' WHERE \"id\" = 'a'",
            in: shared.url
        )
        #expect(words.contains("the id of a row is not changed"), "\(words)")
        #expect(words.contains("delete the row and insert another"), "\(words)")
        #expect(try shared.rows().mapValues(\.version) == before)
        // A statement that sets the id to its current value is like any other update.
        try shared.psql.execute(
            "UPDATE \"TodoItem\" SET \"id\" = 'a', \"text\" = 'same' WHERE \"id\" = 'a'"
        )
        let row = try #require(try shared.rows()["a"])
        #expect(row.text == "same" && row.version > before.values.max() ?? .max)
    }

    // MARK: - Deletes

    private static let tracking: HTTPFields = ["Prefer": "odata.track-changes"]

    /// Reads all rows, and returns the delta link.
    private static func link(of server: TestServer) async throws -> String {
        var page = await server.send("GET", "/tables/TodoItem", headers: tracking)
        while let next = page.row["nextLink"] as? String {
            page = await server.send("GET", "/tables/TodoItem?" + next)
        }
        return "/tables/TodoItem?" + (try #require(page.row["@odata.deltaLink"] as? String))
    }

    /// Returns the ids of the changes since a delta link; those of deleted rows begin with a minus.
    private static func changes(_ link: String, at server: TestServer) async throws -> [String] {
        let page = await server.send("GET", link)
        try #require(page.status == 200, "\(page.text)")
        return page.rows.map { row in
            let isGone = row["@removed"] != nil || row["deleted"] as? Bool == true
            return (isGone ? "-" : "") + (row["id"] as? String ?? "?")
        }
    }

    @Test("A delete by an external writer reaches the delta of a device", arguments: [true, false])
    func aDeleteReachesTheDeltaOfADevice(softDelete: Bool) async throws {
        var table = TestServer.todo
        table.softDelete = softDelete
        let shared = try await SharedDatabase(table)
        var links: [String] = []
        for server in shared.servers { links.append(try await Self.link(of: server)) }
        let before = try #require(try shared.rows()["b"])
        let last = try #require(try shared.rows()["c"]).version
        try shared.psql.execute("DELETE FROM \"TodoItem\" WHERE \"id\" = 'b'")
        let row = try shared.rows()["b"]
        if softDelete {
            let row = try #require(row)
            #expect(row.isDeleted && row.version > last && row.version > before.version)
            #expect(row.text == before.text)
        } else {
            #expect(row == nil)
        }
        for (server, link) in zip(shared.servers, links) {
            #expect(try await Self.changes(link, at: server) == ["-b"])
            #expect(await server.send("GET", "/tables/TodoItem").ids == ["a", "c"])
            let status = await server.send("GET", "/tables/TodoItem/b").status
            #expect(status == (softDelete ? 410 : 404))
        }
        // A second delete finds no row; inserting the row again restores it.
        if !softDelete {
            try shared.psql.execute(
                "INSERT INTO \"TodoItem\" (\"id\", \"complete\") VALUES ('b', FALSE)"
            )
            for (server, link) in zip(shared.servers, links) {
                #expect(try await Self.changes(link, at: server).contains("b"))
            }
        }
    }

    @Test(
        "A delete by an external writer reaches the pulls of the original clients",
        arguments: Device.Algorithm.allCases
    )
    func aDeleteReachesThePullsOfOriginalClients(algorithm: Device.Algorithm) async throws {
        let shared = try await SharedDatabase()
        var devices = shared.servers.map { Device(algorithm, $0, size: 2) }
        for index in devices.indices {
            try await devices[index].pull()
            #expect(Set(devices[index].rows.keys) == ["a", "b", "c"])
        }
        try shared.psql.execute("DELETE FROM \"TodoItem\" WHERE \"id\" IN ('a', 'b')")
        for index in devices.indices {
            try await devices[index].pull()
            #expect(Set(devices[index].rows.keys) == ["c"])
        }
    }

    // MARK: - Open transactions

    @Test("An uncommitted external transaction delays neither reads nor writes of a server")
    func anOpenTransactionDelaysNoServer() async throws {
        let shared = try await SharedDatabase()
        var links: [String] = []
        for server in shared.servers { links.append(try await Self.link(of: server)) }
        var devices = shared.servers.map { Device(.javaScript, $0, size: 2) }
        for index in devices.indices { try await devices[index].pull() }
        try shared.psql.execute(
            """
            BEGIN; SET LOCAL idle_in_transaction_session_timeout = '60s';
            INSERT INTO "TodoItem" ("id", "text", "complete")
            SELECT 'f' || n, 'beside', FALSE FROM generate_series(1, 200) AS n;
            UPDATE "TodoItem" SET "text" = 'beside' WHERE "id" = 'a';
            DELETE FROM "TodoItem" WHERE "id" = 'b'
            """
        )
        for number in 0..<20 {
            try await shared.insert("s\(number)", at: shared.servers[number % 2])
        }
        #expect(shared.psql.isInTransaction)
        // No device sees uncommitted rows; all devices continue after the committed ones.
        for (index, server) in shared.servers.enumerated() {
            let reported = try await Self.changes(links[index], at: server)
            #expect(Set(reported) == Set((0..<20).map { "s\($0)" }))
            links[index] = try await Self.link(of: server)
            try await devices[index].pull()
            #expect(devices[index].rows.count == 23)
        }
        // The transaction still holds the row that it wrote: a write to it is rejected, and both servers continue.
        let rejected = await shared.servers[0].send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"text":"by a server"}"#
        )
        #expect(rejected.status == 503 && rejected.headers["Retry-After"] != nil)
        for number in 20..<24 {
            try await shared.insert("s\(number)", at: shared.servers[number % 2])
        }
        #expect(shared.psql.isInTransaction)
        try shared.psql.execute("COMMIT")
        let truth = try shared.rows()
        #expect(truth.count == 3 + 24 + 200)
        let own = Set((1...200).map { "f\($0)" })
        let late = try #require(truth.filter { own.contains($0.key) }.map(\.value.version).min())
        let early = try #require(truth.filter { $0.key.hasPrefix("s") }.map(\.value.version).max())
        #expect(late > early, "its stamps are those of its commit")
        for (index, server) in shared.servers.enumerated() {
            let reported = try await Self.allChanges(links[index], at: server)
            #expect(Set(reported) == own.union(["a", "-b"]).union((20..<24).map { "s\($0)" }))
            try await devices[index].pull()
            let live = truth.filter { !$0.value.isDeleted }.mapValues {
                RowVersion.text($0.version)
            }
            #expect(devices[index].rows == live)
        }
        let answer = await shared.servers[0].send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"text":"by a server"}"#
        )
        #expect(answer.status == 200)
    }

    private static func allChanges(_ link: String, at server: TestServer) async throws -> [String] {
        var reported: [String] = []
        var target: String? = link
        while let current = target {
            reported += try await changes(current, at: server)
            let next = await server.send("GET", current).row["nextLink"] as? String
            target = next.map { "/tables/TodoItem?" + $0 }
        }
        return reported
    }

    /// If they differed, an upgrade would lock every table to create its triggers again.
    @Test("The triggers of a table are those that earlier versions created")
    func sameTriggers() async throws {
        for (table, hash) in [
            (TestServer.todo, "a4ed986c89f3c865949a52fef18eab8"),
            (OwnedTable.definition(), "ec5c7cd1a84a44a651a213d106914"),
        ] {
            let url = try PostgresCluster.shared().database()
            try await OwnedTable.store(url, table).stop()
            let found = try PostgresConnection(PostgresAddress(url)).run(
                "SELECT \"value\" FROM tideline.state WHERE \"key\" = 'triggers.todoitem'"
            )
            #expect(found.text(0, 0) == hash)
        }
    }
}

// A wall clock that is wrong for a while removes nothing, and the data that it dated is removed in time.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite struct WrongClockTests {
    private static let day: Int64 = 86_400_000_000
    private static let decade = 3652 * day
    private static let second: Int64 = 1_000_000

    private static var tables: [TableDefinition] {
        var soft = TestServer.todo
        soft.tombstoneDays = 30
        soft.audit = true
        var hard = TableDefinition(
            "Hard",
            columns: TestServer.todo.schema.columns,
            softDelete: false
        )
        hard.tombstoneDays = 30
        return [soft, hard]
    }

    /// A database and the clocks of its machine, across several starts of its server.
    private struct Machine {
        let path: String
        let url: String?
        /// The wall clock, and a monotonic clock, which is never set.
        let wall = TestClock(step: 1000)
        let steady = TestClock(0)

        func start(log: ServerLog = .silent) async throws -> TestServer {
            try await TestServer(
                WrongClockTests.tables,
                path: url == nil ? path : nil,
                onPostgres: url != nil,
                database: url,
                clock: wall,
                steady: steady,
                storeLog: log
            )
        }

        /// Time passes on both clocks.
        func pass(_ time: Int64) {
            wall.move(by: time)
            steady.move(by: time)
        }

        func audit() throws -> [AuditEntry] {
            let query = AuditQuery()
            guard let url else { return try DatabaseInspection(path: path).audit(query) }
            return try PostgresMaintenance(url: url).audit(query)
        }
    }

    private final class Lines: Sendable {
        private let lines = Mutex("")

        var log: ServerLog {
            ServerLog(
                level: .warning,
                now: { 0 },
                sink: { line in self.lines.withLock { $0 += String(decoding: line, as: UTF8.self) }
                }
            )
        }

        var text: String { lines.withLock { $0 } }
    }

    private static func with(
        _ onPostgres: Bool,
        _ body: (Machine) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let url = try onPostgres ? PostgresCluster.shared().database() : nil
            try await body(Machine(path: directory + "/a.db", url: url))
        }
    }

    private static func named(_ name: String, _ clock: TestClock) -> HTTPFields {
        [
            "Repeatability-Request-ID": name,
            "Repeatability-First-Sent": HTTPDate.text(microseconds: clock.current),
        ]
    }

    private static func deleteRow(_ id: String, _ server: TestServer, _ machine: Machine) async {
        for table in ["TodoItem", "Hard"] {
            let created = await server.send(
                "POST",
                "/tables/\(table)",
                #"{"id":"\#(id)"}"#,
                headers: named("\(table)-\(id)", machine.wall)
            )
            #expect(created.status == 201, "\(created.text)")
            let gone = await server.send("DELETE", "/tables/\(table)/\(id)")
            #expect(gone.status == 204)
        }
    }

    private static func tombstones(_ server: TestServer) async -> [String] {
        await server.send("GET", "/tables/TodoItem?__includedeleted=true&$orderby=id").ids
    }

    private static func link(_ server: TestServer) async -> String {
        let fields: HTTPFields = ["Prefer": "odata.track-changes"]
        let list = await server.send("GET", "/tables/Hard", headers: fields)
        return "/tables/Hard?" + (list.deltaLink ?? "")
    }

    /// Everything that is removed for its age.
    private static func expectAll(
        _ id: String,
        sent: HTTPFields,
        link: String,
        _ server: TestServer,
        _ machine: Machine
    ) async throws {
        #expect(await tombstones(server).contains(id))
        let body = #"{"id":"\#(id)"}"#
        let again = await server.send("POST", "/tables/TodoItem", body, headers: sent)
        #expect(again.status == 201, "the ledger knows the write: \(again.text)")
        #expect(try machine.audit().contains { $0.id == id })
        let changes = await server.send("GET", link)
        #expect(changes.status == 200, "\(changes.text)")
    }

    @Test(
        "A wall clock that is ten years ahead for three seconds removes nothing",
        arguments: AuditedServer.backends
    )
    func aClockThatIsBrieflyAheadRemovesNothing(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { machine in
            let server = try await machine.start()
            let sent = Self.named("TodoItem-a", machine.wall)
            let link = await Self.link(server)
            await Self.deleteRow("a", server, machine)
            for wrong in [Self.decade, 40 * Self.day] {
                machine.pass(Self.second)
                machine.wall.move(by: wrong)
                try await server.purge()
                machine.pass(Self.second)
                let written = await server.send("POST", "/tables/TodoItem", "{}")
                #expect(written.status == 201)
                try await server.purge()
                machine.pass(Self.second)
                machine.wall.move(by: -wrong)
                try await server.purge()
                try await Self.expectAll("a", sent: sent, link: link, server, machine)
            }
            await server.store.stop()
        }
    }

    @Test(
        "A wall clock that is ahead when the server starts removes nothing",
        arguments: AuditedServer.backends
    )
    func aStartWithAClockAheadRemovesNothing(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { machine in
            var server = try await machine.start()
            let sent = Self.named("TodoItem-a", machine.wall)
            let link = await Self.link(server)
            await Self.deleteRow("a", server, machine)
            await server.store.stop()
            // Each start reads the state that the previous one stored.
            for _ in 0..<3 {
                machine.wall.move(by: Self.decade)
                server = try await machine.start()
                _ = await server.send("POST", "/tables/TodoItem", "{}")
                try await server.purge()
                await server.store.stop()
                machine.wall.move(by: -Self.decade)
                machine.pass(Self.second)
            }
            server = try await machine.start()
            try await server.purge()
            try await Self.expectAll("a", sent: sent, link: link, server, machine)
            await server.store.stop()
        }
    }

    @Test(
        "A wall clock that is wrong at the first start removes nothing later",
        arguments: AuditedServer.backends
    )
    func aWrongFirstStartRemovesNothing(_ onPostgres: Bool) async throws {
        for wrong in [-Self.decade, Self.decade] {
            try await Self.with(onPostgres) { machine in
                machine.wall.move(by: wrong)
                var server = try await machine.start()
                let link = await Self.link(server)
                await Self.deleteRow("a", server, machine)
                try await server.purge()
                await server.store.stop()
                machine.wall.move(by: -wrong)
                machine.pass(Self.second)
                server = try await machine.start()
                let sent = Self.named("TodoItem-b", machine.wall)
                await Self.deleteRow("b", server, machine)
                // For longer than a proof takes, so that the time is trusted again.
                for _ in 0..<8 {
                    machine.pass(600 * Self.second)
                    try await server.purge()
                }
                #expect(await Self.tombstones(server) == ["a", "b"])
                try await Self.expectAll("b", sent: sent, link: link, server, machine)
                await server.store.stop()
            }
        }
    }

    @Test(
        "Data whose timestamps are from a wrong wall clock is removed in time",
        arguments: AuditedServer.backends
    )
    func dataDatedAheadIsRemovedInTime(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { machine in
            let server = try await machine.start()
            machine.wall.move(by: Self.decade)
            await Self.deleteRow("a", server, machine)
            machine.wall.move(by: -Self.decade)
            machine.pass(Self.second)
            let link = await Self.link(server)
            await Self.deleteRow("b", server, machine)
            for _ in 0..<8 {
                machine.pass(600 * Self.second)
                try await server.purge()
            }
            machine.pass(15 * Self.day)
            try await server.purge()
            #expect(await Self.tombstones(server) == ["a", "b"])
            #expect(await server.send("GET", link).status == 200)
            machine.pass(16 * Self.day)
            await Self.deleteRow("c", server, machine)
            try await server.purge()
            #expect(await Self.tombstones(server) == ["c"])
            #expect(await server.send("GET", link).status == 410)
            machine.pass(Self.day)
            try await server.purge()
            let metrics = await server.send("GET", "/metrics").text
            #expect(metrics.contains(#"tideline_purged_total{kind="ledger"} 4"#), "\(metrics)")
            #expect(try machine.audit().count == 6)
            machine.pass(340 * Self.day)
            try await server.purge()
            #expect(try machine.audit().allSatisfy { $0.id == "c" })
            await server.store.stop()
        }
    }

    @Test(
        "A server that was off for a long time removes old rows after an hour",
        arguments: AuditedServer.backends
    )
    func aLongStopIsNotAWrongClock(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { machine in
            var server = try await machine.start()
            machine.pass(3600 * Self.second)
            try await server.purge()
            await Self.deleteRow("a", server, machine)
            await server.store.stop()
            machine.pass(40 * Self.day)
            server = try await machine.start()
            try await server.purge()
            #expect(await Self.tombstones(server) == ["a"])
            machine.pass(3601 * Self.second)
            try await server.purge()
            #expect(await Self.tombstones(server).isEmpty)
            await server.store.stop()
        }
    }

    // MARK: - Reporting and reset

    @Test(
        "A table clock that is ahead of the wall clock is reported and reset",
        arguments: AuditedServer.backends
    )
    func aClockIsReset(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { machine in
            var server = try await machine.start()
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"old"}"#)
            let epoch = await server.send("GET", "/tables/TodoItem").headers["Tideline-Epoch"]
            machine.wall.move(by: Self.decade)
            for id in ["x", "w"] {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
            }
            machine.wall.move(by: -Self.decade)
            machine.pass(Self.second)
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"late"}"#)
            await server.store.stop()
            let lines = Lines()
            server = try await machine.start(log: lines.log)
            #expect(lines.text.contains("ahead of the wall clock"))
            #expect(lines.text.lowercased().contains("todoitem"))
            try await server.purge()
            let metrics = await server.send("GET", "/metrics").text
            let seconds = Self.decade / Self.second
            let name = "tideline_table_clock_ahead_seconds "
            // A second has passed, and a millisecond for each time that the clock was read: whole seconds count.
            #expect(metrics.contains("\n\(name)\(seconds - 2)"))
            await server.store.stop()

            let now = machine.wall.current
            let reset =
                try machine.url.map {
                    try PostgresMaintenance(url: $0).resetClocks(of: nil, now: now)
                }
                ?? DatabaseMaintenance(path: machine.path).resetClocks(of: ["todoitem"], now: now)
            #expect(reset.epoch != nil && reset.epoch != epoch)
            #expect(reset.tables.map(\.table) == ["TodoItem"] && reset.tables.first?.rows == 3)

            machine.pass(Self.second)
            server = try await machine.start()
            let list = await server.send("GET", "/tables/TodoItem?$orderby=updatedAt")
            #expect(list.headers["Tideline-Epoch"] == reset.epoch)
            #expect(list.ids == ["old", "x", "w", "late"])
            let end = Timestamp(microseconds: machine.wall.current).text
            for row in list.rows {
                #expect(row["updatedAt"] as? String ?? "z" < end)
                #expect(row["createdAt"] as? String ?? "z" < end)
            }
            let next = await server.send("POST", "/tables/TodoItem", #"{"id":"next"}"#)
            #expect(
                next.row["updatedAt"] as? String ?? "z"
                    < Timestamp(microseconds: machine.wall.current + Self.second).text
            )
            #expect(
                await server.send("GET", "/tables/TodoItem?$orderby=updatedAt").ids.last == "next"
            )
            await server.store.stop()
            let again =
                try machine.url.map {
                    try PostgresMaintenance(url: $0).resetClocks(of: nil, now: now + Self.day)
                }
                ?? DatabaseMaintenance(path: machine.path).resetClocks(of: nil, now: now + Self.day)
            #expect(again.epoch == nil && again.tables.isEmpty)
        }
    }

    @Test("The command that removes tombstones requires a plausible clock")
    func theCommandChecksTheClock() async throws {
        try await Self.with(false) { machine in
            let server = try await machine.start()
            await Self.deleteRow("a", server, machine)
            await server.store.stop()
            let care = DatabaseMaintenance(path: machine.path)
            let wrong = machine.wall.current + Self.decade
            #expect(throws: DatabaseError.self) {
                try care.purgeTombstones(of: nil, olderThan: 30, now: wrong)
            }
            let removed = try care.purgeTombstones(
                of: ["TodoItem"],
                olderThan: 30,
                now: wrong,
                trustsClock: true
            )
            #expect(removed.map(\.rows) == [1])
        }
    }
}

// ClientKillTests: a device is killed with SIGKILL in the middle of a push and of a pull, repeatedly; and the server is
// killed while a device runs. Afterwards nothing is lost and nothing duplicated.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ClientKillTests {
        private static let killsWanted = 15

        /// Each kill is at another server, if there are two.
        @Test(
            "A push whose process is killed repeatedly sends each operation exactly once",
            arguments: databases,
            RandomSeeds.all
        )
        func pushSurvivesKills(database: String, seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let (servers, place) = try await Self.servers(database, in: workspace)
                let server = servers[0]
                let proxies = try servers.map { try SlowProxy(to: $0.port, .init(seed: seed)) }
                defer { for proxy in proxies { proxy.stop() } }
                let probe = Probe(workspace, server.url)
                var expected = RequestCounts()
                try await probe.run("fill", "400", "first")
                expected.add(try probe.file.queue())
                var (kills, inFlight, round, tries) = (0, 0, 0, 0)
                while kills < Self.killsWanted {
                    let proxy = proxies[tries % proxies.count]
                    tries += 1
                    kills += try await probe.killed(
                        "push",
                        at: proxy,
                        bytes: 1...40_000,
                        using: &random
                    )
                    inFlight += try probe.file.hasOperationInFlight() ? 1 : 0
                    guard try probe.file.queue().isEmpty else { continue }
                    round += 1
                    try await probe.run("edit", "150", "more\(round)-\(seed)")
                    expected.add(try probe.file.queue())
                }
                #expect(inFlight > 0, "no kill met a request under way")
                try await probe.run("push")
                for server in servers { try await expectSame(probe, server) }
                #expect(try RequestCounts(place) == expected)
            }
        }

        @Test(
            "A pull whose process is killed repeatedly ends with the server's rows",
            arguments: databases,
            RandomSeeds.all
        )
        func pullSurvivesKills(database: String, seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let (servers, _) = try await Self.servers(database, in: workspace)
                let server = servers[0]
                let writer = Probe(workspace, server.url, store: "writer.sqlite")
                try await writer.run("fill", "700", "row")
                try await writer.run("push")
                let proxies = try servers.map { try SlowProxy(to: $0.port, .init(seed: seed)) }
                defer { for proxy in proxies { proxy.stop() } }
                var kills = 0
                for round in 0..<3 {
                    let probe = Probe(workspace, server.url, store: "round\(round)")
                    for number in 0..<4 {
                        let proxy = proxies[number % proxies.count]
                        kills += try await probe.killed(
                            "pull",
                            at: proxy,
                            bytes: 1...30_000,
                            using: &random
                        )
                    }
                    try await writer.run("edit", "40", "round\(round)-\(seed)")
                    try await writer.run("push")
                    for proxy in [proxies[0], proxies[proxies.count - 1]] {
                        kills += try await probe.killed(
                            "pull",
                            at: proxy,
                            bytes: 1...10_000,
                            using: &random
                        )
                    }
                    try await probe.run("pull")
                    for server in servers { try await expectSame(probe, server) }
                }
                #expect(kills >= 1, "only \(kills) kills found a pull at work")
            }
        }

        /// The server of a file, or two servers on one PostgreSQL, and where their tables are.
        private static func servers(
            _ database: String,
            in workspace: Workspace
        ) async throws -> (servers: [ServerProcess], place: String) {
            guard database == "two" else {
                let server = try await ServerProcess.start(in: workspace, database: database)
                return ([server], workspace.path(database))
            }
            let url = try PostgresCluster.shared().database()
            var servers: [ServerProcess] = []
            for _ in 0..<2 {
                servers.append(try await ServerProcess.start(in: workspace, database: url))
            }
            return (servers, url)
        }

        /// The backend with the server's tables; with "two" there are two servers on one PostgreSQL.
        static let databases = ["server.db"] + (PostgresCluster.reasonToSkip == nil ? ["two"] : [])

        /// Each kill comes when a random number of bytes has passed between the device and the server.
        @Test(
            "A device syncs completely although the server is killed in each round",
            arguments: databases,
            RandomSeeds.all
        )
        func serverKillsUnderPushAndPull(database: String, seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let hasTwo = database == "two"
                let place = try hasTwo ? PostgresCluster.shared().database() : database
                var server = try await ServerProcess.start(in: workspace, database: place)
                let other =
                    try await hasTwo
                    ? ServerProcess.start(in: workspace, database: place) : nil
                let proxy = try SlowProxy(to: server.port, .init(seed: seed))
                defer { proxy.stop() }
                let path = workspace.path("live.sqlite")
                let device = try await Device(
                    proxy.url,
                    CurlTransport(),
                    try SQLiteStore(path: path)
                )
                var failures = 0
                for round in 0..<8 {
                    for number in 0..<60 {
                        try await device.notes.insert(Note(id: "r\(round)-\(number)", text: "0"))
                        try await device.notes.update(id: "r\(round / 2)-\(number)") {
                            $0.text = "\(round)"
                        }
                    }
                    proxy.after(bytes: 1 + random.below(8000)) { [process = server.process] in
                        process.send(SIGKILL)
                    }
                    failures += try await syncOrFail(device) ? 0 : 1
                    try await server.process.destroy()
                    server = try await server.restart(samePort: true)
                }
                #expect(failures > 0, "no round was cut")
                try await device.sync()
                try await expectAgreement(device)
                #expect(try await device.notes.count() == 480)
                let fresh = try await Device(
                    other?.url ?? server.url,
                    CurlTransport(),
                    try SQLiteStore(path: ":memory:")
                )
                try await fresh.sync()
                try await expectAgreement(fresh)
                try DatabaseFile(path).expectIntact()
            }
        }

        /// False if it ended as expected without a server.
        private func syncOrFail(_ device: Device) async throws -> Bool {
            do {
                try await device.sync()
                return true
            } catch let error as PushError where error.status == .networkFailure {
                return false
            } catch let error as SyncError where error.code == .offline {
                return false
            }
        }

        private func expectSame(_ probe: Probe, _ server: ServerProcess) async throws {
            let file = try probe.file
            try file.expectIntact()
            #expect(try file.queue().isEmpty)
            #expect(try file.integer(#"SELECT count(*) FROM "MS_TableOperationErrors""#) == 0)
            let rows = try await server.wire.allRows("TodoItem")
            let live = rows.filter { $0["deleted"] as? Bool == false }.map { row in
                ["id", "text", "version"].map { row[$0] as? String ?? "?" }
            }
            #expect(Set(live.map { $0[1] }).count == live.count, "a text is there twice")
            let local = try file.rows(#"SELECT "id", "text", "version" FROM "TodoItem""#)
            #expect(Set(local) == Set(live))
            #expect(local.count == live.count)
            #expect(live.count > 100)
        }
    }
}

/// The operations that took effect on the server, or have to.
struct RequestCounts: Equatable {
    var inserts = 0
    var updates: [String: Int] = [:]
    var deletes: [String: Int] = [:]

    init() {}

    /// The requests with idempotency keys that a server's database has executed: each occurs once, under its key.
    ///
    /// - Parameter place: The path of a file or the address of a database.
    /// - Throws: An error if it cannot be read.
    init(_ place: String) throws {
        let ledger = try Self.ledger(place)
        for entry in ledger {
            switch (entry[0], entry[1]) {
            case ("insert", _): inserts += 1
            // No row is kept for a delete.
            case (_, "1"): deletes[entry[2], default: 0] += 1
            default: updates[entry[2], default: 0] += 1
            }
        }
    }

    private static func ledger(_ place: String) throws -> [[String]] {
        guard place.hasPrefix("postgres:") else {
            return try DatabaseFile(place).rows(
                #"SELECT "outcome", coalesce("deleted", 1), "id" FROM "tideline_ledger""#
            )
        }
        let found = try PostgresConnection(PostgresAddress(place)).run(
            """
            SELECT "outcome", coalesce("deleted"::int, 1)::text, "id" FROM tideline.ledger
            """
        )
        return (0..<found.count).map { row in (0..<3).map { found.text(row, $0) } }
    }

    /// Operations, each of which has to take effect once.
    mutating func add(_ queue: [QueueEntry]) {
        for entry in queue {
            switch entry.kind {
            case .insert: inserts += 1
            case .update: updates[entry.itemID, default: 0] += 1
            case .delete: deletes[entry.itemID, default: 0] += 1
            }
        }
    }
}

// ReferenceRaceTests: two servers change parents and children at the same time, and no row is left without its parent.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct ReferenceRaceTests {
    /// Rows that are not deleted and whose parent is deleted or missing.
    private static let orphans = """
        SELECT (SELECT count(*) FROM "Job" AS c WHERE NOT c."deleted" AND c."customerID" IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM "Customer" AS p WHERE p."id" = c."customerID" AND NOT p."deleted"
            ))
        + (SELECT count(*) FROM "Visit" AS c WHERE NOT c."deleted" AND c."jobID" IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM "Job" AS p WHERE p."id" = c."jobID" AND NOT p."deleted"
            ))
        + (SELECT count(*) FROM "Note" AS c WHERE NOT c."deleted" AND c."customerID" IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM "Customer" AS p WHERE p."id" = c."customerID" AND NOT p."deleted"
            ))
        """

    @Test(
        "Concurrent servers leave no orphan",
        arguments: TestScope.first(3, of: Array(1...6)),
        [1000, 2]
    )
    func noOrphans(_ seed: UInt64, _ cascadeRows: Int) async throws {
        let url = try PostgresCluster.shared().database()
        let created = try await Self.servers(url, cascadeRows: cascadeRows)
        let unexpected = try await withThrowingTaskGroup(of: [String].self) { group in
            for number in 0..<6 {
                group.addTask {
                    var dice = SeededGenerator(seed: seed &* 100 &+ UInt64(number))
                    var unexpected: [String] = []
                    for turn in 0..<40 {
                        let server = created[number % 2]
                        let answer = await Self.act(server, number, turn, &dice)
                        let isExpected = [200, 201, 204, 404, 409, 410, 503].contains(answer.status)
                        if !isExpected { unexpected.append("\(answer.status) \(answer.text)") }
                    }
                    return unexpected
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(unexpected.isEmpty)
        let psql = try PostgresConnection(PostgresAddress(url))
        try await until {
            try psql.run("SELECT count(*) FROM tideline.cascades").integer(0, 0) == 0
        }
        #expect(try psql.run(Self.orphans).integer(0, 0) == 0)
        for server in created { await server.store.stop() }
    }

    /// Two servers on one database.
    private static func servers(_ url: String, cascadeRows: Int) async throws -> [TestServer] {
        var limits = ServerLimits()
        limits.cascadeRows = cascadeRows
        var servers: [TestServer] = []
        for _ in 0..<2 {
            servers.append(
                try await TestServer(
                    FieldService.tables(),
                    onPostgres: true,
                    database: url,
                    limits: limits
                )
            )
        }
        return servers
    }

    /// Sends a random write on a few parents, on which all tasks meet.
    private static func act(
        _ server: TestServer,
        _ number: Int,
        _ turn: Int,
        _ dice: inout SeededGenerator
    ) async -> ServerResponse {
        let customer = "c\(Int.random(in: 0..<3, using: &dice))"
        let job = "j\(Int.random(in: 0..<6, using: &dice))"
        let id = "\(number)-\(turn)"
        let restore = #"{"deleted":false}"#
        switch Int.random(in: 0..<10, using: &dice) {
        case 0: return await server.send("DELETE", "/tables/Customer/\(customer)")
        case 1: return await server.send("DELETE", "/tables/Job/\(job)")
        case 2:
            return await server.send("POST", "/tables/Customer", FieldService.json(customer, [:]))
        case 3: return await server.send("PATCH", "/tables/Customer/\(customer)", restore)
        case 4: return await server.send("PATCH", "/tables/Job/\(job)", restore)
        case 5:
            let body = FieldService.json(job, ["customerID": customer])
            return await server.send("POST", "/tables/Job", body)
        case 6:
            let body = FieldService.json(nil, ["customerID": customer])
            return await server.send("PATCH", "/tables/Job/\(job)", body)
        case 7:
            let body = FieldService.json(id, ["customerID": customer])
            return await server.send("POST", "/tables/Note", body)
        default:
            let body = FieldService.json(id, ["jobID": job])
            return await server.send("POST", "/tables/Visit", body)
        }
    }

    /// The order in which requests were sent and answered.
    private final class Journal: Sendable {
        let entries = Mutex(Entries())
    }

    private struct Entries: Sendable {
        private var now = 0
        /// The accepted inserts, with the time before the request.
        var invoices: [String] = []
        var visits: [(id: String, customer: String, sent: Int)] = []
        /// The times after the answers to accepted deletes of customers.
        var deletes: [String: Int] = [:]

        mutating func tick() -> Int {
            now += 1
            return now
        }
    }

    @Test(
        "A large delete on another server does not undo an insert that was accepted after it",
        arguments: TestScope.first(2, of: Array(1...4))
    )
    func acceptedRowsStay(_ seed: UInt64) async throws {
        let url = try PostgresCluster.shared().database()
        let servers = try await Self.servers(url, cascadeRows: 2)
        let journal = Journal()
        for round in 0..<Self.rounds {
            let customer = "c\(round)"
            var parts = [
                BatchPart("0", "POST", "/tables/Customer", FieldService.json(customer, [:]))
            ]
            for number in 1...Self.jobs {
                let job = FieldService.json("\(customer)-\(number)", ["customerID": customer])
                parts.append(BatchPart("\(number)", "POST", "/tables/Job", job))
            }
            #expect(await servers[0].batch(parts).partStatuses.allSatisfy { $0 == 201 })
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    var dice = SeededGenerator(seed: seed &* 10_000 &+ UInt64(round))
                    // The other tasks send a few writes before, so that the requests meet in different places.
                    for _ in 0..<Int.random(in: 0..<4, using: &dice) {
                        _ = await servers[0].send("GET", "/tables/Customer/\(customer)")
                    }
                    let answer = await servers[0].send("DELETE", "/tables/Customer/\(customer)")
                    guard answer.status == 204 else {
                        return Self.expectRejection(answer, "rowIsReferenced")
                    }
                    journal.entries.withLock { $0.deletes[customer] = $0.tick() }
                }
                for number in 1...Self.writers {
                    group.addTask {
                        var dice = SeededGenerator(
                            seed: seed &* 10_000 &+ UInt64(round * 100 + number)
                        )
                        await Self.insert(customer, number, servers[1], journal, &dice)
                    }
                }
            }
        }
        let psql = try PostgresConnection(PostgresAddress(url))
        try await until {
            try psql.run("SELECT count(*) FROM tideline.cascades").integer(0, 0) == 0
        }
        func ids(_ table: String) throws -> Set<String> {
            let found = try psql.run("SELECT \"id\" FROM \"\(table)\" WHERE NOT \"deleted\"")
            return Set((0..<found.count).map { found.text($0, 0) })
        }
        let (invoices, visits) = (try ids("Invoice"), try ids("Visit"))
        let end = journal.entries.withLock { $0 }
        // No request deletes an invoice, and one prevents the delete of its customer.
        #expect(end.invoices.filter { !invoices.contains($0) } == [])
        let undone = end.visits.filter { visit in
            !visits.contains(visit.id) && (end.deletes[visit.customer] ?? 0) < visit.sent
        }
        #expect(undone.map(\.id) == [])
        #expect(try psql.run(Self.orphans).integer(0, 0) == 0)
        // Both outcomes have occurred.
        #expect(!end.deletes.isEmpty && end.deletes.count < Self.rounds)
        for server in servers { await server.store.stop() }
    }

    @Test("An insert waits for a large delete on another server that has checked the restrictions")
    func insertDuringALargeDelete() async throws {
        let url = try PostgresCluster.shared().database()
        let psql = try PostgresConnection(PostgresAddress(url))
        let servers = try await Self.servers(url, cascadeRows: 2)
        let (one, two) = (servers[0], servers[1])
        var parts = [BatchPart("c", "POST", "/tables/Customer", FieldService.json("c", [:]))]
        for job in ["j1", "j2", "j3", "j4", "j5"] {
            let body = FieldService.json(job, ["customerID": "c"])
            parts.append(BatchPart(job, "POST", "/tables/Job", body))
        }
        #expect(await one.batch(parts).partStatuses.allSatisfy { $0 == 201 })
        // The delete has checked the restrictions when it stores that the jobs are pending.
        try psql.execute("BEGIN; LOCK TABLE tideline.cascades IN SHARE MODE")
        async let deleted = one.send("DELETE", "/tables/Customer/c")
        try await until { try Self.isWaiting(for: "relation", psql) }
        // It has not locked this job.
        let invoice = FieldService.json("i", ["jobID": "j5"])
        let isAnswered = Flag()
        async let inserted = {
            let answer = await two.send("POST", "/tables/Invoice", invoice)
            isAnswered.set()
            return answer
        }()
        try await until { try isAnswered.isSet || Self.isWaiting(for: "advisory", psql) }
        try psql.execute("COMMIT")
        #expect(await deleted.status == 204)
        #expect(await inserted.code == "parentNotFound")
        try await until {
            try psql.run("SELECT count(*) FROM tideline.cascades").integer(0, 0) == 0
        }
        #expect(await two.send("GET", "/tables/Job").ids.isEmpty)
        for server in servers { await server.store.stop() }
    }

    private static func isWaiting(for kind: String, _ psql: PostgresConnection) throws -> Bool {
        try psql.run(
            """
            SELECT count(*) FROM pg_locks WHERE NOT "granted" AND "locktype" = $1
            AND "database" = (SELECT "oid" FROM pg_database WHERE "datname" = current_database())
            """,
            [.text(kind)]
        ).integer(0, 0) > 0
    }

    /// Expects a rejection because of a reference, or because another transaction holds a lock.
    private static func expectRejection(_ answer: ServerResponse, _ code: String) {
        if answer.status == 503 {
            #expect(answer.headers["Retry-After"] != nil, "\(answer.text)")
        } else {
            #expect(answer.status == 409 && answer.code == code, "\(answer.text)")
        }
    }

    private static let rounds = 40
    private static let jobs = 12
    private static let writers = 3

    /// Inserts some visits, and then perhaps an invoice, of random jobs of a customer.
    private static func insert(
        _ customer: String,
        _ number: Int,
        _ server: TestServer,
        _ journal: Journal,
        _ dice: inout SeededGenerator
    ) async {
        let isPaid = Int.random(in: 0..<3, using: &dice) == 0
        for turn in 0..<Int.random(in: 1..<5, using: &dice) {
            let job = "\(customer)-\(Int.random(in: 1...jobs, using: &dice))"
            let id = "\(job)-\(number)-\(turn)"
            let isInvoice = isPaid && turn > 0
            let sent = journal.entries.withLock { $0.tick() }
            let answer = await server.send(
                "POST",
                isInvoice ? "/tables/Invoice" : "/tables/Visit",
                FieldService.json(id, ["jobID": job])
            )
            guard answer.status == 201 else {
                expectRejection(answer, "parentNotFound")
                continue
            }
            journal.entries.withLock { entries in
                if isInvoice {
                    entries.invoices.append(id)
                } else {
                    entries.visits.append((id, customer, sent))
                }
            }
        }
    }
}

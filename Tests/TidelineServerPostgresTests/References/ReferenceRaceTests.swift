// ReferenceRaceTests: two servers change parents and children at the same time, and no row is left without its parent.

import Foundation
import ServerTestSupport
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
        "no server leaves an orphan",
        arguments: TestScope.first(3, of: Array(1...12)),
        [1000, 2]
    )
    func noOrphans(_ seed: UInt64, _ cascadeRows: Int) async throws {
        let url = try PostgresCluster.shared().database()
        var limits = ServerLimits()
        limits.cascadeRows = cascadeRows
        var doors: [Door] = []
        for _ in 0..<2 {
            doors.append(
                try await Door(
                    FieldService.tables(),
                    onPostgres: true,
                    database: url,
                    limits: limits
                )
            )
        }
        let made = doors
        let unexpected = try await withThrowingTaskGroup(of: [String].self) { group in
            for number in 0..<6 {
                group.addTask {
                    var dice = SeededGenerator(seed: seed &* 100 &+ UInt64(number))
                    var unexpected: [String] = []
                    for turn in 0..<40 {
                        let door = made[number % 2]
                        let answer = await Self.act(door, number, turn, &dice)
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
        for door in doors { await door.store.stop() }
    }

    /// Sends a random write on a few parents, on which all tasks meet.
    private static func act(
        _ door: Door,
        _ number: Int,
        _ turn: Int,
        _ dice: inout SeededGenerator
    ) async -> ServerResponse {
        let customer = "c\(Int.random(in: 0..<3, using: &dice))"
        let job = "j\(Int.random(in: 0..<6, using: &dice))"
        let id = "\(number)-\(turn)"
        let restore = #"{"deleted":false}"#
        switch Int.random(in: 0..<10, using: &dice) {
        case 0: return await door.send("DELETE", "/tables/Customer/\(customer)")
        case 1: return await door.send("DELETE", "/tables/Job/\(job)")
        case 2: return await door.send("POST", "/tables/Customer", FieldService.json(customer, [:]))
        case 3: return await door.send("PATCH", "/tables/Customer/\(customer)", restore)
        case 4: return await door.send("PATCH", "/tables/Job/\(job)", restore)
        case 5:
            let body = FieldService.json(job, ["customerID": customer])
            return await door.send("POST", "/tables/Job", body)
        case 6:
            let body = FieldService.json(nil, ["customerID": customer])
            return await door.send("PATCH", "/tables/Job/\(job)", body)
        case 7:
            let body = FieldService.json(id, ["customerID": customer])
            return await door.send("POST", "/tables/Note", body)
        default:
            let body = FieldService.json(id, ["jobID": job])
            return await door.send("POST", "/tables/Visit", body)
        }
    }
}

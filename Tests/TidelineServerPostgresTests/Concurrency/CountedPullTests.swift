// Goal: a classic client that continues by counting the rows of a millisecond misses none, while rows that it has
// counted leave that millisecond at another server or through an external writer. Method: all rows are in one
// millisecond; after each page another row that was already read changes.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

// TidelineTestSupport has a device, too.
import struct ServerTestSupport.Device

@Suite(
    .slow,
    .serialized,
    .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing")
)
struct CountedPullTests {
    /// An operation that moves a row out of its millisecond.
    enum Move: String, CaseIterable, Sendable {
        case patchedByTheOther
        case deletedByTheOther
        case updatedByPsql
        case deletedByPsql
    }

    private static let counting: [Device.Algorithm] = [.iOS, .dotNet, .javaScript, .android]
    private static let rows = 14
    private static let moves = 6

    private static func id(_ number: Int) -> String { "r\(number < 10 ? "0" : "")\(number)" }

    /// A device that has paged through the table of one server while rows changed, and the table.
    private static func pull(
        _ algorithm: Device.Algorithm,
        _ move: Move,
        forgetting isForgotten: Bool = false
    ) async throws -> (device: [String: String], table: [String: String]) {
        let url = try PostgresCluster.shared().database()
        let clock = TestClock(step: 0)
        let paged = try await TestServer(onPostgres: true, database: url, clock: clock)
        let other = try await TestServer(onPostgres: true, database: url, clock: clock)
        let psql = try PostgresConnection(PostgresAddress(url))
        for number in 0..<rows {
            let answer = await paged.send("POST", "/tables/TodoItem", #"{"id":"\#(id(number))"}"#)
            try #require(answer.status == 201, "\(answer.text)")
        }
        let times = try psql.run("SELECT count(DISTINCT \"version\" / 1000) FROM \"TodoItem\"")
        try #require(times.integer(0, 0) == 1)
        let pages = Mutex(0)
        var device = Device(algorithm, paged, size: 3)
        try await device.pull {
            let page = pages.withLock { pages in
                pages += 1
                return pages
            }
            // The first pages may be read twice: the changed rows were on the first one.
            guard page > 1, page <= moves + 1 else { return }
            let target = "/tables/TodoItem/" + id(page - 2)
            switch move {
            case .patchedByTheOther:
                #expect(await other.send("PATCH", target, #"{"text":"moved"}"#).status == 200)
            case .deletedByTheOther:
                #expect(await other.send("DELETE", target).status == 204)
            case .updatedByPsql:
                writeExternally("UPDATE \"TodoItem\" SET \"text\" = 'moved'", page - 2, url)
            case .deletedByPsql: writeExternally("DELETE FROM \"TodoItem\"", page - 2, url)
            }
            if isForgotten { writeExternally("DELETE FROM tideline.departures", nil, url) }
        }
        #expect(pages.withLock { $0 } > moves)
        try await device.pull()
        let found = try psql.run(
            "SELECT \"id\", \"version\" FROM \"TodoItem\" WHERE NOT \"deleted\""
        )
        var table: [String: String] = [:]
        for row in 0..<found.count {
            table[found.text(row, 0)] = RowVersion.text(found.integer(row, 1))
        }
        return (device.rows, table)
    }

    private static func writeExternally(_ script: String, _ number: Int?, _ url: String) {
        #expect(throws: Never.self) {
            let condition = number.map { " WHERE \"id\" = '\(id($0))'" } ?? ""
            try PostgresConnection(PostgresAddress(url)).execute(script + condition)
        }
    }

    @Test(
        "No row is missed when rows leave the pages of a pull",
        arguments: counting,
        Move.allCases
    )
    func noRowIsMissed(algorithm: Device.Algorithm, move: Move) async throws {
        let (device, table) = try await Self.pull(algorithm, move)
        #expect(device == table)
        let isDelete = move == .deletedByTheOther || move == .deletedByPsql
        #expect(table.count == (isDelete ? Self.rows - Self.moves : Self.rows))
    }

    /// The .NET client follows links, which name a row.
    @Test(
        "Rows are missed if departed rows are not counted",
        arguments: counting.filter { $0 != .dotNet }
    )
    func withoutTheCountRowsAreMissed(algorithm: Device.Algorithm) async throws {
        let (device, table) = try await Self.pull(algorithm, .updatedByPsql, forgetting: true)
        #expect(Set(table.keys).subtracting(device.keys).count > 0)
    }
}

// InstantRuleTests: bounds of instants and of days are checked on both sides, with the same code and words.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

/// A record with bounds of instants and of days.
struct Season: SyncRecord, Hashable {
    var id = ""
    var start: Date?
    var end: Date?
    var day = Season.firstDay
    var last: LocalDate?
    var updatedAt: Date?

    /// The beginning of 2026, and that of its last day.
    static let opening = Date(timeIntervalSince1970: 1_767_225_600)
    static let closing = Date(timeIntervalSince1970: 1_798_675_200)
    static let firstDay = LocalDate(opening, in: .gmt)
    static let finalDay = LocalDate(closing, in: .gmt)

    static let rules: [Rule<Season>] = [
        .range(\.start, opening...closing), .min(\.end, opening),
        .range(\.day, firstDay...finalDay), .max(\.last, finalDay),
    ]
}

/// A value out of its bounds.
struct BoundCase: Sendable, CustomTestStringConvertible {
    let code: RuleViolation.Code
    let column: String
    let message: String
    let change: @Sendable (inout Season) -> Void

    var testDescription: String { message }

    private init(
        _ code: RuleViolation.Code,
        _ column: String,
        _ message: String,
        _ change: @escaping @Sendable (inout Season) -> Void
    ) {
        (self.code, self.column, self.message, self.change) = (code, column, message, change)
    }

    static let all: [BoundCase] = [
        BoundCase(
            .min,
            "start",
            "Member 'start': at least \"2026-01-01T00:00:00.000Z\" is expected."
        ) { $0.start = Season.opening.addingTimeInterval(-1) },
        BoundCase(
            .max,
            "start",
            "Member 'start': at most \"2026-12-31T00:00:00.000Z\" is expected."
        ) { $0.start = Season.closing.addingTimeInterval(1) },
        BoundCase(
            .min,
            "end",
            "Member 'end': at least \"2026-01-01T00:00:00.000Z\" is expected."
        ) { $0.end = Season.opening.addingTimeInterval(-86_400) },
        BoundCase(.min, "day", "Member 'day': at least \"2026-01-01\" is expected.") {
            $0.day = LocalDate(Season.opening.addingTimeInterval(-86_400), in: .gmt)
        },
        BoundCase(.max, "day", "Member 'day': at most \"2026-12-31\" is expected.") {
            $0.day = LocalDate(Season.closing.addingTimeInterval(86_400), in: .gmt)
        },
        BoundCase(.max, "last", "Member 'last': at most \"2026-12-31\" is expected.") {
            $0.last = LocalDate(Season.closing.addingTimeInterval(86_400), in: .gmt)
        },
    ]
}

@Suite struct InstantRuleTests {
    private func server() async throws -> InProcessServer {
        let schema = try RecordSchema.of(Season.self).table
        return try await InProcessServer(tables: [
            TableDefinition("Season", columns: schema.columns, rules: schema.rules)
        ])
    }

    /// A device that knows the columns and no rules.
    private func careless(_ transport: any Transport) async throws -> Device {
        var schema = try RecordSchema.of(Season.self).table
        for place in schema.columns.indices { schema.columns[place].rules = ColumnRules() }
        return try await Device(transport, tables: [], schemas: [schema])
    }

    @Test(
        "Device and server reject an instant or a day out of bounds with the same code and words",
        arguments: BoundCase.all
    )
    func outOfBounds(_ bound: BoundCase) async throws {
        var season = Season(id: "a")
        bound.change(&season)
        let record = season
        let server = try await server()
        let device = try await Device(server.transport, tables: [Season.self])
        let seasons = try device.client.syncTable(Season.self)
        let error = await #expect(throws: SyncError.self) { try await seasons.insert(record) }
        let expected = BrokenRule(table: "Season", columns: [bound.column], code: bound.code)
        #expect(error?.code == .ruleBroken)
        #expect(error?.message == bound.message)
        #expect(error?.brokenRule == expected)
        #expect(try await device.queue() == [])

        let careless = try await careless(server.transport)
        try await careless.client.syncTable(named: "Season").insert(try Row(record))
        #expect(try await careless.push()?.status == .operationErrors)
        let refusal = try #require(try await careless.context.operationErrors().first)
        #expect(refusal.brokenRule == expected)
        #expect(refusal.message.hasSuffix(": " + bound.message))
    }

    @Test("Instants and days at their bounds are accepted on both sides") func bounds() async throws
    {
        let server = try await server()
        let device = try await Device(server.transport, tables: [Season.self])
        let seasons = try device.client.syncTable(Season.self)
        try await seasons.insert([
            Season(id: "a", start: Season.opening, end: Season.opening, last: Season.finalDay),
            Season(id: "b", start: Season.closing, day: Season.finalDay),
        ])
        #expect(try await device.push() == nil)
        try await seasons.update(id: "a") { $0.day = Season.finalDay }
        #expect(try await device.push() == nil)
    }
}

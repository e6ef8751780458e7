// RuleScene: a model with every kind of rule, and a server that has the same rules.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

/// A record with every kind of rule.
struct Inspection: SyncRecord, Hashable {
    enum Step: String, Codable, Sendable, CaseIterable {
        case planned, open, done
    }

    var id = ""
    var number = ""
    var title = "Check"
    var minutes = 10
    var rank: Int?
    var price = Decimal(5)
    var rate: Double?
    var start: Date?
    var end: Date?
    var day = LocalDate(Date(timeIntervalSince1970: 1_800_000_000), in: .gmt)
    var time = LocalTime("08:00") ?? .midnight
    var photo = Data([1])
    var from = Step.planned
    var to = Step.done
    var place: String?
    var updatedAt: Date?

    static let rules: [Rule<Inspection>] = [
        .required(\.title), .maxLength(\.title, 8), .pattern(\.title, "[^<]*"),
        .range(\.minutes, 0...1440), .min(\.rank, 1), .max(\.rank, 5),
        .range(\.price, 0...Decimal(99.5)), .max(\.rate, 0.5),
        .min(\.time, LocalTime("07:00") ?? .midnight), .maxLength(\.photo, 2), .required(\.photo),
        .compare(\.start, .lessOrEqual, \.end), .compare(\.from, .less, \.to),
        .required(\.place), .unique(\.number),
    ]

    /// A record that fulfills all rules.
    static func valid(_ id: String = "a") -> Inspection {
        Inspection(id: id, number: id, place: "Kiel")
    }
}

enum RuleScene {
    /// The server's table: the columns and rules of the model, and enums as the server has them.
    static func table() throws -> TableDefinition {
        var schema = try RecordSchema.of(Inspection.self).table
        schema.rules.members = [:]
        for place in schema.columns.indices
        where ["from", "to"].contains(schema.columns[place].name) {
            schema.columns[place].type = .enumeration(Inspection.Step.allCases.map(\.rawValue))
            schema.columns[place].isNullable = false
        }
        return TableDefinition("Inspection", columns: schema.columns, rules: schema.rules)
    }

    static func server() async throws -> InProcessServer {
        try await InProcessServer(tables: [table()])
    }

    /// A device that knows the columns and no rules.
    static func careless(_ transport: any Transport) async throws -> Device {
        var schema = try RecordSchema.of(Inspection.self).table
        schema.rules = TableRules()
        for place in schema.columns.indices { schema.columns[place].rules = ColumnRules() }
        return try await Device(transport, tables: [], schemas: [schema])
    }

    static func device(_ transport: any Transport) async throws -> Device {
        try await Device(transport, tables: [Inspection.self])
    }
}

/// A row that breaks one rule.
struct RuleCase: Sendable, CustomTestStringConvertible {
    let code: RuleViolation.Code
    let columns: [String]
    let message: String
    let change: @Sendable (inout Inspection) -> Void

    var testDescription: String { message }

    init(
        _ code: RuleViolation.Code,
        _ columns: [String],
        _ message: String,
        _ change: @escaping @Sendable (inout Inspection) -> Void
    ) {
        (self.code, self.columns, self.message, self.change) = (code, columns, message, change)
    }

    private static func instant(_ seconds: Double) -> Date {
        Date(timeIntervalSince1970: 1_800_000_000 + seconds)
    }

    static let all: [RuleCase] = [
        RuleCase(.required, ["title"], "Member 'title': a value is expected.") { $0.title = "" },
        RuleCase(.required, ["place"], "Member 'place': a value is expected.") { $0.place = nil },
        RuleCase(.required, ["photo"], "Member 'photo': a value is expected.") {
            $0.photo = Data()
        },
        RuleCase(.maxLength, ["title"], "Member 'title': at most 8 characters are allowed.") {
            $0.title = "123456789"
        },
        RuleCase(.maxLength, ["title"], "Member 'title': at most 8 characters are allowed.") {
            // Four emoji of two scalars and one letter.
            $0.title = "👍🏽👍🏽👍🏽👍🏽a"
        },
        RuleCase(.maxLength, ["photo"], "Member 'photo': at most 2 bytes are allowed.") {
            $0.photo = Data([1, 2, 3])
        },
        RuleCase(
            .pattern,
            ["title"],
            "Member 'title': it does not match the pattern of the column."
        ) { $0.title = "a<b" },
        RuleCase(.min, ["minutes"], "Member 'minutes': at least 0 is expected.") {
            $0.minutes = -1
        },
        RuleCase(.max, ["minutes"], "Member 'minutes': at most 1440 is expected.") {
            $0.minutes = 1441
        },
        RuleCase(.min, ["rank"], "Member 'rank': at least 1 is expected.") { $0.rank = 0 },
        RuleCase(.max, ["rank"], "Member 'rank': at most 5 is expected.") { $0.rank = 6 },
        RuleCase(.min, ["price"], "Member 'price': at least 0 is expected.") {
            $0.price = Decimal(string: "-0.01") ?? 0
        },
        RuleCase(.max, ["price"], "Member 'price': at most 99.5 is expected.") {
            $0.price = Decimal(string: "99.51") ?? 0
        },
        RuleCase(.max, ["rate"], "Member 'rate': at most 0.5 is expected.") { $0.rate = 0.75 },
        RuleCase(.min, ["time"], "Member 'time': at least \"07:00:00.000\" is expected.") {
            $0.time = LocalTime("06:59:59.999") ?? .midnight
        },
        RuleCase(
            .comparison,
            ["start", "end"],
            "Member 'start': the value must not be greater than that of 'end'."
        ) {
            $0.start = instant(2)
            $0.end = instant(1)
        },
        RuleCase(
            .comparison,
            ["from", "to"],
            "Member 'from': the value must be less than that of 'to'."
        ) {
            // By their position, not by their texts.
            $0.from = .done
            $0.to = .open
        },
    ]

    static let kept: [@Sendable (inout Inspection) -> Void] = [
        { $0.title = "12345678" }, { $0.minutes = 0 }, { $0.minutes = 1440 }, { $0.rank = nil },
        { $0.price = Decimal(string: "99.50") ?? 0 }, { $0.rate = 0.5 },
        { $0.end = instant(1) },
        {
            $0.start = instant(1)
            $0.end = instant(1.0001)
        },
        {
            $0.from = .planned
            $0.to = .open
        },
    ]
}

// WritePlannerTests: a rejection is an outcome that changes nothing, and is never thrown.

import Foundation
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct WritePlannerTests {
    private static let table = Table(
        TableDefinition(
            "TodoItem",
            columns: [
                ColumnDefinition("text", .string),
                ColumnDefinition("note", .string, rules: ColumnRules(maxLength: 3)),
            ]
        )
    )

    private static let stored = RowImage(
        id: "a",
        values: [.text("mine"), .null],
        createdAt: 1000,
        updatedAt: 2000,
        version: 2000,
        isDeleted: false
    )

    private static func condition(_ text: String) throws -> QueryExpression {
        try FilterChecker(schema: table.definition.schema, now: Date(timeIntervalSince1970: 0))
            .filter(try ODataParser.filter(text, dialect: .v4))
    }

    /// A write, and the state that it finds.
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var kind = WriteOperation.Kind.merge
        /// The row exists and is visible, unless this says otherwise.
        var isThere = true
        var isDeleted = false
        var view: String?
        var text: String?
        var patch: String?
        var change: @Sendable (inout WriteOperation) -> Void = { _ in }
        var decision: WriteDecision
        var status: Int?
        /// Whether the response contains the row.
        var tellsRow = false
    }

    private static let cases = [
        Case(testDescription: "no row", isThere: false, decision: .missing),
        Case(testDescription: "a row of others", view: "text eq 'theirs'", decision: .missing),
        Case(testDescription: "a tombstone", isDeleted: true, decision: .gone),
        Case(testDescription: "an id twice", kind: .insert, decision: .exists, tellsRow: true),
        Case(
            testDescription: "an id of others",
            kind: .insert,
            view: "text eq 'theirs'",
            decision: .taken
        ),
        Case(
            testDescription: "a claim",
            change: { $0.claimedVersion = "another" },
            decision: .systemChange
        ),
        Case(
            testDescription: "a condition",
            change: { $0.conditions.ifMatch = .strong(["another"]) },
            decision: .preconditionFailed,
            tellsRow: true
        ),
        Case(
            testDescription: "a version in the body",
            change: { $0.expectedVersion = "another" },
            decision: .versionMismatch,
            tellsRow: true
        ),
        Case(
            testDescription: "another basis",
            change: { $0.basis = .version(1) },
            decision: .outdated
        ),
        Case(
            testDescription: "a test of a patch",
            patch: #"[{"op":"test","path":"/text","value":"theirs"}]"#,
            decision: .testFailed,
            tellsRow: true
        ),
        Case(
            testDescription: "a patch that makes what the column cannot hold",
            patch: #"[{"op":"copy","from":"/text","path":"/note"}]"#,
            decision: .rejected,
            status: 400
        ),
        Case(
            testDescription: "a change out of the view",
            view: "text eq 'mine'",
            text: "theirs",
            change: { $0.staysInView = true },
            decision: .rejected,
            status: 403
        ),
        Case(
            testDescription: "a row outside of the view",
            kind: .insert,
            isThere: false,
            view: "text eq 'mine'",
            text: "theirs",
            change: { $0.staysInView = true },
            decision: .rejected,
            status: 403
        ),
        Case(
            testDescription: "a row that becomes too large",
            text: String(repeating: "x", count: 70_000),
            decision: .rejected,
            status: 413
        ),
    ]

    @Test("A rejected write has an outcome with its status and changes no row", arguments: cases)
    func rejectionsAreOutcomes(_ example: Case) throws {
        var operation = WriteOperation(example.kind, id: "a")
        operation.values = [example.text.map { .text($0) }, nil]
        operation.view = try example.view.map(Self.condition)
        operation.patch = try example.patch.map {
            try JSONPatch(Array($0.utf8), for: Self.table, stepsMax: 10)
        }
        example.change(&operation)
        var stored = Self.stored
        stored.isDeleted = example.isDeleted
        var limits = ServerLimits()
        limits.rowBytes = 1000
        let step = WritePlanner(Self.table, limits: limits).plan(
            operation,
            on: example.isThere ? stored : nil,
            timestamp: 3000
        )
        guard case .plan(let plan) = step else {
            Issue.record("nothing is to be read for it")
            return
        }
        guard case .nothing = plan.change else {
            Issue.record("it changes the row")
            return
        }
        #expect(plan.outcome.decision == example.decision)
        #expect(plan.outcome.rejection?.status == example.status)
        #expect((plan.outcome.row != nil) == example.tellsRow)
        #expect(!plan.outcome.changesRow)
    }
}

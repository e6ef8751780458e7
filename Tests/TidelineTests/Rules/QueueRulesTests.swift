// QueueRules: each last operation, in each state, under each change.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct QueueRulesTests {
    private typealias Effect = QueueRules.Effect

    /// A last operation, and the effects of insert, update and delete after it.
    struct Line: Sendable, CustomTestStringConvertible {
        var last: OperationKind?
        var states: [QueuedOperation.State]
        /// Whether the row exists, which depends on the last operation; nil: both.
        var rowExists: Bool
        var insert: QueueRules.Effect
        var update: QueueRules.Effect
        var delete: QueueRules.Effect

        var testDescription: String { "\(last.map { "\($0)" } ?? "none") \(states) \(rowExists)" }
    }

    static let lines: [Line] = [
        Line(
            last: nil,
            states: [.pending],
            rowExists: false,
            insert: .append(.insert),
            update: .notFound,
            delete: .nothing
        ),
        Line(
            last: nil,
            states: [.pending],
            rowExists: true,
            insert: .alreadyExists,
            update: .append(.update),
            delete: .append(.delete)
        ),
        Line(
            last: .insert,
            states: [.pending, .parked],
            rowExists: true,
            insert: .alreadyExists,
            update: .collapse(into: .insert),
            delete: .remove
        ),
        Line(
            last: .update,
            states: [.pending, .parked],
            rowExists: true,
            insert: .alreadyExists,
            update: .collapse(into: .update),
            delete: .collapse(into: .delete)
        ),
        Line(
            last: .delete,
            states: [.pending, .parked],
            rowExists: false,
            insert: .replaceDeleted,
            update: .notFound,
            delete: .nothing
        ),
        Line(
            last: .insert,
            states: [.attempted],
            rowExists: true,
            insert: .alreadyExists,
            update: .append(.update),
            delete: .append(.delete)
        ),
        Line(
            last: .update,
            states: [.attempted],
            rowExists: true,
            insert: .alreadyExists,
            update: .append(.update),
            delete: .append(.delete)
        ),
        Line(
            last: .delete,
            states: [.attempted],
            rowExists: false,
            insert: .append(.insert),
            update: .notFound,
            delete: .nothing
        ),
    ]

    @Test("Each change has its effect on the last operation of its row", arguments: lines)
    func changesHaveTheirEffects(line: Line) {
        for state in line.states {
            let last = line.last.map {
                QueuedOperation(id: 1, table: "Todo", itemID: "a", kind: $0, state: state)
            }
            let changes: [(QueueRules.Change, QueueRules.Effect)] = [
                (.insert, line.insert), (.update, line.update), (.delete, line.delete),
            ]
            for (change, expected) in changes {
                let effect = QueueRules.effect(of: change, rowExists: line.rowExists, last: last)
                #expect(effect == expected, "\(change) behind \(state)")
            }
        }
    }

    /// The result of a rejected operation and the following one; nil: no operation is left.
    static let merges: [(OperationKind, OperationKind, OperationKind?, Bool)] = [
        (.insert, .update, .insert, false),
        (.insert, .delete, nil, false),
        (.update, .update, .update, false),
        (.update, .delete, .delete, false),
        (.delete, .insert, .update, true),
    ]

    @Test("A rejected operation is merged with a later operation of its row", arguments: merges)
    func rejectedOperationsCollapse(
        rejected: OperationKind,
        later: OperationKind,
        expected: OperationKind?,
        isWhole: Bool
    ) {
        let one = operation(rejected, id: 4, .attempted)
        let result = QueueRules.merge(rejected: one, behind: operation(later, id: 9, .pending))
        #expect(result?.kind == expected)
        guard let result else { return }
        #expect(result.id == 4)
        #expect(result.state == .pending)
        #expect(result.frozen == nil)
        #expect(result.sendsWholeRow == isWhole)
    }

    /// The server may have deleted the row, even if its values are the old ones.
    @Test("A row that was deleted and inserted again behind an update is sent as a whole")
    func aReplacedRowBehindAnUpdateIsSentAsAWhole() {
        var update = operation(.update, id: 4, .parked)
        update.edit = ["text": "edited", "rank": 3]
        var replaced = operation(.update, id: 9, .pending)
        replaced.sendsWholeRow = true
        replaced.edit = ["text": "new"]
        let merged = QueueRules.merge(rejected: update, behind: replaced)
        #expect(merged?.kind == .update)
        #expect(merged?.sendsWholeRow == true)
        #expect(merged?.edit == ["text": "new"])
    }

    @Test("A delete of an insert with unknown outcome stays in the queue")
    func aDeleteAfterAnUnknownInsertIsKept() {
        for state in [QueuedOperation.State.pending, .parked] {
            var insert = operation(.insert, id: 4, state)
            insert.outcomeUnknown = true
            let effect = QueueRules.effect(of: .delete, rowExists: true, last: insert)
            #expect(effect == .collapse(into: .delete))
            let delete = operation(.delete, id: 9, .pending)
            let merged = QueueRules.merge(rejected: insert, behind: delete)
            #expect(merged?.kind == .delete)
            #expect(merged?.outcomeUnknown == true)
        }
    }

    @Test("Unfreezing an operation with unknown outcome preserves the row that was sent")
    func unfreezingKeepsTheUnknownOutcome() {
        var known = operation(.update, id: 4, .attempted)
        known.thaw()
        #expect(known.unknownSent == nil)
        var unknown = operation(.update, id: 4, .attempted)
        unknown.outcomeUnknown = true
        unknown.thaw()
        #expect(unknown.unknownSent == sampleRequest?.sentRow)
        #expect(unknown.outcomeUnknown)
        unknown.resetAttempts()
        #expect(!unknown.outcomeUnknown && unknown.unknownSent == nil)
    }

    private func operation(
        _ kind: OperationKind,
        id: Int64,
        _ state: QueuedOperation.State
    ) -> QueuedOperation {
        var result = QueuedOperation(id: id, table: "Todo", itemID: "a", kind: kind, state: state)
        if state == .attempted { result.frozen = sampleRequest }
        return result
    }
}

/// Returns an operation that was sent once.
let sampleRequest = OperationRequest.frozen(
    QueuedOperation(id: 1, table: "T", itemID: "a", kind: .update),
    local: ["id": "a", "text": "mine"],
    basis: RowBasis(base: ["id": "a", "text": "base", "version": "v1"]),
    requestID: "r",
    now: Date(timeIntervalSince1970: 0)
)

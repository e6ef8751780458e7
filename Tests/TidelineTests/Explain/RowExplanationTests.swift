// RowExplanationTests: the known facts about a row, case by case, and the text that explains them.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct RowExplanationTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var codes: [RowExplanation.Code]
        /// The words that the text must contain.
        var says: [String] = []
        var change: @Sendable (inout RowFacts) -> Void

        var testDescription: String { name }
    }

    private static let row: Row = ["id": "a", "text": "secret", "version": "v1"]

    private static func operation(
        _ kind: OperationKind,
        _ state: QueuedOperation.State = .pending,
        isDamaged: Bool = false,
        _ change: (inout QueuedOperation) -> Void = { _ in }
    ) -> QueuedOperation {
        var operation = QueuedOperation(table: "Todo", itemID: "a", kind: kind)
        if kind != .insert { operation.basis.base = row }
        change(&operation)
        var entry = operation.storedRow
        entry["state"] = .integer(state.rawValue)
        if state == .attempted {
            entry["attempts"] = 3
            entry["method"] = "PATCH"
            entry["requestId"] = "r"
            entry["firstSent"] = "Thu, 01 Jan 2026 00:00:00 GMT"
        }
        if isDamaged { entry["sentRow"] = "no JSON" }
        return QueuedOperation(storedRow: entry) { _ in nil }
    }

    private static func query(
        _ id: String,
        _ number: Int,
        former: Int64? = nil
    ) -> RowFacts.Query {
        RowFacts.Query(id: id, hold: QueryHold(number: number, formerBits: former))
    }

    private static let cases: [Case] = [
        Case(
            name: "as the server returned it",
            codes: [.here, .serverVersion, .held, .lastPull],
            says: ["version v1", "The query 'open' contains the row.", "2026-01-01T00:00:00Z"]
        ) {
            $0.row = row
            $0.membershipBits = 0b10
            $0.queries = [query("open", 1), query("high", 2)]
            $0.lastPull = Date(timeIntervalSince1970: 1_767_225_600)
        },
        Case(
            name: "in two queries and a pull without an id",
            codes: [.here, .serverVersion, .held],
            says: ["The queries 'high', 'open' and a query without an id contain the row."]
        ) {
            $0.row = row
            $0.membershipBits = 0b111
            $0.queries = [query("high", 2), query("open", 1)]
        },
        Case(
            name: "in the former read of a query that restarts",
            codes: [.here, .serverVersion, .held, .reading],
            says: ["'open' contains the row", "The pull of query 'open' is incomplete"]
        ) {
            $0.row = row
            $0.membershipBits = 0b10
            $0.queries = [query("open", 3, former: 0b10)]
        },
        Case(
            name: "in no query",
            codes: [.here, .serverVersion, .unheld],
            says: ["the next pull removes it."]
        ) {
            $0.row = row
            $0.membershipBits = 0
            $0.queries = [query("open", 1)]
        },
        Case(
            name: "in a query that was removed",
            codes: [.here, .serverVersion, .held],
            says: ["no longer known"]
        ) {
            $0.row = row
            $0.membershipBits = 0b1000
            $0.queries = [query("open", 1)]
        },
        Case(
            name: "in no query, with a pending edit",
            codes: [.here, .unsent, .basis, .unheld],
            says: ["after its operations are complete"]
        ) {
            $0.row = row
            $0.membershipBits = 0
            $0.operations = [operation(.update)]
            $0.queries = [query("open", 1)]
        },
        Case(
            name: "sent, and returned by no query yet",
            codes: [.here, .serverVersion, .unheld],
            says: ["does not return the row either, the row is removed."]
        ) {
            $0.row = row
            $0.queries = [query("open", 1)]
        },
        Case(
            name: "on the device only",
            codes: [.here, .localOnly, .unheld, .neverPulled],
            says: ["on this device only", "never pulled"]
        ) { $0.row = ["id": "a", "text": "secret"] },
        Case(
            name: "new",
            codes: [.here, .unsent, .basis],
            says: ["The insert is pending: it has not been sent yet.", "The row is new"]
        ) {
            $0.row = ["id": "a", "text": "secret"]
            $0.operations = [operation(.insert)]
        },
        Case(
            name: "sent without an answer, and edited since",
            codes: [.here, .attempted, .outcomeUnknown, .behind, .basis],
            says: ["sent 3 times, first at Thu, 01 Jan 2026", "no response was stored"]
        ) {
            $0.row = row
            $0.operations = [
                operation(.update, .attempted) { $0.outcomeUnknown = true }, operation(.update),
            ]
        },
        Case(
            name: "sent, with an unknown outcome",
            codes: [.here, .attempted, .outcomeUnknown, .basis],
            says: ["same bytes"]
        ) {
            $0.row = row
            $0.operations = [operation(.update, .attempted)]
        },
        Case(
            name: "an edit released an operation that was sent without an answer",
            codes: [.here, .unsent, .outcomeUnknown, .basis],
            says: ["is pending. The next push"]
        ) {
            $0.row = row
            $0.operations = [operation(.update) { $0.outcomeUnknown = true }]
        },
        Case(
            name: "parked, with a newer state of the server",
            codes: [.here, .parked, .basis, .newerOnServer],
            says: [
                "rejected by the server (412)", "It changed.", "based on server version v1", "v7",
            ]
        ) {
            $0.row = row
            $0.operations = [
                operation(.update, .parked) {
                    $0.basis.latest = .row(["id": "a", "version": "v7"])
                }
            ]
            $0.rejection = RowFacts.Rejection(statusCode: 412, message: "It changed.")
        },
        Case(
            name: "an edit of an older copy of a row that the server deleted",
            codes: [.here, .unsent, .basis, .newerOnServer],
            says: ["based on an older server version", "The server has deleted the row"]
        ) {
            $0.row = row
            $0.operations = [
                operation(.update) {
                    $0.basisVersion = ""
                    $0.basis.latest = .deleted(version: "v8")
                }
            ]
        },
        Case(
            name: "an unreadable operation",
            codes: [.here, .damaged, .basis],
            says: ["column 'sentRow'", "Discard the operation through its error"]
        ) {
            $0.row = row
            $0.operations = [operation(.update, .parked, isDamaged: true)]
        },
        Case(
            name: "deleted on the device",
            codes: [.absent, .unsent, .basis],
            says: ["it was deleted here", "The delete is pending"]
        ) { $0.operations = [operation(.delete)] },
        Case(name: "never pulled", codes: [.absent, .neverPulled], says: ["'Todo'"]) { _ in },
        Case(
            name: "returned by no pull",
            codes: [.absent, .notPulled, .lastPull],
            says: ["none of the queries 'open', or"]
        ) {
            $0.queries = [query("open", 1)]
            $0.lastPull = Date(timeIntervalSince1970: 1_767_225_600)
        },
        Case(
            name: "pulled without an id only",
            codes: [.absent, .notPulled, .lastPull],
            says: ["none of the queries, or"]
        ) { $0.lastPull = Date(timeIntervalSince1970: 1_767_225_600) },
        Case(
            name: "an unfinished query, and a query of another server",
            codes: [.absent, .reading, .otherEndpoint, .notPulled],
            says: ["The pull of query 'cut' is incomplete", "'old' was pulled from another server"]
        ) {
            var cut = query("cut", 1)
            cut.hasCursor = false
            var old = query("old", 2)
            old.isOfThisEndpoint = false
            $0.queries = [cut, old]
        },
    ]

    @Test(
        "Each state of a row is explained with its reasons and without its values",
        arguments: cases
    )
    func explains(_ example: Case) {
        var facts = RowFacts(table: "Todo", itemID: "a")
        example.change(&facts)
        let explanation = RowExplanation(facts)
        #expect(explanation.reasons.map(\.code) == example.codes)
        for text in example.says {
            #expect(explanation.description.contains(text), "\(explanation)")
        }
        #expect(explanation.isHere == (facts.row != nil))
        #expect(!explanation.description.contains("secret"))
    }
}

// LedgerRules: the data that both databases keep of a write with an idempotency key.

package enum LedgerRules {
    /// The bytes of an entry without its row.
    package static let entryBytes = 200

    /// A row of more bytes is not kept: it is read again for the replayed answer.
    package static let rowBytesMax = 4096

    /// The account of all callers together; no caller has this name.
    package static let allCallers = "*"

    /// How many entries go at most along with so many new ones: enough for the bytes of each.
    package static func drops(beside entries: Int) -> Int {
        entries * (rowBytesMax / entryBytes + 2) + 200
    }

    /// The bytes of a row that an entry keeps.
    package static func kept(_ row: StoredRow?, of operation: WriteOperation) -> [UInt8]? {
        guard operation.keepsRowInLedger else { return nil }
        return row.flatMap { $0.json.count <= rowBytesMax ? $0.json : nil }
    }

    /// The word that stands for an outcome in the ledger, which has only successful writes.
    package static func word(_ outcome: WriteOutcome) -> String {
        switch outcome.decision {
        case .insert: "insert"
        case .remove: "remove"
        case .keepStored: "keepStored"
        case .update, .exists, .taken, .missing, .gone, .systemChange, .preconditionFailed,
            .versionMismatch, .merge, .testFailed, .outdated, .refused:
            if outcome.isInPlaceOfDelete {
                "inPlaceOfDelete"
            } else {
                outcome.isResolved ? "resolved" : "update"
            }
        }
    }

    /// The outcome that a word stands for; `isDeleted` says what an update left.
    package static func outcome(
        _ word: String,
        isDeleted: Bool,
        row: StoredRow?,
        repeatedID: String
    ) -> WriteOutcome {
        let decision: WriteDecision =
            switch word {
            case "insert": .insert
            case "remove": .remove
            case "keepStored": .keepStored
            default: .update(deleted: isDeleted)
            }
        var outcome = WriteOutcome(decision, row: row)
        outcome.isInPlaceOfDelete = word == "inPlaceOfDelete"
        outcome.isResolved = word == "resolved"
        outcome.repeatedID = repeatedID
        return outcome
    }

    /// The outcome of a write that is replayed, with the row as it is now.
    ///
    /// The row is nil if it is gone, or if the caller may not see it any more: then the answer has
    /// what the ledger kept of it.
    package static func outcome(
        _ outcome: WriteOutcome,
        _ state: RowState,
        row: StoredRow?
    ) -> WriteOutcome {
        var outcome = outcome
        outcome.row = row ?? StoredRow(json: [], state: state).stub(outcome.repeatedID ?? "")
        return outcome
    }
}

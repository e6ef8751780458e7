// LedgerRules: the data that is stored for a write with an idempotency key.

/// The rules for entries of the idempotency ledger, the same for both backends.
package enum LedgerRules {
    /// The size of an entry without its row, in bytes.
    package static let entryBytes = 200

    /// The maximum size of a stored row; a larger row is read again for the replayed answer.
    package static let rowBytesMax = 4096

    /// The account of all callers; it is not a valid name of a caller.
    package static let allCallers = "*"

    /// Returns how many entries may be removed along with this many new ones, enough to free their space.
    package static func drops(with entries: Int) -> Int {
        entries * (rowBytesMax / entryBytes + 2) + 200
    }

    /// Returns the bytes of a row that an entry stores; nil if it stores none.
    package static func storedRow(_ row: StoredRow?, of operation: WriteOperation) -> [UInt8]? {
        guard operation.keepsRowInLedger else { return nil }
        return row.flatMap { $0.json.count <= rowBytesMax ? $0.json : nil }
    }

    /// Returns the word for an outcome in the ledger, which has only successful writes.
    package static func word(_ outcome: WriteOutcome) -> String {
        switch outcome.decision {
        case .insert: "insert"
        case .remove: "remove"
        case .keepStored: "keepStored"
        case .update, .exists, .taken, .missing, .gone, .systemChange, .preconditionFailed,
            .versionMismatch, .merge, .testFailed, .outdated, .rejected:
            if outcome.isInPlaceOfDelete {
                "inPlaceOfDelete"
            } else {
                outcome.isResolved ? "resolved" : "update"
            }
        }
    }

    /// Returns the outcome for a word; `isDeleted` is whether the update left a tombstone.
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

    /// Returns the outcome of a replayed write, with the current row.
    ///
    /// The row is nil if it no longer exists or the caller may no longer see it. The answer then has only the
    /// state that the ledger stored.
    package static func outcome(
        _ outcome: WriteOutcome,
        _ state: RowState,
        row: StoredRow?
    ) -> WriteOutcome {
        var outcome = outcome
        outcome.row = row ?? StoredRow(json: [], state: state).stub(outcome.repeatedID ?? "")
        // Another writer may have changed the row since.
        if let row, row.state.version != state.version { outcome.isResolved = true }
        return outcome
    }
}

/// The result of a search for a key in the ledger.
package enum LedgerFinding {
    case new
    /// The write was executed with this outcome.
    ///
    /// `stateOfRow` is set if the row is too large for the ledger and is read again.
    case known(WriteOutcome, stateOfRow: RowState?)
    /// Another request has used the key.
    case other
    /// The entry may have been removed.
    case forgotten
    /// The `Repeatability-First-Sent` of the key is in the future.
    case ahead

    package var isNew: Bool { if case .new = self { true } else { false } }
}

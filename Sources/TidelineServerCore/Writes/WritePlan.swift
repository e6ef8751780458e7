// WritePlan: what a write does to a row: from the row as it is to the row as it will be.
//
// Pure. A backend reads the row, plans, and stores the image; it decides nothing. A refusal is an
// outcome and never thrown, so that it does not end the transaction of others.

package import TidelineCore

/// A write that is decided.
package struct WritePlan: Sendable {
    /// What is to be done to the stored row.
    package enum Change: Sendable {
        case nothing
        case insert(RowImage)
        /// Only these columns and the system columns differ.
        case update(RowImage, columns: [Int], from: RowImage)
        case remove(RowImage)

        package var changesRow: Bool { if case .nothing = self { false } else { true } }
    }

    package var change: Change
    package var outcome: WriteOutcome
}

/// Plans writes on a table.
package struct WritePlanner: Sendable {
    /// What is known of the row that a write began at.
    package enum Base: Sendable {
        case notRead
        /// By column, nil for what is not known; nil for a version that is not kept.
        case read([SQLValue?]?)
    }

    package enum Step: Sendable {
        case plan(WritePlan)
        /// To be planned anew with the values that the row had with this version.
        case readBase(version: Int64)
    }

    /// What system members and the names of absent columns may add to a row's body.
    private static let namesBytesMax = 64 << 10

    private let table: Table
    private let rowBytesMax: Int

    package init(_ table: Table, limits: ServerLimits) {
        self.table = table
        rowBytesMax = limits.rowBytes
    }

    /// Plans a write.
    ///
    /// - Parameters:
    ///   - operation: The write.
    ///   - stored: The row; nil for none.
    ///   - stamp: The time and version of what is written.
    ///   - base: What was read for a step before.
    /// - Returns: The plan, or what has to be read for it.
    package func plan(
        _ operation: WriteOperation,
        on stored: RowImage?,
        stamp: Int64,
        base: Base = .notRead
    ) -> Step {
        let decision = operation.decide(
            stored: stored.map { row in
                RowState(
                    version: row.version,
                    updatedAt: row.updatedAt,
                    isDeleted: row.isDeleted,
                    isVisible: row.isVisible(in: operation.view, of: table)
                )
            }
        )
        switch (decision, stored) {
        case (.insert, _):
            return .plan(insert(operation, stamp))
        case (.update(let deleted), let stored?):
            return .plan(update(operation, stored, deleted: deleted, stamp))
        case (.remove, let stored?):
            return .plan(WritePlan(change: .remove(stored), outcome: WriteOutcome(.remove)))
        case (.merge(let version), let stored?):
            guard case .read(let values) = base else { return .readBase(version: version) }
            return merge(operation, stored, values, stamp)
        case (.exists, let stored?), (.preconditionFailed, let stored?),
            (.versionMismatch, let stored?), (.keepStored, let stored?):
            return .plan(unchanged(decision, stored))
        default:
            return .plan(WritePlan(change: .nothing, outcome: WriteOutcome(decision)))
        }
    }

    // MARK: - Images

    private func insert(_ operation: WriteOperation, _ stamp: Int64) -> WritePlan {
        let values = table.columns.enumerated().map { place, column in
            (operation.values[place] ?? column.storedDefault).kept
        }
        let image = RowImage(
            id: operation.id,
            values: values,
            createdAt: stamp,
            updatedAt: stamp,
            version: stamp,
            isDeleted: false
        )
        return written(.insert(image), image, operation, .insert)
    }

    private func update(
        _ operation: WriteOperation,
        _ stored: RowImage,
        deleted: Bool,
        _ stamp: Int64
    ) -> WritePlan {
        var operation = operation
        if let patch = operation.patch {
            do {
                guard let values = try patch.apply(to: stored.allValues) else {
                    return unchanged(.testFailed, stored)
                }
                operation.values = values
            } catch {
                return refused(error)
            }
            // A patch may read the owner, and cannot change it.
            if let owner = table.ownerPlace { operation.values[owner] = nil }
        }
        let columns = table.columns
        let changed = columns.indices.filter {
            operation.fillsDefaults || $0 < operation.values.count && operation.values[$0] != nil
        }
        var image = stored
        for place in changed {
            image.values[place] = (operation.values[place] ?? columns[place].storedDefault).kept
        }
        image.updatedAt = stamp
        image.version = stamp
        image.isDeleted = deleted
        let change = WritePlan.Change.update(image, columns: changed, from: stored)
        return written(change, image, operation, .update(deleted: deleted))
    }

    /// Joins a write with what changed since the version that it began at; refuses it where both
    /// changed a column.
    private func merge(
        _ operation: WriteOperation,
        _ stored: RowImage,
        _ base: [SQLValue?]?,
        _ stamp: Int64
    ) -> Step {
        let changes = base.flatMap { base in
            ThreeWayMerge.changes(
                mine: operation.fullValues(table),
                base: base,
                theirs: stored.values,
                columns: table.columns
            )
        }
        if let changes, changes.allSatisfy({ $0 == nil }) {
            return .plan(unchanged(.keepStored, stored))
        }
        return plan(operation.merged(changes), on: stored, stamp: stamp)
    }

    private func written(
        _ change: WritePlan.Change,
        _ image: RowImage,
        _ operation: WriteOperation,
        _ decision: WriteDecision
    ) -> WritePlan {
        // A write must not put a row where its writer does not see it.
        if operation.staysInView, !image.isVisible(in: operation.view, of: table) {
            return refused(.outsideView)
        }
        // The answer to a delete has no row; only code of an app may want to see it.
        if operation.kind == .delete, table.hooks?.afterWrite == nil {
            return WritePlan(change: change, outcome: WriteOutcome(decision))
        }
        let row = image.stored(in: table)
        // Many small changes must not make a row that one body could not.
        guard row.json.count <= rowBytesMax + Self.namesBytesMax else {
            return refused(.rowTooLarge(rowBytesMax))
        }
        var outcome = WriteOutcome(decision, row: row)
        outcome.isInPlaceOfDelete = operation.isInPlaceOfDelete
        return WritePlan(change: change, outcome: outcome)
    }

    private func unchanged(_ decision: WriteDecision, _ stored: RowImage) -> WritePlan {
        WritePlan(
            change: .nothing,
            outcome: WriteOutcome(decision, row: stored.stored(in: table))
        )
    }

    private func refused(_ error: ServerError) -> WritePlan {
        WritePlan(change: .nothing, outcome: .refused(error))
    }
}

// WritePlan: the change that a write makes to a row.
//
// Pure. A backend reads the row, makes the plan, and stores the result; it contains no rules. A rejection is an outcome
// and never thrown, so that it does not end a transaction with writes of other callers.

package import TidelineCore

/// A write and its effect on the row.
package struct WritePlan: Sendable {
    /// The change of the stored row.
    package enum Change: Sendable {
        case nothing
        case insert(RowImage)
        /// A change of only these columns and the system columns.
        case update(RowImage, columns: [Int], from: RowImage)
        case remove(RowImage)

        package var changesRow: Bool { if case .nothing = self { false } else { true } }
    }

    package var change: Change
    package var outcome: WriteOutcome
}

/// A planner for writes on a table.
package struct WritePlanner: Sendable {
    /// The known values of a write's base row.
    package enum Base: Sendable {
        case notRead
        /// The values by column, nil for an unknown value; nil as a whole if the version is no longer stored.
        case read([SQLValue?]?)
    }

    package enum Step: Sendable {
        case plan(WritePlan)
        /// The write has to be planned again with the values that the row had in this version.
        case readBase(version: Int64)
    }

    /// The maximum number of bytes that system members and the names of absent columns may add to a row's body.
    private static let namesBytesMax = 64 << 10

    private let table: Table
    private let rowBytesMax: Int
    /// The maximum number of bytes of a new value from a caller who may not read the row.
    private let unseenValueBytesMax: Int

    package init(_ table: Table, limits: ServerLimits) {
        self.table = table
        rowBytesMax = limits.rowBytes
        let longColumns = table.columns.count { $0.type.hasLongValues }
        unseenValueBytesMax = (limits.rowBytes + Self.namesBytesMax) / max(1, longColumns)
    }

    /// Plans a write.
    ///
    /// - Parameters:
    ///   - operation: The write.
    ///   - stored: The stored row; nil if it does not exist.
    ///   - timestamp: The commit timestamp and version of the write.
    ///   - base: The values that were read for an earlier step.
    /// - Returns: The plan, or the values that have to be read first.
    package func plan(
        _ operation: WriteOperation,
        on stored: RowImage?,
        timestamp: Int64,
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
            return .plan(insert(operation, timestamp))
        case (.update(let deleted), let stored?):
            return .plan(update(operation, stored, deleted: deleted, timestamp))
        case (.remove, let stored?):
            return .plan(WritePlan(change: .remove(stored), outcome: WriteOutcome(.remove)))
        case (.merge(let version), let stored?):
            guard case .read(let values) = base else { return .readBase(version: version) }
            return merge(operation, stored, values, timestamp)
        case (.exists, let stored?), (.preconditionFailed, let stored?),
            (.versionMismatch, let stored?), (.keepStored, let stored?):
            return .plan(unchanged(decision, stored, operation))
        case (.update, _), (.remove, _), (.exists, _), (.taken, _), (.missing, _), (.gone, _),
            (.systemChange, _), (.preconditionFailed, _), (.versionMismatch, _), (.merge, _),
            (.keepStored, _), (.testFailed, _), (.outdated, _), (.rejected, _):
            return .plan(WritePlan(change: .nothing, outcome: WriteOutcome(decision)))
        }
    }

    // MARK: - Images

    private func insert(_ operation: WriteOperation, _ timestamp: Int64) -> WritePlan {
        let values = table.columns.enumerated().map { place, column in
            (operation.values[place] ?? column.storedDefault).withoutNegativeZero
        }
        let image = RowImage(
            id: operation.id,
            values: values,
            createdAt: timestamp,
            updatedAt: timestamp,
            version: timestamp,
            isDeleted: false
        )
        if let violation = table.rules.compare(values) { return rejected(ServerError(violation)) }
        return written(.insert(image), image, operation, .insert)
    }

    private func update(
        _ operation: WriteOperation,
        _ stored: RowImage,
        deleted: Bool,
        _ timestamp: Int64
    ) -> WritePlan {
        var operation = operation
        if let patch = operation.patch {
            do {
                guard
                    let values = try patch.apply(
                        to: stored.allValues,
                        defaults: operation.databaseDefaults
                    )
                else {
                    return unchanged(.testFailed, stored, operation)
                }
                operation.values = values
            } catch {
                return rejected(error)
            }
            // A patch may read the owner, but cannot change it.
            if let owner = table.ownerIndex { operation.values[owner] = nil }
        }
        if !operation.alternatives.isEmpty {
            do {
                operation = try operation.choosingValues(
                    against: stored.values,
                    areAllSet: false,
                    in: table
                )
            } catch {
                return rejected(error)
            }
        }
        let columns = table.columns
        let isErased = deleted && table.definition.tombstones == .bare
        let changed = columns.indices.filter {
            operation.fillsDefaults || isErased
                || $0 < operation.values.count && operation.values[$0] != nil
        }
        var image = stored
        for place in changed {
            if isErased {
                if !table.definition.keepsInTombstone(columns[place]) {
                    image.values[place] = columns[place].erasedValue
                }
            } else {
                image.values[place] =
                    (operation.values[place] ?? columns[place].storedDefault).withoutNegativeZero
            }
        }
        image.updatedAt = timestamp
        image.version = timestamp
        image.isDeleted = deleted
        if !isErased, let violation = brokenComparison(image, changed, operation) {
            return broken(violation, stored, changed, operation)
        }
        let change = WritePlan.Change.update(image, columns: changed, from: stored)
        guard operation.mayRead || operation.fillsDefaults else {
            let isTooLarge = changed.contains { place in
                isTooLargeUnseen(image.values[place], columns[place].type)
            }
            if isTooLarge { return rejected(.rowTooLarge(rowBytesMax)) }
            return written(change, image, operation, .update(deleted: deleted), hasGrown: false)
        }
        // A row that already is too large may shrink in steps.
        let hasGrown =
            !operation.mayRead
            || changed.contains { image.values[$0].bytes > stored.values[$0].bytes }
        return written(change, image, operation, .update(deleted: deleted), hasGrown: hasGrown)
    }

    /// Returns a comparison that a row does not satisfy, among those of the columns that a write sets.
    private func brokenComparison(
        _ image: RowImage,
        _ changed: [Int],
        _ operation: WriteOperation
    ) -> RuleViolation? {
        guard table.rules.hasComparisons, operation.kind != .delete else { return nil }
        let changed = Set(changed)
        return table.rules.compare(image.values) { changed.contains($0) }
    }

    /// Returns the plan for a write after which the row would violate a comparison.
    ///
    /// The write is rejected. If it is based on an older version and does not set all compared columns, another writer
    /// may have set the others, so that the caller's own row satisfies the comparison. That is a conflict, which the
    /// caller resolves with both rows.
    private func broken(
        _ violation: RuleViolation,
        _ stored: RowImage,
        _ changed: [Int],
        _ operation: WriteOperation
    ) -> WritePlan {
        let set = Set(changed.map { table.columns[$0].name })
        let isMixed =
            operation.mayRead && operation.isStale(against: stored.state)
            && !set.isSuperset(of: violation.columns)
        guard isMixed else { return rejected(ServerError(violation)) }
        let isCondition = operation.conditions.ifMatch != nil
        return unchanged(isCondition ? .preconditionFailed : .versionMismatch, stored, operation)
    }

    /// Returns whether a value is larger than its share of a row.
    ///
    /// The other values of the row are not counted, because the caller must not learn their size.
    private func isTooLargeUnseen(_ value: SQLValue, _ type: ColumnType) -> Bool {
        guard value.bytes > unseenValueBytesMax / 8 else { return false }
        var writer = JSONWriter()
        writer.stored(value, of: type)
        return writer.bytes.count > unseenValueBytesMax
    }

    /// Merges a write with the changes since its base version; rejects the write if both changed a column.
    private func merge(
        _ operation: WriteOperation,
        _ stored: RowImage,
        _ base: [SQLValue?]?,
        _ timestamp: Int64
    ) -> Step {
        var operation = operation
        if !operation.alternatives.isEmpty {
            do {
                let before = stored.values.enumerated().map { base?[$0] ?? $1 }
                operation = try operation.choosingValues(
                    against: before,
                    areAllSet: base != nil,
                    in: table
                )
            } catch {
                return .plan(rejected(error))
            }
        }
        let changes = base.flatMap { base in
            ThreeWayMerge.changes(
                mine: operation.fullValues(table),
                base: base,
                theirs: stored.values,
                columns: table.columns
            )
        }
        if let changes, changes.allSatisfy({ $0 == nil }) {
            return .plan(unchanged(.keepStored, stored, operation))
        }
        return plan(operation.merged(changes), on: stored, timestamp: timestamp)
    }

    private func written(
        _ change: WritePlan.Change,
        _ image: RowImage,
        _ operation: WriteOperation,
        _ decision: WriteDecision,
        hasGrown: Bool = true
    ) -> WritePlan {
        // A write must not move a row to where its writer does not see it.
        if operation.staysInView, !image.isVisible(in: operation.view, of: table) {
            return rejected(.outsideView)
        }
        // The answer to a delete has no row; only an app's hook may need it.
        if operation.kind == .delete, table.hooks?.afterWrite == nil {
            return WritePlan(change: change, outcome: WriteOutcome(decision))
        }
        let row =
            operation.mayRead || operation.fillsDefaults ? image.stored(in: table) : nil
        // Many small changes must not build a row that would be too large for one body.
        if let row, hasGrown, row.json.count > rowBytesMax + Self.namesBytesMax {
            return rejected(.rowTooLarge(rowBytesMax))
        }
        var outcome = outcome(decision, image, row, operation)
        outcome.isInPlaceOfDelete = operation.isInPlaceOfDelete
        if case .update(_, columns: _, from: let stored) = change {
            outcome.isResolved = operation.isStale(against: stored.state)
        }
        return WritePlan(change: change, outcome: outcome)
    }

    private func unchanged(
        _ decision: WriteDecision,
        _ stored: RowImage,
        _ operation: WriteOperation
    ) -> WritePlan {
        WritePlan(change: .nothing, outcome: outcome(decision, stored, nil, operation))
    }

    /// Returns an outcome with the row that its caller may see.
    ///
    /// Budgets, the ledger and the caller's rates count the bytes of that row, so that they reveal nothing
    /// about the size of a row that the caller may not read.
    private func outcome(
        _ decision: WriteDecision,
        _ image: RowImage,
        _ row: StoredRow?,
        _ operation: WriteOperation
    ) -> WriteOutcome {
        // A new row consists of the caller's own values.
        if operation.mayRead || decision == .insert {
            return WriteOutcome(decision, row: row ?? image.stored(in: table))
        }
        let stub = StoredRow(json: [], state: image.state).stub(image.id)
        var outcome = WriteOutcome(decision, row: stub)
        if table.hooks?.surroundWrites == true { outcome.hiddenRow = image.stored(in: table) }
        return outcome
    }

    private func rejected(_ error: ServerError) -> WritePlan {
        WritePlan(change: .nothing, outcome: .rejected(error))
    }
}

extension ColumnType {
    /// Whether a value of this type is limited only by `limits.rowBytes`.
    fileprivate var hasLongValues: Bool {
        switch self {
        case .string, .binary, .json: true
        case .integer, .number, .decimal, .boolean, .dateTime, .date, .time, .guid, .enumeration:
            false
        }
    }
}

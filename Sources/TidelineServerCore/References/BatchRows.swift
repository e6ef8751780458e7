// BatchRows: references between the writes of a batch. Pure.
//
// Rows may refer to each other, such as a customer and its main contact. Then neither order of their inserts would have
// each parent first, and in either order, the first delete changes the version of the second row. Therefore such a row
// may name a parent that a later write of the same group inserts, and a version that only deletes of the same batch have
// replaced still counts as the current one.

import TidelineCore

/// The rows of a batch that concern its other writes because of references.
package struct BatchRows: Sendable {
    private struct Key: Hashable {
        let table: String
        let id: String
    }

    private struct Change {
        /// The version that the caller may have read.
        var before: Int64
        var after: Int64
        var isDeleted: Bool
    }

    /// The rows that deletes of the batch have changed or deleted because of references.
    private var changes: [Key: Change] = [:]
    /// The rows that the rest of the current group inserts and that refer to each other.
    private var expected: Set<Key> = []
    /// Whether a delete is changing the rows that refer to the deleted one.
    var changesChildren = false

    package init() {}

    // MARK: - Parents

    /// Remembers the rows that the writes of a group insert and that refer to each other.
    ///
    /// Any other parent has to be inserted before its children.
    mutating func expect(_ group: [WriteBatch.Write]) {
        guard group.count > 1 else { return }
        var parents: [Key: Set<Key>] = [:]
        for write in group
        where write.operation.kind == .insert && write.operation.references != nil {
            let key = Key(table: write.table.name, id: write.operation.id)
            let named = write.operation.namedParents.map { Key(table: $0.table.name, id: $0.id) }
            parents[key] = Set(named).subtracting([key])
        }
        guard parents.count > 1 else { return }
        // Rows without parents are in no cycle, and neither are those without children.
        let descending = Self.trimmed(parents)
        guard !descending.isEmpty else { return }
        var children: [Key: Set<Key>] = descending.mapValues { _ in [] }
        for (child, parents) in descending {
            for parent in parents { children[parent, default: []].insert(child) }
        }
        expected = Set(Self.trimmed(children).keys)
    }

    /// Removes rows that refer to no other row, until each of the rows that are left refers to another one of them.
    private static func trimmed(_ targets: [Key: Set<Key>]) -> [Key: Set<Key>] {
        var left = targets.mapValues { $0.filter { targets[$0] != nil } }
        var sources: [Key: [Key]] = [:]
        for (key, targets) in left {
            for target in targets { sources[target, default: []].append(key) }
        }
        var open = left.filter(\.value.isEmpty).map(\.key)
        while let key = open.popLast() {
            left[key] = nil
            for source in sources[key] ?? [] {
                left[source]?.remove(key)
                if left[source]?.isEmpty == true { open.append(source) }
            }
        }
        return left
    }

    mutating func endGroup() { if !expected.isEmpty { expected = [] } }

    /// Records that a write of the group was executed.
    mutating func stored(_ write: WriteBatch.Write) {
        guard !expected.isEmpty else { return }
        expected.remove(Key(table: write.table.name, id: write.operation.id))
    }

    /// Returns whether a later write of the current group inserts a row that refers back to its children.
    ///
    /// If that write fails, so does the whole group.
    func isExpected(_ id: String, in table: Table) -> Bool {
        !expected.isEmpty && expected.contains(Key(table: table.name, id: id))
    }

    // MARK: - Versions

    /// Records a change that follows a delete.
    mutating func note(_ change: WritePlan.Change, in table: Table) {
        switch change {
        case .nothing, .insert: return
        case .update(let image, _, from: let old):
            note(old, after: image.version, isDeleted: image.isDeleted, table)
        case .remove(let old): note(old, after: old.version, isDeleted: true, table)
        }
    }

    private mutating func note(
        _ old: RowImage,
        after: Int64,
        isDeleted: Bool,
        _ table: Table
    ) {
        let key = Key(table: table.name, id: old.id)
        let earlier = changes[key].flatMap { $0.after == old.version ? $0.before : nil }
        changes[key] = Change(before: earlier ?? old.version, after: after, isDeleted: isDeleted)
    }

    /// Returns the write with the current version of its row in place of the one that the caller has read.
    func current(_ operation: WriteOperation, in table: Table) -> WriteOperation {
        guard let change = change(operation, table), !change.isDeleted else { return operation }
        let (before, after) = (RowVersion.text(change.before), RowVersion.text(change.after))
        var result = operation
        if case .strong(let tags)? = operation.conditions.ifMatch, tags.contains(before) {
            result.conditions.ifMatch = .strong([after])
        }
        if operation.expectedVersion == before { result.expectedVersion = after }
        if operation.claimedVersion == before { result.claimedVersion = after }
        return result
    }

    /// Returns the outcome of a delete, in the version that the caller has read, of a row that is deleted already; nil
    /// for any other write.
    ///
    /// A caller without that version learns nothing about the row.
    func outcome(of operation: WriteOperation, in table: Table) -> WriteOutcome? {
        guard operation.kind == .delete, let change = change(operation, table), change.isDeleted,
            case .strong(let tags)? = operation.conditions.ifMatch,
            tags.contains(RowVersion.text(change.before))
        else { return nil }
        return WriteOutcome(operation.softDelete ? .update(deleted: true) : .remove)
    }

    /// Forgets a row that a write of the caller has changed.
    mutating func forget(_ operation: WriteOperation, in table: Table) {
        guard !changes.isEmpty else { return }
        changes[Key(table: table.name, id: operation.id)] = nil
    }

    private func change(_ operation: WriteOperation, _ table: Table) -> Change? {
        changes.isEmpty ? nil : changes[Key(table: table.name, id: operation.id)]
    }
}

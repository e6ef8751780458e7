// ReferenceTransaction: checks references within a transaction, and changes the rows that refer to a deleted row. The
// same for all backends, which read and store rows.
//
// A delete of a parent is planned before anything is changed: first the rows that it concerns, level by level, then the
// rejection by a `restrict` anywhere among them. Children are changed before their parents. If there are more than
// `limits.cascadeRows`, the transaction only stores that the row's children are pending, and later transactions delete
// them in steps, parents before children, each of which is then a pending row itself.

import TidelineCore

/// A row that refers to another one.
package struct ReferringRow: Hashable, Sendable {
    package var id: String
    package var parentID: String

    package init(id: String, parentID: String) {
        self.id = id
        self.parentID = parentID
    }
}

/// A transaction that checks references.
package protocol ReferenceTransaction: WriteTransaction {
    /// The number of rows that deletes may still change in this transaction.
    var cascadeRowsLeft: Int { get set }

    /// Returns what the backend derives from a table.
    func derived(_ table: Table) -> Backend

    /// Returns a row that a reference names, after the writes so far; nil if it does not exist.
    ///
    /// No other transaction can delete the row before this one ends.
    mutating func parent(_ id: String, _ table: Backend) throws -> RowImage?

    /// Returns the rows that refer to any of these rows and are not deleted, after the writes so far.
    ///
    /// No other transaction can change them before this one ends.
    ///
    /// - Parameters:
    ///   - ids: The ids of the parents, whose rows this transaction has locked.
    ///   - edge: The reference.
    ///   - countMax: The maximum number of rows.
    /// - Returns: The rows, and whether there may be more of them.
    /// - Throws: An error of the database.
    mutating func children(
        of ids: [String],
        by edge: ReferenceEdge,
        atMost countMax: Int
    ) throws -> (rows: [ReferringRow], hasMore: Bool)

    /// Returns whether a row that is not deleted, other than the parent itself, refers to any of these rows.
    mutating func hasChildren(of ids: [String], by edge: ReferenceEdge) throws -> Bool

    /// The maximum number of rows below a deleted one that are checked for `restrict`.
    var restrictRowsMax: Int { get }

    /// Prepares the delete of a row with too many children to read: until the end of the transaction, no other one can
    /// insert rows below it.
    mutating func beginLargeDelete() throws

    /// Checks whether a reference with the rule `restrict` prevents a large delete; the result may be that this was not
    /// checked.
    mutating func restriction(
        on delete: LargeDelete,
        by edge: ReferenceEdge
    ) throws -> LargeDelete.Restriction

    /// Returns the tables with rows whose children are pending, of those that other tables refer to by `cascade`; in
    /// lower case.
    mutating func pendingTables(in graph: ReferenceGraph) throws -> Set<String>

    /// Stores a deleted row whose children are pending, unless it is stored already.
    mutating func put(_ pending: PendingCascade) throws

    /// Returns whether the children of a row are pending.
    mutating func isPending(_ id: String, in table: Table) throws -> Bool

    /// Returns the entries of a step, which no other transaction can take.
    mutating func pendingCascades(_ step: CascadeStep) throws -> [PendingCascade]

    /// Removes entries.
    mutating func remove(_ pending: [PendingCascade]) throws
}

extension ReferenceTransaction {
    /// Checks the references of a planned change, and changes the rows that refer to a row that it deletes.
    ///
    /// Called before the change is stored.
    ///
    /// - Returns: Why the change is rejected; nil if it is executed. Nothing was changed for a rejected change.
    package mutating func rejection(
        of change: WritePlan.Change,
        by operation: WriteOperation,
        in table: Table
    ) throws -> ServerError? {
        if batchRows.changesChildren { batchRows.note(change, in: table) }
        guard let references = operation.references else { return nil }
        switch change {
        case .nothing: return nil
        case .insert(let image): return try missingParent(of: image, from: nil, table, references)
        case .update(let image, _, from: let old):
            if !image.isDeleted {
                let before = old.isDeleted ? nil : old
                return try missingParent(of: image, from: before, table, references)
            }
            return old.isDeleted ? nil : try deleteChildren(of: old.id, table, references)
        case .remove(let old):
            return old.isDeleted ? nil : try deleteChildren(of: old.id, table, references)
        }
    }

    // MARK: - Parents

    private mutating func missingParent(
        of image: RowImage,
        from old: RowImage?,
        _ table: Table,
        _ references: WriteReferences
    ) throws -> ServerError? {
        for parent in references.parents {
            let edge = parent.edge
            guard let id = edge.parentID(of: image), id != old.flatMap({ edge.parentID(of: $0) })
            else {
                continue
            }
            // A row may refer to itself.
            if id == image.id, edge.parent.name == table.name { continue }
            if batchRows.isExpected(id, in: edge.parent) { continue }
            guard let row = try self.parent(id, derived(edge.parent)), !row.isDeleted,
                row.isVisible(in: parent.view, of: edge.parent)
            else { return .parentNotFound(edge) }
            do {
                guard try !isGoing(row, in: edge.parent, references.graph) else {
                    return .parentNotFound(edge)
                }
            } catch let error as ServerError {
                return error
            }
        }
        return nil
    }

    /// The maximum number of ancestors that a check follows.
    private var ancestorsMax: Int { 1000 }

    /// Returns whether a pending cascade will delete a row.
    ///
    /// Each row is locked before its parent is read, so that no step can delete it in between.
    ///
    /// - Throws: ``ServerError/cascadePending`` if the row has too many ancestors to tell.
    private mutating func isGoing(
        _ row: RowImage,
        in table: Table,
        _ graph: ReferenceGraph
    ) throws -> Bool {
        let pending = try pendingTables(in: graph)
        guard graph.mayCascade(from: pending, to: table.name) else { return false }
        var seen: Set<String> = [key(row.id, table)]
        var rows = [(row, table)]
        while let (row, table) = rows.popLast() {
            for edge in graph.parents(of: table.name) where edge.rule == .cascade {
                let mayBePending = pending.contains(edge.parent.name.lowercased())
                let hasAncestors = graph.mayCascade(from: pending, to: edge.parent.name)
                guard mayBePending || hasAncestors, let id = edge.parentID(of: row),
                    seen.insert(key(id, edge.parent)).inserted
                else { continue }
                guard seen.count <= ancestorsMax else { throw ServerError.cascadePending }
                // A cascade ends at a row that was restored.
                if let next = try parent(id, derived(edge.parent)), !next.isDeleted {
                    if hasAncestors { rows.append((next, edge.parent)) }
                } else if mayBePending, try isPending(id, in: edge.parent) {
                    return true
                }
            }
        }
        return false
    }

    // MARK: - Children

    /// Changes the rows that refer to a row that is about to be deleted.
    ///
    /// - Returns: Why the row cannot be deleted.
    private mutating func deleteChildren(
        of id: String,
        _ table: Table,
        _ references: WriteReferences
    ) throws -> ServerError? {
        let graph = references.graph
        guard !graph.children(of: table.name).isEmpty else { return nil }
        var followers = Followers()
        var seen: Set<String> = [key(id, table)]
        var level = [table.name: [id]]
        while !level.isEmpty {
            var next: [String: [String]] = [:]
            for (name, ids) in level.sorted(by: { $0.key < $1.key }) {
                for edge in graph.children(of: name) {
                    guard edge.rule != .restrict else {
                        if try hasChildren(of: ids, by: edge) { return .rowIsReferenced(edge) }
                        continue
                    }
                    let left = cascadeRowsLeft - followers.count
                    let (rows, hasMore) = try children(of: ids, by: edge, atMost: max(0, left))
                    guard !hasMore else {
                        if let rejection = try rejection(ofLarge: id, table, graph) {
                            return rejection
                        }
                        try put(
                            PendingCascade(table: table.name, id: id, author: references.author)
                        )
                        return nil
                    }
                    for row in rows {
                        if edge.rule == .setNull {
                            followers.cleared.append((edge, row))
                        } else if seen.insert(key(row.id, edge.child)).inserted {
                            followers.deleted.append((edge, row))
                            next[edge.child.name, default: []].append(row.id)
                        }
                    }
                }
            }
            level = next
        }
        // A row that is deleted keeps its references.
        followers.cleared.removeAll { seen.contains(key($0.row.id, $0.edge.child)) }
        cascadeRowsLeft -= followers.count
        for (edge, row) in followers.cleared { try clear(row.id, edge, references.author) }
        for (edge, row) in followers.deleted.reversed() {
            try delete(row.id, edge.child, references.author)
        }
        return nil
    }

    /// Returns why a row with too many children to read cannot be deleted; nil if it can.
    private mutating func rejection(
        ofLarge id: String,
        _ table: Table,
        _ graph: ReferenceGraph
    ) throws -> ServerError? {
        try beginLargeDelete()
        let edges = graph.closure(of: table.name)
        let delete = LargeDelete(id: id, table: table.name, edges: edges, rowsMax: restrictRowsMax)
        for edge in edges where edge.rule == .restrict {
            switch try restriction(on: delete, by: edge) {
            case .none: continue
            case .isReferenced: return .rowIsReferenced(edge)
            case .isTooLarge: return .cascadeTooLarge(edge, countMax: restrictRowsMax)
            }
        }
        return nil
    }

    private func key(_ id: String, _ table: Table) -> String { table.name.lowercased() + "/" + id }

    private mutating func delete(_ id: String, _ table: Table, _ author: WriteAuthor) throws {
        var operation = WriteOperation(.delete, id: id)
        operation.softDelete = table.definition.softDelete
        try change(operation, table, author)
    }

    private mutating func clear(
        _ id: String,
        _ edge: ReferenceEdge,
        _ author: WriteAuthor
    ) throws {
        var operation = WriteOperation(.merge, id: id)
        operation.softDelete = edge.child.definition.softDelete
        operation.values = edge.child.columns.indices.map { $0 == edge.place ? .null : nil }
        try change(operation, edge.child, author)
    }

    /// Performs a change that follows a delete, whatever its caller may see.
    private mutating func change(
        _ operation: WriteOperation,
        _ table: Table,
        _ author: WriteAuthor
    ) throws {
        var operation = operation
        operation.author = author
        operation.mayRead = false
        operation.conflict = .clientWins
        // These rows are not in the answer.
        let budget = budget
        self.budget = AnswerBudget()
        batchRows.changesChildren = true
        defer {
            self.budget = budget
            batchRows.changesChildren = false
        }
        let outcome = try perform(operation, in: derived(table))
        guard outcome.decision.changesRow else {
            throw outcome.rejection ?? ServerError.notCommitted
        }
    }

    // MARK: - Steps

    /// Deletes some of the rows whose parents are deleted, and clears some references.
    ///
    /// - Parameters:
    ///   - graph: The references; nil if no table has any.
    ///   - step: The entries; the step notes which of them it has read.
    /// - Returns: What was changed.
    /// - Throws: An error of the database, or of the first row that cannot be changed.
    package mutating func cascade(
        in graph: ReferenceGraph?,
        _ step: inout CascadeStep
    ) throws -> CascadeProgress {
        let entries = try pendingCascades(step)
        step.places = entries.map(\.place)
        var progress = CascadeProgress()
        for (name, group) in Dictionary(grouping: entries, by: \.table)
            .sorted(by: { $0.key < $1.key })
        {
            guard cascadeRowsLeft > 0 else { break }
            let (rows, ended) = try cascade(name, group, in: graph)
            progress.rows += rows
            if rows + ended > 0 { progress.isPending = true }
        }
        return progress
    }

    private mutating func cascade(
        _ name: String,
        _ entries: [PendingCascade],
        in graph: ReferenceGraph?
    ) throws -> (rows: Int, ended: Int) {
        // The table may have lost its references since the row was deleted.
        guard let graph, let table = graph.table(named: name) else {
            try remove(entries)
            return (0, entries.count)
        }
        var authors: [String: WriteAuthor] = [:]
        for entry in entries {
            // The children of a row that was restored in the meantime stay.
            if let row = try parent(entry.id, derived(table)), !row.isDeleted { continue }
            authors[entry.id] = entry.author
        }
        // Their entries are removed first: a delete below may add a new one for the same row.
        let restored = entries.filter { authors[$0.id] == nil }
        try remove(restored)
        let ids = authors.keys.sorted()
        var (count, isWhole) = (0, true)
        for edge in graph.children(of: name) where !ids.isEmpty {
            let (rows, hasMore) = try children(of: ids, by: edge, atMost: cascadeRowsLeft)
            if hasMore { isWhole = false }
            for row in rows {
                let author = authors[row.parentID] ?? WriteAuthor()
                switch edge.rule {
                case .none: continue
                case .setNull: try clear(row.id, edge, author)
                // The parent no longer exists: the data of its owner were erased, or another server has other rules.
                case .cascade, .restrict:
                    try delete(row.id, edge.child, author)
                    if !graph.children(of: edge.child.name).isEmpty {
                        try put(PendingCascade(table: edge.child.name, id: row.id, author: author))
                    }
                }
            }
            cascadeRowsLeft -= rows.count
            count += rows.count
        }
        guard isWhole else { return (count, restored.count) }
        try remove(entries.filter { authors[$0.id] != nil })
        return (count, entries.count)
    }
}

/// The changes that follow the delete of a row.
private struct Followers {
    /// The rows that are deleted, parents first.
    var deleted: [(edge: ReferenceEdge, row: ReferringRow)] = []
    /// The rows whose reference becomes null.
    var cleared: [(edge: ReferenceEdge, row: ReferringRow)] = []
    var count: Int { deleted.count + cleared.count }
}

/// A delete of a row with too many children to read.
package struct LargeDelete: Sendable {
    /// The id of the row.
    package let id: String
    /// The name of its table.
    package let table: String
    /// The references that the delete may follow.
    package let edges: [ReferenceEdge]
    /// The maximum number of rows that are checked.
    package let rowsMax: Int

    /// The result of a check for `restrict`.
    package enum Restriction: Sendable {
        case none
        /// A row that refers to one of the rows prevents the delete.
        case isReferenced
        /// There are more rows than are checked, and none of those prevents the delete.
        case isTooLarge
    }
}

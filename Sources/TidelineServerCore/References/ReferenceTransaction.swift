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

    /// Returns the rows that refer to some rows and are not deleted, after the writes so far.
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

    /// Returns whether a row that is not deleted, other than the parent itself, refers to one of some rows.
    mutating func hasChildren(of ids: [String], by edge: ReferenceEdge) throws -> Bool

    /// Returns the first reference with the rule `restrict` that prevents the delete of a row through other rows.
    ///
    /// Called for a row with too many children to read them.
    mutating func restriction(
        on id: String,
        in graph: ReferenceGraph,
        of table: Table
    ) throws
        -> ReferenceEdge?

    /// Returns whether the children of any row are pending.
    mutating func hasPending() throws -> Bool

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
    package mutating func refusal(
        of change: WritePlan.Change,
        by operation: WriteOperation,
        in table: Table
    ) throws -> ServerError? {
        if batchRows.isFollowing { batchRows.note(change, in: table) }
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
    /// - Throws: ``ServerError/cascadePending`` if the row has too many ancestors to tell.
    private mutating func isGoing(
        _ row: RowImage,
        in table: Table,
        _ graph: ReferenceGraph
    ) throws -> Bool {
        guard try hasPending() else { return false }
        var seen: Set<String> = [key(row.id, table)]
        var rows = [(row, table)]
        while let (row, table) = rows.popLast() {
            for edge in graph.parents(of: table.name) where edge.rule == .cascade {
                guard let id = edge.parentID(of: row),
                    seen.insert(key(id, edge.parent)).inserted
                else { continue }
                guard seen.count <= ancestorsMax else { throw ServerError.cascadePending }
                if try isPending(id, in: edge.parent) { return true }
                if let next = try parent(id, derived(edge.parent)), !next.isDeleted {
                    rows.append((next, edge.parent))
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
                        if let edge = try restriction(on: id, in: graph, of: table) {
                            return .rowIsReferenced(edge)
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
        batchRows.isFollowing = true
        defer {
            self.budget = budget
            batchRows.isFollowing = false
        }
        let outcome = try perform(operation, in: derived(table))
        guard outcome.decision.changesRow else { throw outcome.refusal ?? ServerError.notCommitted }
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
                // The parent is gone: the data of its owner were erased, or another server has other rules.
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
        let ended = isWhole ? entries : entries.filter { authors[$0.id] == nil }
        try remove(ended)
        return (count, ended.count)
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

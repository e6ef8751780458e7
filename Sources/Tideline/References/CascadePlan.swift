// CascadePlan: the rows that a local delete changes, because they refer to the row directly or through other rows.
//
// The rules are those of the server (docs/decisions/0055): all rows are found before anything is changed, a `restrict`
// anywhere among them prevents the delete, and rows are deleted before the rows that they refer to.

import TidelineCore

/// The rows that are deleted or lose their reference when the app deletes a row.
struct CascadePlan {
    /// The rows that are deleted, each before the rows that it refers to.
    private(set) var deleted: [RowKey] = []
    /// The rows whose reference becomes null.
    private(set) var cleared: [(edge: ModelReferences.Edge, id: String)] = []

    var count: Int { deleted.count + cleared.count }

    /// Finds the rows that the delete of a row changes.
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, or `transactionTooLarge` if there are too many such rows.
    init(of root: RowKey, _ queue: QueueTransaction) throws {
        let references = queue.catalog.references
        var found: [RowKey: Row] = [:]
        var seen: Set = [root]
        var level = [root.table: [root.itemID]]
        while !level.isEmpty {
            var next: [String: [String]] = [:]
            for (table, ids) in level.sorted(by: { $0.key < $1.key }) {
                for edge in references.children(of: table) {
                    try Self.eachRow(of: ids, by: edge, queue) { row in
                        let key = RowKey(edge.child, row.id)
                        switch edge.rule {
                        case .restrict:
                            let isOwn = table == edge.child && row[edge.column]?.text == row.id
                            if !isOwn { throw SyncError.rowIsReferenced(root, edge) }
                        case .setNull:
                            cleared.append((edge, row.id))
                        case .cascade:
                            guard seen.insert(key).inserted else { return }
                            found[key] = row
                            next[edge.child, default: []].append(row.id)
                        case .none: break
                        }
                        try Self.check(found.count + cleared.count, of: root, queue)
                    }
                }
            }
            level = next
        }
        // A row that is deleted keeps its references.
        cleared.removeAll { seen.contains(RowKey($0.edge.child, $0.id)) }
        deleted = Self.childrenFirst(found, references)
    }

    private static func check(_ count: Int, of root: RowKey, _ queue: QueueTransaction) throws {
        try queue.watch?.check()
        guard count > queue.limits.cascadeRowsMax else { return }
        throw SyncError.cascadeTooLarge(root, max: queue.limits.cascadeRowsMax)
    }

    /// Calls `body` with each row that refers to one of these ids; the rows contain only their ids
    /// and references.
    ///
    /// At most `cascadeRowsMax` + 1 rows are in memory, because `body` throws if there are too many.
    private static func eachRow(
        of ids: [String],
        by edge: ModelReferences.Edge,
        _ queue: QueueTransaction,
        _ body: (Row) throws -> Void
    ) throws {
        let columns = Set(queue.catalog.references.parents(of: edge.child).map(\.column))
        for start in stride(from: 0, to: ids.count, by: idsAtOnce) {
            let part = ids[start..<min(ids.count, start + idsAtOnce)]
            var query = TableQuery(filter: .isIn(edge.column, part.map(Value.string)))
            query.select = [SystemColumn.id] + columns.sorted()
            query.order = [SortKey(column: SystemColumn.id)]
            // One row that is not the parent itself is enough to prevent the delete.
            query.limit = edge.rule == .restrict ? part.count + 1 : queue.limits.cascadeRowsMax + 1
            try queue.store.rows(query, in: edge.child).forEach(body)
        }
    }

    private static let idsAtOnce = 500

    /// Returns the keys of rows, with each row before the rows that it refers to, unless the rows
    /// form a cycle.
    ///
    /// If a parent came first, the server would change or delete its children as well, and their own deletes would
    /// then conflict with a newer version.
    private static func childrenFirst(
        _ rows: [RowKey: Row],
        _ references: ModelReferences
    ) -> [RowKey] {
        let keys = rows.keys.sorted { ($0.table, $0.itemID) < ($1.table, $1.itemID) }
        let parentsFirst = keys.sortedByDependencies { key in
            guard let row = rows[key] else { return [] }
            return references.parents(of: row, in: key.table).filter { rows[$0] != nil }
        }
        return parentsFirst.reversed()
    }

    /// Checks that all rows belong to the account that changes them, before anything is changed.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount`.
    func checkAccounts(_ queue: QueueTransaction) throws {
        let keys = deleted + cleared.map { RowKey($0.edge.child, $0.id) }
        for key in keys {
            try queue.checkAccount(try queue.reader.operations(key.table, key.itemID))
        }
    }

    /// Changes the rows and queues their operations.
    func change(_ queue: QueueTransaction) throws {
        for (edge, id) in cleared {
            try queue.watch?.check()
            guard let stored = try queue.store.row(id: .string(id), in: edge.child) else {
                continue
            }
            var row = stored
            row[edge.column] = .null
            _ = try LocalChanges(queue: queue, table: edge.child).change(stored, to: row)
            queue.size?.add(row)
        }
        for key in deleted {
            try queue.watch?.check()
            queue.size?.add(id: key.itemID)
            try LocalChanges(queue: queue, table: key.table).deleteRow(key.itemID)
        }
    }
}

extension LocalChanges {
    /// Removes a row, applies the delete rules of the references to it, and queues all resulting operations, with the
    /// delete of the row last; does nothing if the row does not exist.
    ///
    /// The operations form one group, unless there are more operations than a batch can carry.
    func delete(_ id: String, basisVersion: (_ stored: Row) -> String? = { _ in nil }) throws {
        guard !queue.catalog.references.children(of: table).isEmpty,
            try queue.store.row(id: .string(id), in: table) != nil
        else { return try deleteRow(id, basisVersion: basisVersion) }
        var queue = queue
        var opened: String?
        let plan = try CascadePlan(of: RowKey(table, id), queue)
        if plan.count > 0 {
            try queue.checkAccount(try queue.reader.operations(table, id))
            try plan.checkAccounts(queue)
            if queue.group == nil, plan.count < queue.limits.transactionRowsMax {
                opened = queue.makeID()
                queue.group = opened
                queue.size = queue.size ?? GroupSize()
            }
            try plan.change(queue)
        }
        try LocalChanges(queue: queue, table: table, declared: declared)
            .deleteRow(id, isLast: true, basisVersion: basisVersion)
        if let opened, try queue.reader.count(group: opened) > queue.limits.transactionRowsMax {
            // Rejected operations of other rows made the group too large, so they are removed from
            // the group.
            try queue.separateEarlier(from: opened)
        }
    }
}

extension SyncError {
    fileprivate static func rowIsReferenced(
        _ row: RowKey,
        _ edge: ModelReferences.Edge
    ) -> SyncError {
        var error = SyncError(
            .rowIsReferenced,
            """
            Row '\(row.itemID)' of table '\(row.table)' cannot be deleted: rows of table '\(edge.child)' refer to \
            rows of '\(edge.parent)' by '\(edge.column)' with the rule 'restrict'. Delete or change them first.
            """
        )
        error.brokenReference = BrokenReference(
            reason: .rowIsReferenced,
            column: edge.column,
            table: edge.child
        )
        return error
    }

    fileprivate static func cascadeTooLarge(_ row: RowKey, max: Int) -> SyncError {
        SyncError(
            .transactionTooLarge,
            """
            Row '\(row.itemID)' of table '\(row.table)' cannot be deleted in one step: more than \(max) rows \
            (SyncLimits.cascadeRowsMax) would change with it. First delete the rows that refer to it, in batches.
            """
        )
    }
}

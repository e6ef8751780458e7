// MissingParents: the records whose parents the device does not have, found by comparing the tables.

import TidelineCore
import TidelineSQLite

/// The records of a table that refer to records which the device does not have.
///
/// ``SyncContext/missingParents()`` returns it.
public struct MissingParents: Sendable, Hashable {
    /// The table of the records.
    public var table: String
    /// The column with the id of the parent.
    public var column: String
    /// The table of the parents.
    public var parentTable: String
    /// The number of records whose parent is missing.
    public var count: Int
    /// The ids of the first of these records, at most 1,000, in their order.
    public var ids: [String]
}

extension SyncContext {
    /// Returns the records whose parents the device does not have, for each reference with such records.
    ///
    /// A record may arrive before its parent, or the parent may not match the queries of the pulls. Such a record is
    /// stored and returned by queries like any other. The tables are compared with each call, so the result is that
    /// of one committed state, and the time grows with the number of records that have a parent.
    ///
    /// References with the rule `none`, and those to tables that the store was opened without, do not count.
    ///
    /// ```swift
    /// for missing in try await client.syncContext.missingParents() {
    ///     print("\(missing.count) records of \(missing.table) have no \(missing.parentTable) here.")
    /// }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`, `storeFailure`, or `cancelled` if the task is
    ///   cancelled before the end.
    public nonisolated func missingParents() async throws -> [MissingParents] {
        let engine = try engine()
        do {
            return try await untilCancelled { stop in
                try await engine.read { reader in
                    try engine.catalog.references.all.compactMap {
                        try reader.missingParents($0, stop)
                    }
                }
            }
        } catch let error as CancellationError {
            throw SyncError.cancelledRead(error)
        }
    }
}

extension QueueReader {
    /// Returns the rows whose parents are missing; nil if there are none.
    fileprivate func missingParents(
        _ edge: ModelReferences.Edge,
        _ stop: QueryStop
    ) throws -> MissingParents? {
        var result = MissingParents(
            table: edge.child,
            column: edge.column,
            parentTable: edge.parent,
            count: 0,
            ids: []
        )
        var last: Value?
        while true {
            try stop.check()
            let hasParent = Filter.differs(edge.column, from: .null)
            var query = TableQuery(
                filter: last.map { hasParent && .greater(SystemColumn.id, $0) } ?? hasParent
            )
            query.select = [SystemColumn.id, edge.column]
            query.order = [SortKey(column: SystemColumn.id)]
            query.limit = Self.rowsAtOnce
            let rows = try store.rows(query, in: edge.child)
            let parents = Set(rows.compactMap { $0[edge.column]?.text })
            let known = try present(parents, in: edge.parent)
            for row in rows {
                guard let id = row[edge.column]?.text, !known.contains(ItemKey(id)) else {
                    continue
                }
                result.count += 1
                if result.ids.count < Self.idsMax { result.ids.append(row.id) }
            }
            guard rows.count == Self.rowsAtOnce else { break }
            last = rows.last?[SystemColumn.id]
        }
        return result.count == 0 ? nil : result
    }

    private static let rowsAtOnce = 500
    private static let idsMax = 1000

    /// Returns those of some ids that a table has.
    private func present(_ ids: Set<String>, in table: String) throws -> Set<ItemKey> {
        guard !ids.isEmpty else { return [] }
        let found = try self.ids(.isIn(SystemColumn.id, ids.sorted().map(Value.string)), in: table)
        return Set(found.map(ItemKey.init))
    }
}

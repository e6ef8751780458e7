// MissingParents: the records whose parents the device does not have, found by comparing the tables.

import TidelineCore

/// The records of a table that refer to records which the device does not have.
///
/// ``SyncReader/missingParents()`` returns it.
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

extension SyncReader {
    /// Returns the records whose parents the device does not have, for each reference with such records.
    ///
    /// A record may arrive before its parent, or the parent may not match the queries of the pulls. Such a record is
    /// stored and returned by queries like any other. The tables are compared with each call, so the time grows with
    /// the number of records that have a parent.
    ///
    /// References with the rule `none`, and those to tables that the store was opened without, do not count.
    ///
    /// ```swift
    /// let missing = try await client.syncContext.read { try $0.missingParents() }
    /// for reference in missing {
    ///     print("\(reference.count) records of \(reference.table) have no \(reference.parentTable) here.")
    /// }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `transactionEnded` after the end of the closure, `storeFailure`, or
    ///   `cancelled` if the task is cancelled before the end.
    public func missingParents() throws -> [MissingParents] {
        let edges = engine.catalog.references.all
        record { region in
            for edge in edges {
                region.add(table: edge.child)
                region.add(table: edge.parent)
            }
        }
        return try edges.compactMap { edge in
            var result = MissingParents(
                table: edge.child,
                column: edge.column,
                parentTable: edge.parent,
                count: 0,
                ids: []
            )
            var last: Value?
            repeat { last = try addPage(after: last, by: edge, to: &result) } while last != nil
            return result.count == 0 ? nil : result
        }
    }

    /// Adds the rows of a page whose parents are missing; returns the last id, or nil after the last page.
    private func addPage(
        after last: Value?,
        by edge: ModelReferences.Edge,
        to result: inout MissingParents
    ) throws -> Value? {
        let hasParent = Filter.differs(edge.column, from: .null)
        var query = TableQuery(
            filter: last.map { hasParent && .greater(SystemColumn.id, $0) } ?? hasParent
        )
        query.select = [SystemColumn.id, edge.column]
        query.order = [SortKey(column: SystemColumn.id)]
        query.limit = MissingParents.rowsAtOnce
        let page = query
        let rows = try reading { try $0.rows(page, in: edge.child) }
        let parents = Set(rows.compactMap { $0[edge.column]?.text })
        let known = try present(parents, in: edge.parent)
        for row in rows {
            guard let id = row[edge.column]?.text, !known.contains(ItemKey(id)) else { continue }
            result.count += 1
            if result.ids.count < MissingParents.idsMax { result.ids.append(row.id) }
        }
        return rows.count == MissingParents.rowsAtOnce ? rows.last?[SystemColumn.id] : nil
    }

    /// Returns those of some ids that a table has.
    private func present(_ ids: Set<String>, in table: String) throws -> Set<ItemKey> {
        guard !ids.isEmpty else { return [] }
        var query = TableQuery(filter: .isIn(SystemColumn.id, ids.sorted().map(Value.string)))
        query.select = [SystemColumn.id]
        let page = query
        return Set(try reading { try $0.rows(page, in: table) }.map { ItemKey($0.id) })
    }
}

extension MissingParents {
    /// The number of rows that are compared at a time.
    fileprivate static let rowsAtOnce = 500
    fileprivate static let idsMax = 1000
}

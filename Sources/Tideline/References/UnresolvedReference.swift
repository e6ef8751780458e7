// UnresolvedReference: a reference to parents that the device does not have, found by comparing the tables.

import TidelineCore

/// A reference of a table, with the records whose parent the device does not have.
///
/// ``SyncReader/missingParents()`` returns one value for each such reference.
public struct UnresolvedReference: Sendable, Hashable {
    /// The table of the records.
    public var table: String
    /// The column with the id of the parent.
    public var column: String
    /// The table of the parents.
    public var parentTable: String
    /// The number of records whose parent is missing.
    public var count: Int
    /// The ids of these records, in order; at most the first 1,000.
    public var ids: [String]
}

extension SyncReader {
    /// Returns the records whose parents the device does not have, grouped by reference.
    ///
    /// A record may arrive before its parent, or the parent may not match the queries of the pulls. Such a record is
    /// stored and returned by queries like any other. The tables are compared with each call, so the time grows with
    /// the number of records that have a parent.
    ///
    /// References with the rule `none`, and references to tables that the store was opened without, are ignored.
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
    public func missingParents() throws -> [UnresolvedReference] {
        let edges = engine.catalog.references.all
        record { region in
            for edge in edges {
                region.add(table: edge.child)
                region.add(table: edge.parent)
            }
        }
        return try edges.compactMap { try missingParents(by: $0) }
    }

    /// Compares the two tables of a reference in the store; returns nil if no parent is missing.
    private func missingParents(by edge: ModelReferences.Edge) throws -> UnresolvedReference? {
        let parent = RelatedRows(
            column: edge.column,
            table: edge.parent,
            key: SystemColumn.id,
            condition: nil
        )
        let hasParent = QueryExpression(.related(parent))
        let isMissing =
            Filter.differs(edge.column, from: .null) && Filter(QueryExpression(.not(hasParent)))
        let count = try reading { try $0.count(isMissing, in: edge.child) }
        guard count > 0 else { return nil }
        var query = TableQuery(filter: isMissing)
        query.select = [SystemColumn.id]
        query.order = [SortKey(column: SystemColumn.id)]
        query.limit = UnresolvedReference.idsMax
        let first = query
        return UnresolvedReference(
            table: edge.child,
            column: edge.column,
            parentTable: edge.parent,
            count: count,
            ids: try reading { try $0.rows(first, in: edge.child) }.map(\.id)
        )
    }
}

extension UnresolvedReference {
    fileprivate static let idsMax = 1000
}

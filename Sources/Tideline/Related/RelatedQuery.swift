// RelatedQuery: a query whose records come with the records of other tables.

import TidelineCore

/// A query that another query can include: a ``Query``, or a ``RelatedQuery``.
///
/// Only these two types conform to it.
public protocol IncludableQuery<Record>: Sendable {
    /// The type of the query's records.
    associatedtype Record: SyncRecord
    /// The type of the elements of the query's result.
    associatedtype Entry: Sendable

    /// The query as part of another query.
    var included: IncludedQuery<Record, Entry> { get }
}

/// A query that is part of another query.
public struct IncludedQuery<Record: SyncRecord, Entry: Sendable>: Sendable {
    let query: TableQuery
    /// The reader of the entries for the rows that the query returned, in its initial state.
    let reader: any EntryReading<Record, Entry>
    /// The queries of the related records, at any depth.
    var relatedQueries: [TableQuery] = []
    /// The tables of the related records.
    var relatedTables: [String] = []
}

/// A query of records with related records: their children, their parents, or both.
///
/// ```swift
/// let open = try Query<Job> { $0.status == .open }
///     .sorted(by: .descending(\.createdAt))
///     .limited(to: 3)
/// let customers = try Query<Customer> { $0.city == "Kiel" }
///     .including(open, on: \.customerID)
/// for entry in try await client.syncContext.read(customers) {
///     show((entry.record, entry.related))
/// }
/// ```
///
/// Each table is read with one statement, regardless of the number of records. A condition, an order and a limit of an
/// included query apply to the children of each record: the example reads at most three jobs of each customer.
public struct RelatedQuery<Record: SyncRecord, Related: Sendable>: Sendable {
    /// The query of the records to which the related records belong.
    public var query: Query<Record>

    let part: RelatedPart<Related>

    /// The query, with the columns that refer to related records.
    fileprivate var table: TableQuery {
        var table = query.table
        guard let names = table.select else { return table }
        table.select = names + part.columns.filter { !names.contains($0) }
        return table
    }
}

extension RelatedQuery: IncludableQuery {
    /// The query as part of another query.
    public var included: IncludedQuery<Record, WithRelated<Record, Related>> {
        IncludedQuery(
            query: table,
            reader: EntriesWithRelated(part.values),
            relatedQueries: part.queries,
            relatedTables: part.tables
        )
    }
}

extension RelatedQuery {
    /// Returns the query with the children of each record, in addition to its other related records.
    ///
    /// - Throws: The errors of the same method in ``Query``.
    public func including<Children: IncludableQuery>(
        _ children: Children,
        on reference: PartialKeyPath<Children.Record>? = nil
    ) throws -> RelatedQuery<Record, RelatedPair<Related, [Children.Entry]>> {
        let added = try query.including(children, on: reference)
        return RelatedQuery<_, _>(query: query, part: .pair(part, added.part))
    }

    /// Returns the query with the parent of each record, in addition to its other related records.
    ///
    /// - Throws: The errors of the same method in ``Query``.
    public func including<Parent: IncludableQuery>(
        parent: Parent,
        on reference: PartialKeyPath<Record>? = nil
    ) throws -> RelatedQuery<Record, RelatedPair<Related, Parent.Entry?>> {
        let added = try query.including(parent: parent, on: reference)
        return RelatedQuery<_, _>(query: query, part: .pair(part, added.part))
    }
}

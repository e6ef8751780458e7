// RelatedQuery: a query whose records come with the records of other tables.

import TidelineCore

/// A query whose result is related to the records of another query: a ``Query``, or a ``RelatedQuery``.
///
/// Only these two types conform to it.
public protocol IncludableQuery<Record>: Sendable {
    /// The type of the query's records.
    associatedtype Record: SyncRecord
    /// The type of the elements of its result.
    associatedtype Entry: Sendable

    /// The query as a part of another one.
    var included: IncludedQuery<Record, Entry> { get }
}

/// A query as a part of another one.
public struct IncludedQuery<Record: SyncRecord, Entry: Sendable>: Sendable {
    let query: TableQuery
    /// Returns the entries of rows that the query returned; nil for a row that is skipped, because it does not decode.
    let entries: @Sendable (RelatedReading, ReaderTable<Record>, [Row]) throws -> [Entry?]
}

extension Query: IncludableQuery where Record: SyncRecord {
    /// The query as a part of another one.
    public var included: IncludedQuery<Record, Record> {
        IncludedQuery(query: table) { try $0.records(of: $2, $1) }
    }
}

/// A query of records with related records: their children, their parents, or both.
///
/// ```swift
/// let open = try Query<Job> { $0.status == .open }
///     .sorted(by: .descending(\.due))
///     .limited(to: 3)
/// let customers = try Query<Customer> { $0.city == "Kiel" }
///     .including(open, on: \.customerID)
/// for entry in try await context.read(customers) { show(entry.record, entry.related) }
/// ```
///
/// Each table is read with one statement, however many records there are. A condition, an order and a limit of an
/// included query apply to the children of each record: the example reads at most three jobs of each customer.
public struct RelatedQuery<Record: SyncRecord, each Related: Sendable>: Sendable {
    /// The query of the records that have the related ones.
    public var query: Query<Record>

    let parts: (repeat RelatedPart<each Related>)

    init(_ query: Query<Record>, _ parts: repeat RelatedPart<each Related>) {
        self.query = query
        self.parts = (repeat each parts)
    }

    /// The query, with the columns that refer to related records.
    var table: TableQuery {
        var table = query.table
        guard var names = table.select else { return table }
        for part in repeat each parts {
            if !names.contains(part.column) { names.append(part.column) }
        }
        table.select = names
        return table
    }
}

extension RelatedQuery: IncludableQuery {
    /// The query as a part of another one.
    public var included: IncludedQuery<Record, WithRelated<Record, repeat each Related>> {
        IncludedQuery(query: table) { [parts] reading, table, rows in
            let records = try reading.records(of: rows, table)
            let related = (repeat try (each parts).read(reading, rows))
            return records.indices.map { index in
                records[index].map { WithRelated($0, repeat (each related)[index]) }
            }
        }
    }
}

extension Query where Record: SyncRecord {
    /// Returns the query with the children of each record: those whose property has its id.
    ///
    /// ```swift
    /// let customers = try Query<Customer>().including(Query<Job>(), on: \.customerID)
    /// ```
    ///
    /// Condition, order, limit and offset of `children` apply to the children of each record. The children may have
    /// related records as well.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column, or `invalidModel`.
    public func including<Children: IncludableQuery, Key: ReferenceKey>(
        _ children: Children,
        on reference: KeyPath<Children.Record, Key>
    ) throws -> RelatedQuery<Record, [Children.Entry]> {
        RelatedQuery(self, try .children(children.included, on: reference))
    }

    /// Returns the query with the parent of each record: the one whose id is in the property.
    ///
    /// ```swift
    /// let jobs = try Query<Job>().including(parent: Query<Customer>(), on: \.customerID)
    /// ```
    ///
    /// The parent is nil if the property is, if the device does not have the parent, or if it does not match the
    /// condition of `parent`. To read only the records that have one, add the condition ``Columns/hasParent(_:on:where:)``.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column, and for a query of parents
    ///   with a limit or an offset; or `invalidModel`.
    public func including<Parent: IncludableQuery, Key: ReferenceKey>(
        parent: Parent,
        on reference: KeyPath<Record, Key>
    ) throws -> RelatedQuery<Record, Parent.Entry?> {
        RelatedQuery(self, try .parent(parent.included, on: reference))
    }
}

extension RelatedQuery {
    /// Returns the query with the children of each record, in addition to its other related records.
    ///
    /// - Throws: As the method of ``Query``.
    public func including<Children: IncludableQuery, Key: ReferenceKey>(
        _ children: Children,
        on reference: KeyPath<Children.Record, Key>
    ) throws -> RelatedQuery<Record, repeat each Related, [Children.Entry]> {
        RelatedQuery<Record, repeat each Related, [Children.Entry]>(
            query,
            repeat each parts,
            try .children(children.included, on: reference)
        )
    }

    /// Returns the query with the parent of each record, in addition to its other related records.
    ///
    /// - Throws: As the method of ``Query``.
    public func including<Parent: IncludableQuery, Key: ReferenceKey>(
        parent: Parent,
        on reference: KeyPath<Record, Key>
    ) throws -> RelatedQuery<Record, repeat each Related, Parent.Entry?> {
        RelatedQuery<Record, repeat each Related, Parent.Entry?>(
            query,
            repeat each parts,
            try .parent(parent.included, on: reference)
        )
    }
}

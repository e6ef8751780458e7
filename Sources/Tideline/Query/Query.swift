// Query and Page: a complete read as a value, and its result.

public import Foundation
public import TidelineCore

/// A description of a read: the condition, the order, and the range of the result.
///
/// ```swift
/// var query = try Query<TodoItem>(where: { !$0.complete })
///     .sorted(by: .descending(\.rank), .ascending(\.text))
///     .limited(to: 20)
/// query.includesTotalCount = true
/// let page = try await todos.read(query)
/// ```
public struct Query<Record: Sendable>: Sendable {
    /// The query without the record's type.
    package var table: TableQuery

    package init(_ table: TableQuery) { self.table = table }

    /// Creates a query of all records.
    public init() { table = TableQuery() }

    /// Creates a query of the records that match a closure over the columns.
    ///
    /// For rows without a model, the closure names the columns: `$0["complete"] == false`.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column or a
    ///   value without a column type, `invalidModel`, and the errors of the closure.
    public init(where condition: (Columns<Record>) throws -> Condition) throws {
        table = TableQuery(filter: try Filter(for: Record.self, where: condition).unlessTrivial)
    }

    /// Creates a query of the records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, which names the unsupported expression, or
    ///   `invalidModel`.
    public init(where predicate: Predicate<Record>) throws where Record: SyncRecord {
        table = TableQuery(filter: try Filter(predicate).unlessTrivial)
    }

    /// The condition; nil for all records.
    public var filter: Filter? {
        get { table.filter }
        set { table.filter = newValue }
    }

    /// The order.
    ///
    /// Ties are broken by `id`.
    public var order: [SortKey] {
        get { table.order }
        set { table.order = newValue }
    }

    /// The maximum number of records to read; nil for all.
    public var limit: Int? {
        get { table.limit }
        set { table.limit = newValue }
    }

    /// The number of records to skip at the start of the result.
    public var offset: Int {
        get { table.offset }
        set { table.offset = newValue }
    }

    /// The names of the columns to read; nil for all.
    ///
    /// Other columns decode as if they were missing.
    public var fields: [String]? {
        get { table.select }
        set { table.select = newValue }
    }

    /// Whether the result includes the number of records that match the filter, ignoring limit and offset.
    public var includesTotalCount: Bool {
        get { table.includesTotalCount }
        set { table.includesTotalCount = newValue }
    }

    /// Whether the result includes deleted records.
    public var includesDeleted: Bool {
        get { table.includesDeleted }
        set { table.includesDeleted = newValue }
    }

    /// Additional parameters for the server, sent unchanged.
    public var parameters: [String: String] {
        get { table.parameters }
        set { table.parameters = newValue }
    }
}

extension Query {
    /// Returns the query with this order, which replaces its previous order.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a key path that has no column, or
    ///   `invalidModel`.
    public func sorted(by terms: SortTerm<Record>...) throws -> Query {
        try sorted(by: terms)
    }

    /// Returns the query with this order, which replaces its previous order.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a key path that has no column, or
    ///   `invalidModel`.
    public func sorted(by terms: [SortTerm<Record>]) throws -> Query {
        var copy = self
        copy.order = try terms.map { try $0.sortKey() }
        return copy
    }

    /// Returns the query with at most `limit` records, after the first `offset` records.
    public func limited(to limit: Int, offset: Int = 0) -> Query {
        var copy = self
        copy.limit = limit
        copy.offset = offset
        return copy
    }

    /// Returns the query, restricted to records that contain all words of a search text.
    ///
    /// ```swift
    /// let page = try await todos.read(Query().matching("oat milk").limited(to: 20))
    /// ```
    ///
    /// See ``Columns/matching(_:)``.
    public func matching(_ text: String) -> Query {
        var copy = self
        let search = QueryExpression(.search(.matches(text)))
        copy.filter = Filter(filter.map { .and($0.expression, search) } ?? search)
        return copy
    }
}

extension Query {
    /// Creates a query of the records that match a condition.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `invalidModel` if the condition could not be created.
    public init(where condition: RecordCondition<Record>) throws {
        try self.init(where: { condition($0) })
    }

    /// Returns the query, restricted to records that also match a closure over the columns.
    ///
    /// ```swift
    /// let open = try Query<TodoItem>().filter { !$0.complete }
    /// let urgent = try open.filter { $0.rank > 3 }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `invalidModel`, and the errors of the closure.
    public func filter(_ condition: (Columns<Record>) throws -> Condition) throws -> Query {
        adding(try Filter(for: Record.self, where: condition))
    }

    /// Returns the query, restricted to records that also match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `invalidModel`.
    public func filter(_ predicate: Predicate<Record>) throws -> Query where Record: SyncRecord {
        adding(try Filter(predicate))
    }

    private func adding(_ filter: Filter) -> Query {
        var copy = self
        let known = table.filter?.expression ?? .constant(true)
        copy.table.filter = Filter(.and(known, filter.expression)).unlessTrivial
        return copy
    }

    /// Returns the query, restricted to records that also match a condition.
    ///
    /// - Throws: The errors of creating a query with this condition.
    public func filter(_ condition: RecordCondition<Record>) throws -> Query {
        try filter { condition($0) }
    }
}

extension Query where Record: SyncRecord {
    /// Returns the query ordered by sort descriptors.
    ///
    /// Only their key paths and directions are used.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a descriptor without a key path, or
    ///   with a key path that has no column.
    @_disfavoredOverload
    public func sorted(by descriptors: SortDescriptor<Record>...) throws -> Query {
        try sorted(by: descriptors)
    }

    /// Returns the query ordered by sort descriptors.
    ///
    /// Only their key paths and directions are used.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a descriptor without a key path, or
    ///   with a key path that has no column.
    @_disfavoredOverload
    public func sorted(by descriptors: [SortDescriptor<Record>]) throws -> Query {
        var copy = self
        copy.order = try descriptors.map { try SortTerm($0).sortKey() }
        return copy
    }

    /// Returns the query with only these columns and the id.
    ///
    /// Use it for records that are only displayed. The other properties of these records are nil or have their
    /// defaults. An update with such a record never overwrites the row's other values: it throws ``SyncError`` with
    /// code `partialRecord`. Use `update(id:_:)` to change a row that was read in this way.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a key path that has no column.
    public func selecting(_ paths: PartialKeyPath<Record>...) throws -> Query {
        let schema = try RecordSchema.of(Record.self)
        var names = [SystemColumn.id]
        for path in paths {
            let name = try schema.column(for: path)
            if !names.contains(name) { names.append(name) }
        }
        var copy = self
        copy.fields = names
        return copy
    }

    /// Returns the query for the records that come after a given record in the order of this query.
    ///
    /// Use it to read a long list page by page:
    ///
    /// ```swift
    /// let query = try Query<TodoItem>().sorted(by: .ascending(\.text, .localized)).limited(to: 50)
    /// let page = try await todos.read(query).items
    /// guard let last = page.last else { return }
    /// let next = try await todos.read(query.after(last)).items
    /// ```
    ///
    /// If records are added or removed between the reads, no other record is skipped or returned twice. A record may be
    /// skipped or returned twice if one of the values that it is sorted by changes. The given record may have been
    /// deleted. Every order works, including one with several sort terms, null values or equal values; ties are broken
    /// by `id`.
    ///
    /// Call it after ``sorted(by:)-(SortTerm<Record>...)``, because it uses the order that the query has at the time of
    /// the call. The total count of the returned query is the number of records after the given record.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an order by rank, for an order by a column
    ///   that the record does not have, and for a query whose selected columns do not include those of the
    ///   order; or `invalidModel`.
    public func after(_ record: Record) throws -> Query {
        let position = try QueryPosition(of: record, in: table)
        var copy = self
        let known = table.filter?.expression ?? .constant(true)
        copy.table.filter = Filter(.and(known, position.condition))
        return copy
    }
}

extension Query: IncludableQuery where Record: SyncRecord {
    /// The query as part of another query.
    public var included: IncludedQuery<Record, Record> {
        IncludedQuery(query: table, reader: RecordEntries<Record>())
    }
}

extension Query where Record: SyncRecord {
    /// Returns the query with the children of each record: the records whose property has the
    /// record's id.
    ///
    /// ```swift
    /// let customers = try Query<Customer>().including(Query<Job>(), on: \.customerID)
    /// ```
    ///
    /// `reference` is that property. Omit it if the children's model declares exactly one reference to this model. The
    /// condition, order, limit and offset of `children` apply to the children of each record separately. The children
    /// may have related records as well.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column, and if the property is
    ///   omitted although the model does not declare exactly one such reference; or `invalidModel`.
    public func including<Children: IncludableQuery>(
        _ children: Children,
        on reference: PartialKeyPath<Children.Record>? = nil
    ) throws -> RelatedQuery<Record, [Children.Entry]> {
        RelatedQuery(
            query: self,
            part: try .children(children.included, of: Record.self, on: reference)
        )
    }

    /// Returns the query with the parent of each record: the record whose id is in the property.
    ///
    /// ```swift
    /// let jobs = try Query<Job>().including(parent: Query<Customer>(), on: \.customerID)
    /// ```
    ///
    /// Omit `reference` if the model declares exactly one reference to the model of the parent. The parent is nil if
    /// the property is nil, if the device does not have the parent, or if the parent does not match the condition of
    /// `parent`. To read only records with a parent, add the condition ``Columns/hasParent(_:on:where:)``.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column, and for a query of parents
    ///   with a limit or an offset; or `invalidModel`.
    public func including<Parent: IncludableQuery>(
        parent: Parent,
        on reference: PartialKeyPath<Record>? = nil
    ) throws -> RelatedQuery<Record, Parent.Entry?> {
        RelatedQuery(
            query: self,
            part: try .parent(parent.included, of: Record.self, on: reference)
        )
    }
}

/// The result of a query.
public struct Page<Record: Sendable>: Sendable {
    /// The records, in the order of the query.
    public var items: [Record]

    /// The number of records that match the filter, if the query asked for it.
    public var totalCount: Int?

    /// Creates a page.
    public init(items: [Record], totalCount: Int? = nil) {
        self.items = items
        self.totalCount = totalCount
    }
}

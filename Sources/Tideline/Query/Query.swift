// Query and Page: a whole read as a value, and what it gives.

public import Foundation
public import TidelineCore

/// A read as a value: which records, in what order, which part of them.
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

    /// All records.
    public init() { table = TableQuery() }

    /// The records that a closure over the columns describes.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column or a
    ///   value without a column type, `invalidModel`, and what the closure throws.
    public init(where condition: (Columns<Record>) throws -> Condition) throws
    where Record: SyncRecord {
        table = TableQuery(filter: try Filter(for: Record.self, where: condition).unlessTrivial)
    }

    /// The rows that a closure over columns by name describes.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a value without a column type, and
    ///   what the closure throws.
    public init(where condition: (Columns<Record>) throws -> Condition) throws
    where Record == Row {
        table = TableQuery(filter: try Filter(where: condition).unlessTrivial)
    }

    /// The records that a predicate describes.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` that names what has no column form, or
    ///   `invalidModel`.
    public init(where predicate: Predicate<Record>) throws where Record: SyncRecord {
        table = TableQuery(filter: try Filter(predicate).unlessTrivial)
    }

    /// The condition; nil for all records.
    public var filter: Filter? {
        get { table.filter }
        set { table.filter = newValue }
    }

    /// The order; ties are broken by `id`.
    public var order: [SortKey] {
        get { table.order }
        set { table.order = newValue }
    }

    /// The most records to read; nil for all.
    public var limit: Int? {
        get { table.limit }
        set { table.limit = newValue }
    }

    /// How many records of the result to leave out first.
    public var offset: Int {
        get { table.offset }
        set { table.offset = newValue }
    }

    /// The names of the columns to read; nil for all.
    ///
    /// The others decode as if they were missing.
    public var fields: [String]? {
        get { table.select }
        set { table.select = newValue }
    }

    /// Whether the page says how many records the filter has, whatever limit and offset.
    public var includesTotalCount: Bool {
        get { table.includesTotalCount }
        set { table.includesTotalCount = newValue }
    }

    /// Whether deleted records belong to the result.
    public var includesDeleted: Bool {
        get { table.includesDeleted }
        set { table.includesDeleted = newValue }
    }

    /// Further parameters for the server, sent as they are.
    public var parameters: [String: String] {
        get { table.parameters }
        set { table.parameters = newValue }
    }
}

extension Query {
    /// The query with this order instead of its own.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a key path that has no column, or
    ///   `invalidModel`.
    public func sorted(by terms: SortTerm<Record>...) throws -> Query {
        try sorted(by: terms)
    }

    /// The query with this order instead of its own.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a key path that has no column, or
    ///   `invalidModel`.
    public func sorted(by terms: [SortTerm<Record>]) throws -> Query {
        var copy = self
        copy.order = try terms.map { try $0.sortKey() }
        return copy
    }

    /// The query with at most `limit` records, after `offset` left out.
    public func limited(to limit: Int, offset: Int = 0) -> Query {
        var copy = self
        copy.limit = limit
        copy.offset = offset
        return copy
    }

    /// The query with the total count.
    public func countingAll() -> Query {
        var copy = self
        copy.includesTotalCount = true
        return copy
    }

    /// The query with one more parameter for the server.
    public func parameter(_ name: String, _ value: String) -> Query {
        var copy = self
        copy.parameters[name] = value
        return copy
    }
}

extension Query where Record: SyncRecord {
    /// The query with the order of descriptors; only their key paths and directions are taken.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a descriptor without a key path, or
    ///   with one that has no column.
    @_disfavoredOverload
    public func sorted(by descriptors: SortDescriptor<Record>...) throws -> Query {
        try sorted(by: descriptors)
    }

    /// The query with the order of descriptors; only their key paths and directions are taken.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a descriptor without a key path, or
    ///   with one that has no column.
    @_disfavoredOverload
    public func sorted(by descriptors: [SortDescriptor<Record>]) throws -> Query {
        var copy = self
        copy.order = try descriptors.map { try SortTerm($0).sortKey() }
        return copy
    }

    /// The query with these columns only, and the id.
    ///
    /// For records that are shown. The other properties of these records have nil or their defaults. An update
    /// with such a record never writes them over what the row has: it throws ``SyncError`` with code
    /// `partialRecord`. Change a row that was read like this by `update(id:_:)`.
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
}

/// The records that a query gave.
public struct Page<Record: Sendable>: Sendable {
    /// The records, in the order of the query.
    public var items: [Record]

    /// How many records the filter has, when the query asked for it.
    public var totalCount: Int?

    /// Makes a page.
    public init(items: [Record], totalCount: Int? = nil) {
        self.items = items
        self.totalCount = totalCount
    }
}

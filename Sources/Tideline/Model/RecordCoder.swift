// RecordCoder: records as rows.
//
// A coder consists of closures, so that tables of typed records and tables of plain rows share generic code. Only the
// code that creates the coder knows the record's type.

public import TidelineCore

/// The policy of a read for rows that do not decode.
///
/// Such a row is kept and synced in either case.
public enum DecodingFailurePolicy: Sendable {
    /// The read throws ``SyncError`` with code `rowDoesNotFit`.
    case `throw`
    /// The read skips the row.
    case skip
}

/// A stored row that does not decode into its record type.
///
/// It names the table, the row and the column, never a value. It is the `cause` of a ``SyncError`` with code
/// `rowDoesNotFit`, and an element of ``LiveQuery/decodingFailures``.
public struct DecodingFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The table's name.
    public let table: String
    /// The row's id.
    public let itemID: String
    /// The column that does not fit the record type's property.
    public let column: String
    /// A description of the failure and how to fix it.
    public let message: String

    /// The message.
    public var description: String { message }
}

/// A coder that converts the records of one table to rows and back.
package struct RecordCoder<Record: Sendable>: Sendable {
    /// The table's name and columns, from the app's declaration if there is one, otherwise from the model.
    package let table: TableSchema
    /// The model's columns; nil for plain rows.
    package let schema: RecordSchema?
    package let encode: @Sendable (Record) throws -> Row
    package let decode: @Sendable (Row) throws -> Record
    package let id: @Sendable (Record) -> String

    /// The declared columns that rows without a model are checked against; nil if the table has a model.
    var declared: TableSchema? { schema == nil ? table : nil }

    /// The values that filters and orders use for columns without a value; nil for plain rows, which keep their
    /// null values.
    let absent: AbsentValues?

    private let decodePage: @Sendable ([Row], DecodingFailurePolicy) throws -> [Record]

    /// Decodes the rows of a page, in order.
    package func decode(
        _ rows: [Row],
        onDecodingFailure: DecodingFailurePolicy
    ) throws -> [Record] {
        try decodePage(rows, onDecodingFailure)
    }

    /// Returns a query with the condition that finds the same rows as a comparison of decoded records; see
    /// `rows`.
    func applyingDefaults(_ query: TableQuery) -> TableQuery {
        absent?.applyingDefaults(query) ?? query
    }

    /// Returns the condition that finds the same rows as a comparison of decoded records.
    func applyingDefaults(_ filter: Filter?) -> Filter? {
        absent.map { $0.applyingDefaults(filter) } ?? filter
    }

    /// The property that identifies the state in which a record was read.
    package var identity: RecordIdentity {
        if declares(SystemColumn.version) { return .version }
        return declares(SystemColumn.updatedAt) ? .updatedAt : .nothing
    }

    /// - Throws: ``SyncError`` with code `versionRequired` if the record type has no property that identifies
    ///   the state.
    func checkIdentity() throws {
        guard identity == .nothing, !table.isLocalOnly else { return }
        throw SyncError.versionRequired(table: table.name, type: "\(Record.self)")
    }

    /// Returns whether the record type has a property for a system column.
    package func declares(_ systemColumn: String) -> Bool {
        schema.map { $0.systemProperties.contains(systemColumn) } ?? true
    }
}

extension RecordCoder {
    /// Returns the rows of a query from `applyingDefaults(_:)`, in the order of the decoded records.
    ///
    /// If every row has a value in a column, the column itself is the sort key, so that an index can be used. If the
    /// result does not show whether a value is missing, the rows without a value are counted.
    func rows(_ query: TableQuery, of store: any LocalStoreReader) throws -> [Row] {
        let rows = try read(query, of: store)
        guard let absent else { return rows }
        let columns = absent.columns(in: query.order)
        let missing = try columns.filter { column in
            if let isMissing = absent.isMissing(column, in: rows, of: query) { return isMissing }
            let isNull = Filter.equal(column, .null)
            let filter = query.filter.map { $0 && isNull } ?? isNull
            return try store.count(filter, in: table.name) > 0
        }
        guard !missing.isEmpty else { return rows }
        return try read(absent.ordered(query, without: missing), of: store)
    }

    /// Returns the rows of a query for several keys, in the order of the decoded records.
    ///
    /// A row without a value is ordered by the default of its property, which no index knows. A read in the order of an
    /// index is therefore correct only if no row lacks a value. If the result does not show whether that is the case,
    /// the rows without a value are counted. For a few keys, the count would cost more than the index saves.
    func rows(
        _ query: KeyedQuery,
        ofFewKeys hasFewKeys: Bool,
        of store: any LocalStoreReader
    ) throws -> [Row] {
        func read(_ query: KeyedQuery) throws -> [Row] {
            try store.keyedRows(query, in: table.name, omitting: MembershipMask.name)
        }
        if hasFewKeys, let absent {
            var ordered = query
            let columns = absent.columns(in: query.query.order)
            ordered.query = absent.ordered(query.query, without: columns)
            return try read(ordered)
        }
        let rows = try read(query)
        guard let absent else { return rows }
        let (limit, offset) = (query.query.limit, query.query.offset)
        let missing = try absent.columns(in: query.query.order).filter { column in
            if limit == nil, offset == 0,
                let isMissing = absent.isMissing(column, in: rows, of: query.query)
            {
                return isMissing
            }
            let isNull = Filter.equal(column, .null)
            let filter = query.query.filter.map { $0 && isNull } ?? isNull
            return try store.count(filter, in: table.name) > 0
        }
        guard !missing.isEmpty else { return rows }
        var ordered = query
        ordered.query = absent.ordered(query.query, without: missing)
        return try read(ordered)
    }

    private func read(_ query: TableQuery, of store: any LocalStoreReader) throws -> [Row] {
        guard schema != nil, query.select == nil else {
            return try store.rows(query, in: table.name)
        }
        return try store.recordRows(query, in: table.name, omitting: MembershipMask.name)
    }
}

extension RecordCoder where Record: SyncRecord {
    /// Creates the coder of a model.
    ///
    /// `declared` is the schema that the app declared for the table; its defaults take precedence.
    package static func model(
        for type: Record.Type,
        declared: TableSchema? = nil
    ) throws -> RecordCoder {
        let schema = try RecordSchema.of(type)
        let defaults = schema.defaults(declared: declared)
        return RecordCoder(
            table: declared ?? schema.table,
            schema: schema,
            encode: { try RowWriter.row(of: $0, schema) },
            decode: { try RowReader(schema, defaults: defaults).read($0, as: type) },
            id: { $0.id },
            absent: AbsentValues(schema, table: declared ?? schema.table),
            decodePage: { rows, onDecodingFailure in
                let reader = RowReader(schema, defaults: defaults)
                var records: [Record] = []
                records.reserveCapacity(rows.count)
                for row in rows {
                    do {
                        records.append(try reader.read(row, as: type))
                    } catch  where onDecodingFailure == .skip {
                        continue
                    }
                }
                return records
            }
        )
    }
}

extension RecordCoder where Record == Row {
    /// Creates the coder of plain rows, which only rounds dates.
    package static func untyped(table: TableSchema) -> RecordCoder {
        RecordCoder(
            table: table,
            schema: nil,
            encode: { $0.inMilliseconds },
            decode: { $0 },
            id: { $0.id },
            absent: nil,
            decodePage: { rows, _ in rows }
        )
    }
}

extension RecordSchema {
    /// Returns one default for each column; null if a column has none.
    func defaults(declared: TableSchema? = nil) -> [Value] {
        columns.map { column in
            let given = declared?.columns.first { $0.name == column.name }?.defaultValue
            return given ?? column.defaultValue ?? ownDefaults[column.name] ?? .null
        }
    }
}

extension Row {
    /// The row with its dates rounded, as in every store and on the wire.
    ///
    /// Dates that are out of range are not changed; RowCheck rejects them.
    var inMilliseconds: Row {
        var result = self
        for (name, value) in self {
            guard case .date(let date) = value, let rounded = Value.milliseconds(date) else {
                continue
            }
            if rounded != value { result[name] = rounded }
        }
        return result
    }

    /// Creates the row of a record, with every column of its model; nil becomes null.
    ///
    /// Dates are rounded to milliseconds; nested `Codable` values become JSON documents.
    ///
    /// ```swift
    /// let row = try Row(milk)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit` for a value that no column can hold (a
    ///   number that is not finite, a date outside the years 1 to 9999), or `invalidModel`.
    public init(_ record: some SyncRecord) throws {
        self = try RowWriter.row(of: record, RecordSchema.of(type(of: record)))
    }

    /// Decodes the row into a typed record.
    ///
    /// A missing or null column becomes nil. A non-optional property gets its declared default, or
    /// else an empty string, 0 or false.
    ///
    /// ```swift
    /// let item = try row.decode(TodoItem.self)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, which names the table, the id and the column.
    public func decode<Record: SyncRecord>(_ type: Record.Type) throws -> Record {
        let schema = try RecordSchema.of(type)
        return try RowReader(schema, defaults: schema.defaults()).read(self, as: type)
    }
}

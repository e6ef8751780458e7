// RecordCoder: how the records of one table become rows and come back.
//
// A value of closures, so that tables of typed records and tables of plain rows are the same
// generic code. The record's type is known where the coder is made, and nowhere else.

public import TidelineCore

/// What a read does with a row that does not decode.
///
/// Such a row is kept and synced in either case.
public enum DecodingFailurePolicy: Sendable {
    /// The read throws ``SyncError`` with code `rowDoesNotFit`.
    case `throw`
    /// The row is left out of the result.
    case skip
}

/// A stored row that does not decode into its record type.
///
/// It names table, row and column, never a value. It is the `cause` of a ``SyncError`` with code
/// `rowDoesNotFit`, and an element of ``LiveQuery/decodingFailures``.
public struct DecodingFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The table's name.
    public let table: String
    /// The row's id.
    public let itemID: String
    /// The column that does not fit the record type's property.
    public let column: String
    /// What is wrong, and what to do about it.
    public let message: String

    /// The message.
    public var description: String { message }
}

package struct RecordCoder<Record: Sendable>: Sendable {
    /// The table's name and columns: declared ones first, else those of the model.
    package let table: TableSchema
    /// The model's columns; nil for plain rows.
    package let schema: RecordSchema?
    package let encode: @Sendable (Record) throws -> Row
    package let decode: @Sendable (Row) throws -> Record
    package let id: @Sendable (Record) -> String

    /// The columns that rows without a model are held against; nil where a model makes them.
    var declared: TableSchema? { schema == nil ? table : nil }

    /// What columns without a value stand for in filters and orders; nil for plain rows, where null is
    /// null.
    let absent: AbsentValues?

    private let decodePage: @Sendable ([Row], DecodingFailurePolicy) throws -> [Record]

    /// Decodes the rows of a page, in order.
    package func decode(
        _ rows: [Row],
        onDecodingFailure: DecodingFailurePolicy
    ) throws -> [Record] {
        try decodePage(rows, onDecodingFailure)
    }

    /// A query of what the store has, as this coder's records mean it, but for its order; see `rows`.
    func meant(_ query: TableQuery) -> TableQuery { absent?.meant(query) ?? query }

    /// A condition on what the store has, as this coder's records mean it.
    func meant(_ filter: Filter?) -> Filter? { absent.map { $0.meant(filter) } ?? filter }

    /// What of a record tells the state that it was read in.
    package var identity: RecordIdentity {
        if declares(SystemColumn.version) { return .version }
        return declares(SystemColumn.updatedAt) ? .updatedAt : .nothing
    }

    /// Whether the record type has a property for a system column.
    package func declares(_ systemColumn: String) -> Bool {
        schema.map { $0.systemProperties.contains(systemColumn) } ?? true
    }
}

extension RecordCoder {
    /// The rows of a query that is meant already, in the order that their records have.
    ///
    /// A column that no row lacks stays the key, which an index may answer. Mostly the rows themselves
    /// tell; otherwise they are counted, which needs no order.
    func rows(_ query: TableQuery, of store: any LocalStoreReader) throws -> [Row] {
        let rows = try store.rows(query, in: table.name)
        guard let absent else { return rows }
        let columns = absent.columns(in: query.order)
        let missing = try columns.filter { column in
            if let isMissing = absent.isMissing(column, in: rows, of: query) { return isMissing }
            let isNull = Filter.equal(column, .null)
            let filter = query.filter.map { $0 && isNull } ?? isNull
            return try store.count(filter, in: table.name) > 0
        }
        guard !missing.isEmpty else { return rows }
        return try store.rows(absent.ordered(query, without: missing), in: table.name)
    }
}

extension RecordCoder where Record: SyncRecord {
    /// The coder of a model; `declared` is the schema given for its table, whose defaults count.
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
    /// The coder of plain rows, which are what they are, but for dates: those are rounded.
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
    /// One default for each column, null where there is none.
    func defaults(declared: TableSchema? = nil) -> [Value] {
        columns.map { column in
            let given = declared?.columns.first { $0.name == column.name }?.defaultValue
            return given ?? column.defaultValue ?? ownDefaults[column.name] ?? .null
        }
    }
}

extension Row {
    /// The row with its dates rounded, as every store and the wire have them; those that no column
    /// holds stay, and are refused by RowCheck.
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

    /// The row of a record: every column of its model, null for nil.
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

    /// The row as a typed record.
    ///
    /// A missing or null column becomes nil, or for a property that cannot be nil its declared
    /// default, else ''/0/false.
    ///
    /// ```swift
    /// let item = try row.decode(TodoItem.self)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, naming table, id and column.
    public func decode<Record: SyncRecord>(_ type: Record.Type) throws -> Record {
        let schema = try RecordSchema.of(type)
        return try RowReader(schema, defaults: schema.defaults()).read(self, as: type)
    }
}

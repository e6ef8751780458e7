// SQLiteStoreSQL: the statements of a store, and the conversion of values to the form that SQLite
// stores.
//
// Instants are whole milliseconds since 1970. A value that does not fit its column's type is stored
// unchanged, because any SQLite column can hold any kind of value.

import Foundation
import TidelineCore
import TidelineSQLite

/// The SQL statements and bound values that a store uses to read and write its tables.
enum SQLiteStoreSQL {
    static func renderer(_ table: SQLiteTable) -> FilterRenderer {
        FilterRenderer(schema: table.schema, dateUnit: .milliseconds)
    }

    static func checked(_ filter: Filter?, _ table: SQLiteTable) throws -> QueryExpression? {
        guard let filter else { return nil }
        let checked: QueryExpression
        do {
            checked = try FilterChecker(onDevice: table.schema).filter(filter.expression)
        } catch {
            throw SyncError.unsupportedQuery("\(error.message)")
        }
        guard checked.readsTables else { return checked }
        guard !checked.searches || table.search != nil else {
            throw SyncError.changedSearch(table.schema.name)
        }
        guard !renderer(table).nestsTablesTooDeep(checked) else {
            throw SyncError.unsupportedQuery(
                """
                'matching', 'hasParent' or 'hasChild' is nested too deep in the condition. Join it to the condition \
                with '&&'.
                """
            )
        }
        return checked
    }

    /// Checks the keys of an order.
    static func order(_ keys: [SortKey], _ table: SQLiteTable) throws -> [SortKey] {
        do {
            return try FilterChecker(onDevice: table.schema).order(keys)
        } catch {
            throw SyncError.unsupportedQuery("\(error.message)")
        }
    }

    /// `columns` contains the columns to read; nil to read whole rows.
    static func select(
        _ query: TableQuery,
        _ table: SQLiteTable,
        only columns: [ColumnDefinition]? = nil
    ) throws -> SQL {
        let renderer = renderer(table)
        let list =
            columns?.map { Identifier($0.name).quoted }.joined(separator: ", ") ?? table.selectList
        var sql: SQL = "SELECT \(SQL(verbatim: list)) FROM \(Identifier(table.schema.name))"
        if let filter = try checked(query.filter, table) {
            sql.append("\nWHERE \(renderer.condition(filter))")
        }
        sql.append("\nORDER BY \(renderer.orderBy(try order(query.order, table)))")
        if query.limit != nil || query.offset > 0 {
            let limit = SQLValue.integer(Int64(query.limit ?? -1))
            sql.append("\nLIMIT \(limit) OFFSET \(.integer(Int64(query.offset)))")
        }
        return sql
    }

    static func count(_ filter: Filter?, _ table: SQLiteTable) throws -> SQL {
        var sql: SQL = "SELECT count(*) FROM \(Identifier(table.schema.name))"
        if let filter = try checked(filter, table) {
            sql.append("\nWHERE \(renderer(table).condition(filter))")
        }
        return sql
    }

    /// Selects the checksum, the id, and the given columns of the matching rows.
    static func checksums(_ filter: Filter?, _ table: SQLiteTable, columns: String) throws -> SQL {
        let checksum = Identifier(SQLiteTable.checksum)
        var sql: SQL = """
            SELECT \(checksum), "id", \(SQL(verbatim: columns))
            FROM \(Identifier(table.schema.name))
            """
        if let filter = try checked(filter, table) {
            sql.append(" WHERE \(renderer(table).condition(filter))")
        }
        return sql
    }

    static func stored(_ value: Value) -> SQLValue {
        switch value {
        case .null: .null
        case .bool(let value): .integer(value ? 1 : 0)
        case .integer(let value): .integer(value)
        case .number(let value): .real(value)
        case .decimal(let value): .text(DecimalText.canonical(value))
        case .string(let value): .text(value)
        case .date(let value): .integer(milliseconds(value))
        case .data(let value): .blob(value)
        case .json(let value): .text(value.text)
        }
    }

    /// Returns the time in milliseconds, rounded to the nearest millisecond, as for the dates of
    /// records.
    private static func milliseconds(_ date: Date) -> Int64 {
        let micros = Timestamp(date).microseconds
        return Timestamp(microseconds: micros + 500).milliseconds
    }

    @inline(__always)
    static func bind(_ value: Value, _ statement: Statement, _ index: Int32) {
        switch value {
        case .null: statement.bindNull(index)
        case .string(let text): statement.bind(index, text: text)
        case .integer(let value): statement.bind(index, integer: value)
        case .bool(let value): statement.bind(index, integer: value ? 1 : 0)
        case .number(let value): statement.bind(index, real: value)
        case .decimal, .date, .data, .json: statement.bind(index, stored(value))
        }
    }

    /// Returns a cell of the statement's current row, converted from the given form.
    @inline(__always)
    static func value(_ statement: Statement, _ index: Int32, _ form: CellForm) -> Value {
        let cell = statement.cell(index)
        switch cell.kind {
        case .null: return .null
        case .integer: return form.value(cell.integer)
        case .real: return .number(cell.real)
        case .text: return form.value(cell.utf8)
        case .blob: return .data(Data(cell.blob))
        }
    }
}

/// The conversion from a cell to a value: a simplified column type.
enum CellForm: String, Sendable, Codable {
    case boolean
    case instant
    case number
    case decimal
    case json
    /// No conversion.
    case plain

    init(_ type: ColumnType) {
        self =
            switch type {
            case .boolean: .boolean
            case .dateTime: .instant
            case .number: .number
            case .decimal: .decimal
            case .json: .json
            case .string, .integer, .date, .time, .guid, .binary, .enumeration: .plain
            }
    }

    @inline(__always)
    fileprivate func value(_ integer: Int64) -> Value {
        switch self {
        case .boolean: integer == 0 || integer == 1 ? .bool(integer == 1) : .integer(integer)
        case .instant: .date(Timestamp(microseconds: integer &* 1000).date)
        case .number: .number(Double(integer))
        case .decimal, .json, .plain: .integer(integer)
        }
    }

    @inline(__always)
    fileprivate func value(_ bytes: UnsafeBufferPointer<UInt8>) -> Value {
        let text = String(decoding: bytes, as: UTF8.self)
        switch self {
        case .decimal: return DecimalText.parse(text).map(Value.decimal) ?? .string(text)
        case .json: return .json(JSON(checked: text))
        case .boolean, .instant, .number, .plain: return .string(text)
        }
    }
}

// TestTable: an SQLite table in memory, with rows stored as FilterRenderer expects them.

import Foundation
import TidelineCore
import TidelineSQLite

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

struct SQLiteFailure: Error, CustomStringConvertible {
    var description: String
}

/// A table that one test at a time uses; it closes its connection at the end.
final class TestTable {
    let schema: TableSchema
    let renderer: FilterRenderer
    private let handle: OpaquePointer

    init(
        _ schema: TableSchema,
        _ rows: [Row],
        unit: FilterRenderer.DateUnit,
        indexes: [String] = []
    ) throws {
        self.schema = schema
        renderer = FilterRenderer(schema: schema, dateUnit: unit)
        var opened: OpaquePointer?
        guard sqlite3_open(":memory:", &opened) == SQLITE_OK, let opened else {
            throw SQLiteFailure(description: "cannot open")
        }
        handle = opened
        guard registerTidelineFunctions(on: handle) == SQLITE_OK else {
            throw SQLiteFailure(description: "cannot register")
        }
        let columns = [ColumnDefinition("id", .string)] + schema.columns
        let definitions = columns.map { "\"\($0.name)\" \(Self.storage($0.type))" }
        try query(SQL(verbatim: "CREATE TABLE t (\(definitions.joined(separator: ", ")))"))
        for index in indexes { try query(SQL(verbatim: index)) }
        for row in rows {
            let values = columns.map { "\(renderer.stored(row[$0.name] ?? .null))" as SQL }
            try query("INSERT INTO t VALUES (\(values.joined(separator: ", ")))")
        }
    }

    deinit { sqlite3_close(handle) }

    private static func storage(_ type: ColumnType) -> String {
        switch type {
        case .integer, .boolean, .dateTime: "INTEGER"
        case .number: "REAL"
        case .binary: "BLOB"
        default: "TEXT"
        }
    }

    func ids(_ condition: SQL, orderBy: SQL = "\"id\"") throws -> [String] {
        try query("SELECT \"id\" FROM t WHERE \(condition) ORDER BY \(orderBy)")
    }

    func plan(_ condition: SQL) throws -> String {
        try query("EXPLAIN QUERY PLAN SELECT \"id\" FROM t WHERE \(condition)", column: 3)
            .joined(separator: "; ")
    }

    @discardableResult
    func query(_ sql: SQL, column: Int32 = 0) throws -> [String] {
        var statement: OpaquePointer?
        let text = sql.text(for: .sqlite)
        guard sqlite3_prepare_v2(handle, text, -1, &statement, nil) == SQLITE_OK else {
            throw SQLiteFailure(description: String(cString: sqlite3_errmsg(handle)) + ": " + text)
        }
        defer { sqlite3_finalize(statement) }
        for (index, value) in sql.bindings.enumerated() {
            Self.bind(statement, Int32(index + 1), value)
        }
        var result: [String] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                result.append(
                    sqlite3_column_text(statement, column).map { String(cString: $0) } ?? ""
                )
            case SQLITE_DONE: return result
            default:
                throw SQLiteFailure(
                    description: String(cString: sqlite3_errmsg(handle)) + ": " + text
                )
            }
        }
    }

    private static func bind(_ statement: OpaquePointer?, _ index: Int32, _ value: SQLValue) {
        switch value {
        case .null: sqlite3_bind_null(statement, index)
        case .program(let program): bindProgram(statement, index, program)
        case .integer(let whole): sqlite3_bind_int64(statement, index, whole)
        case .real(let number): sqlite3_bind_double(statement, index, number)
        case .text(let text):
            let bytes = Array(text.utf8CString)
            _ = tl_bind_text(statement, index, bytes, Int32(bytes.count - 1))
        case .blob(let data):
            data.withUnsafeBytes {
                // A null pointer would bind NULL instead of an empty value.
                if $0.isEmpty {
                    sqlite3_bind_zeroblob(statement, index, 0)
                } else {
                    _ = tl_bind_blob(statement, index, $0.baseAddress, Int32($0.count))
                }
            }
        }
    }
}

// PlainSQLite: the client's tables and rows in plain SQLite, for comparison.

import Foundation
import Tideline

#if canImport(SQLite3)
import SQLite3
#else
import CPlainSQLite
#endif

/// A connection with the settings of the client's writer.
final class PlainDatabase {
    fileprivate let handle: OpaquePointer

    init(_ path: String) throws {
        var pointer: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(path, &pointer, flags, nil) == SQLITE_OK, let pointer else {
            throw BenchError("\(path) cannot be opened")
        }
        handle = pointer
        try execute("PRAGMA journal_mode = WAL")
        try execute("PRAGMA synchronous = FULL")
        try execute("PRAGMA cache_size = -8192")
        try execute("PRAGMA wal_autocheckpoint = 4000")
    }

    deinit { sqlite3_close_v2(handle) }

    func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else {
            throw BenchError(String(cString: sqlite3_errmsg(handle)))
        }
    }

    /// Creates the tables and indexes of another file.
    func makeTables(like other: PlainDatabase, named names: [String]) throws {
        let list = names.map { "'\($0)'" }.joined(separator: ", ")
        let sql = "SELECT sql FROM sqlite_master WHERE tbl_name IN (\(list)) AND sql IS NOT NULL"
        let definitions = try PlainStatement(other, sql)
        while try definitions.step() { try execute(definitions.text(0)) }
    }

    /// Reads a whole table, in the order in which its rows were stored.
    func rows(of table: String) throws -> PlainRows {
        let statement = try PlainStatement(self, "SELECT * FROM \"\(table)\" ORDER BY rowid")
        var rows = PlainRows(columns: Int(sqlite3_column_count(statement.pointer)))
        while try statement.step() { rows.append(statement) }
        return rows
    }

    /// Returns the items ordered by id, as the client returns them.
    func items(limit: Int = -1) throws -> [TodoItem] {
        let statement = try PlainStatement(
            self,
            """
            SELECT "id", "text", "complete", "updatedAt" FROM "TodoItem"
            ORDER BY "id" LIMIT \(limit)
            """
        )
        var items: [TodoItem] = []
        while try statement.step() {
            let time = sqlite3_column_int64(statement.pointer, 3)
            items.append(
                TodoItem(
                    id: statement.text(0),
                    text: statement.text(1),
                    complete: sqlite3_column_int(statement.pointer, 2) != 0,
                    updatedAt: Date(timeIntervalSince1970: Double(time) / 1000)
                )
            )
        }
        return items
    }

    /// Runs a statement, and returns the second column of its rows.
    func numbers(_ sql: String) throws -> [Int] {
        let statement = try PlainStatement(self, sql)
        var numbers: [Int] = []
        while try statement.step() {
            numbers.append(Int(sqlite3_column_int64(statement.pointer, 1)))
        }
        return numbers
    }

    /// Prepares an insert of all columns of a table.
    func insert(into table: String, columns: Int) throws -> PlainStatement {
        let marks = Array(repeating: "?", count: columns).joined(separator: ", ")
        return try PlainStatement(self, "INSERT OR REPLACE INTO \"\(table)\" VALUES (\(marks))")
    }
}

final class PlainStatement {
    fileprivate let pointer: OpaquePointer
    private let database: PlainDatabase

    init(_ database: PlainDatabase, _ sql: String) throws {
        var pointer: OpaquePointer?
        guard sqlite3_prepare_v2(database.handle, sql, -1, &pointer, nil) == SQLITE_OK, let pointer
        else { throw BenchError(String(cString: sqlite3_errmsg(database.handle))) }
        self.pointer = pointer
        self.database = database
    }

    deinit { sqlite3_finalize(pointer) }

    func step() throws -> Bool {
        let code = sqlite3_step(pointer)
        guard code == SQLITE_ROW || code == SQLITE_DONE else {
            throw BenchError(String(cString: sqlite3_errmsg(database.handle)))
        }
        return code == SQLITE_ROW
    }

    func run() throws {
        _ = try step()
        sqlite3_reset(pointer)
    }

    func integer(_ index: Int32) -> Int { Int(sqlite3_column_int64(pointer, index)) }

    func text(_ index: Int32) -> String { String(cString: sqlite3_column_text(pointer, index)) }
}

/// Rows in memory, as SQLite stores them: integers, and texts in one buffer.
struct PlainRows {
    private enum Cell {
        case null
        case integer(Int64)
        case text(start: Int, count: Int)
    }

    let columns: Int
    private var cells: [Cell] = []
    private var texts: [UInt8] = []

    var count: Int { cells.count / columns }

    init(columns: Int) { self.columns = columns }

    fileprivate mutating func append(_ statement: PlainStatement) {
        for index in 0..<Int32(columns) {
            switch sqlite3_column_type(statement.pointer, index) {
            case SQLITE_NULL: cells.append(.null)
            case SQLITE_INTEGER:
                cells.append(.integer(sqlite3_column_int64(statement.pointer, index)))
            default:
                let bytes = sqlite3_column_text(statement.pointer, index)
                let count = Int(sqlite3_column_bytes(statement.pointer, index))
                cells.append(.text(start: texts.count, count: count))
                texts.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count))
            }
        }
    }

    /// Runs an insert for each row of a range.
    func insert(_ range: Range<Int>, by statement: PlainStatement) throws {
        try texts.withUnsafeBytes { texts in
            let base = texts.baseAddress?.assumingMemoryBound(to: CChar.self)
            for row in range {
                for column in 0..<columns {
                    let index = Int32(column + 1)
                    switch cells[row * columns + column] {
                    case .null: sqlite3_bind_null(statement.pointer, index)
                    case .integer(let value): sqlite3_bind_int64(statement.pointer, index, value)
                    case .text(let start, let count):
                        let text = base.map { $0 + start }
                        sqlite3_bind_text(statement.pointer, index, text, Int32(count), nil)
                    }
                }
                try statement.run()
            }
        }
    }
}

struct BenchError: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}

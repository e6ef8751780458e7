// Statement: a prepared statement, with methods to bind values, step, read columns, and reset.

import Foundation
package import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// A prepared statement of a connection, which is finalized with its last reference.
package final class Statement {
    private let pointer: OpaquePointer
    private unowned let database: Database
    private let transactionState: TransactionState

    init(_ pointer: OpaquePointer, _ database: Database) {
        self.pointer = pointer
        self.database = database
        transactionState = database.transactionState
    }

    deinit { sqlite3_finalize(pointer) }

    /// Binds values to the placeholders, starting with the first one.
    package func bind(_ values: [SQLValue]) throws {
        for (index, value) in values.enumerated() { bind(Int32(index + 1), value) }
    }

    @inline(__always)
    package func bind(_ index: Int32, _ value: SQLValue) {
        switch value {
        case .null: sqlite3_bind_null(pointer, index)
        case .integer(let value): sqlite3_bind_int64(pointer, index, value)
        case .real(let value): sqlite3_bind_double(pointer, index, value)
        case .text(let value): bind(index, text: value)
        case .program(let value): bindProgram(pointer, index, value)
        case .blob(let value):
            value.withUnsafeBytes { bytes in
                if let base = bytes.baseAddress, !bytes.isEmpty {
                    _ = tl_bind_blob(pointer, index, base, Int32(bytes.count))
                } else {
                    sqlite3_bind_zeroblob(pointer, index, 0)
                }
            }
        }
    }

    @inline(__always)
    package func bind(_ index: Int32, integer: Int64) {
        sqlite3_bind_int64(pointer, index, integer)
    }

    @inline(__always)
    package func bind(_ index: Int32, real: Double) { sqlite3_bind_double(pointer, index, real) }

    @inline(__always)
    package func bindNull(_ index: Int32) { sqlite3_bind_null(pointer, index) }

    @inline(__always)
    package func bind(_ index: Int32, text: String) {
        var copy = text
        copy.withUTF8 { bind(index, utf8: $0) }
    }

    /// Binds valid UTF-8, which SQLite copies.
    @inline(__always)
    package func bind(_ index: Int32, utf8 bytes: UnsafeBufferPointer<UInt8>) {
        if let base = bytes.baseAddress {
            base.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
                _ = tl_bind_text(pointer, index, $0, Int32(bytes.count))
            }
        } else {
            _ = tl_bind_text(pointer, index, "", 0)
        }
    }

    /// Binds bytes, which SQLite copies.
    package func bind(_ index: Int32, blob bytes: [UInt8]) {
        bytes.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress, !bytes.isEmpty {
                _ = tl_bind_blob(pointer, index, base, Int32(bytes.count))
            } else {
                sqlite3_bind_zeroblob(pointer, index, 0)
            }
        }
    }

    /// Binds valid UTF-8 without copying; the bytes must stay valid until the bindings are cleared.
    @inline(__always)
    package func bind(_ index: Int32, lent bytes: UnsafeBufferPointer<UInt8>) {
        guard let base = bytes.baseAddress else { return bind(index, utf8: bytes) }
        base.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
            _ = sqlite3_bind_text(pointer, index, $0, Int32(bytes.count), nil)
        }
    }

    /// Binds bytes without copying; the bytes must stay valid until the bindings are cleared.
    package func bind(_ index: Int32, lentBlob bytes: UnsafeBufferPointer<UInt8>) {
        if let base = bytes.baseAddress, !bytes.isEmpty {
            sqlite3_bind_blob(pointer, index, base, Int32(bytes.count), nil)
        } else {
            sqlite3_bind_zeroblob(pointer, index, 0)
        }
    }

    /// Clears all bindings.
    package func clearBindings() { sqlite3_clear_bindings(pointer) }

    /// Advances to the next row; returns whether there is one.
    @inline(__always)
    package func step() throws -> Bool {
        try transactionState.check()
        let code = sqlite3_step(pointer)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        let failure = database.failure(code, String(cString: sqlite3_sql(pointer)))
        sqlite3_reset(pointer)
        throw failure
    }

    /// Prepares the statement for another use; steps of earlier uses do not count toward its
    /// limits.
    func prepareForReuse() {
        sqlite3_reset(pointer)
        _ = sqlite3_stmt_status(pointer, SQLITE_STMTSTATUS_VM_STEP, 1)
    }

    /// Resets the statement for the next use without clearing its bindings.
    @inline(__always)
    package func reset() { sqlite3_reset(pointer) }

    /// Steps once, and then resets the statement.
    package func run() throws {
        defer { reset() }
        _ = try step()
    }

    /// Binds values, steps once, and then resets the statement.
    package func run(_ values: [SQLValue]) throws {
        try bind(values)
        try run()
    }

    /// Whether the statement only reads.
    var isReadOnly: Bool { sqlite3_stmt_readonly(pointer) != 0 }

    /// The number of placeholders.
    var parameterCount: Int { Int(sqlite3_bind_parameter_count(pointer)) }

    package var columnCount: Int32 { sqlite3_column_count(pointer) }

    package func columnName(_ index: Int32) -> String {
        String(cString: sqlite3_column_name(pointer, index))
    }

    @inline(__always)
    package func isNull(_ index: Int32) -> Bool {
        sqlite3_column_type(pointer, index) == SQLITE_NULL
    }

    @inline(__always)
    package func integer(_ index: Int32) -> Int64 { sqlite3_column_int64(pointer, index) }

    @inline(__always)
    package func real(_ index: Int32) -> Double { sqlite3_column_double(pointer, index) }

    /// Returns the bytes of a string column, which are valid until the next step or reset.
    @inline(__always)
    package func utf8(_ index: Int32) -> UnsafeBufferPointer<UInt8> {
        let start = sqlite3_column_text(pointer, index)
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(pointer, index)))
    }

    @inline(__always)
    package func text(_ index: Int32) -> String { String(decoding: utf8(index), as: UTF8.self) }

    package func blob(_ index: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(pointer, index) else { return [] }
        return Array(
            UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(pointer, index)))
        )
    }

    /// Returns a cell of the current row, which is valid until the next step or reset.
    @inline(__always)
    package func cell(_ index: Int32) -> StatementCell {
        StatementCell(pointer: sqlite3_column_value(pointer, index))
    }

    /// Returns the column as SQLite stores it.
    package func value(_ index: Int32) -> SQLValue {
        switch sqlite3_column_type(pointer, index) {
        case SQLITE_INTEGER: .integer(integer(index))
        case SQLITE_FLOAT: .real(real(index))
        case SQLITE_TEXT: .text(text(index))
        case SQLITE_BLOB: .blob(Data(blob(index)))
        default: .null
        }
    }
}

/// A cell of a statement's current row.
///
/// In SQLite's terms, the value is unprotected: only the thread that runs the statement may use it.
package struct StatementCell {
    fileprivate let pointer: OpaquePointer?

    package enum Kind {
        case null
        case integer
        case real
        case text
        case blob
    }

    @inline(__always)
    package var kind: Kind {
        switch sqlite3_value_type(pointer) {
        case SQLITE_INTEGER: .integer
        case SQLITE_FLOAT: .real
        case SQLITE_TEXT: .text
        case SQLITE_BLOB: .blob
        default: .null
        }
    }

    @inline(__always)
    package var isNull: Bool { sqlite3_value_type(pointer) == SQLITE_NULL }

    /// The number of bytes in a string or blob; 0 for other types.
    package var bytes: Int {
        switch sqlite3_value_type(pointer) {
        case SQLITE_TEXT, SQLITE_BLOB: Int(sqlite3_value_bytes(pointer))
        default: 0
        }
    }

    /// The bytes of a blob.
    package var blob: UnsafeRawBufferPointer {
        let start = sqlite3_value_blob(pointer)
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(pointer)))
    }

    @inline(__always)
    package var integer: Int64 { sqlite3_value_int64(pointer) }

    @inline(__always)
    package var real: Double { sqlite3_value_double(pointer) }

    @inline(__always)
    package var utf8: UnsafeBufferPointer<UInt8> {
        let start = sqlite3_value_text(pointer)
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(pointer)))
    }
}

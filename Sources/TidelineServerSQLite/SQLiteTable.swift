// SQLiteTable: what is derived once from a table: SQL texts, and how its cells become JSON.

import Foundation
import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

final class SQLiteTable: Sendable {
    /// Whether the next write begins a new millisecond: a client counts the rows of the last one.
    let isHeadCounted = Atomic(false)
    let table: Table
    let name: String
    /// The columns of a row in the order of the wire: id, columns, other system columns.
    let cells: [Cell]
    /// The places of the cells among columns and system columns, as a selection counts them.
    let places: [Int]
    let selectState: String
    let selectRow: String
    let insert: String
    let delete: String
    private let returning: String

    init(_ table: Table) {
        self.table = table
        name = table.name
        let columns = table.columns
        let all = columns + SystemColumn.definitions
        let id = columns.count
        places = [id] + Array(0..<columns.count) + Array((id + 1)..<all.count)
        cells = places.map { Cell(all[$0], isSystem: $0 >= id) }
        let quoted = ServerSchema.quoted(table.name)
        let names = cells.map(\.quoted).joined(separator: ", ")
        returning = "RETURNING " + names
        selectState = """
            SELECT "version", "updatedAt", "deleted" FROM \(quoted) WHERE "id" = ?1
            """
        selectRow = "SELECT \(names) FROM \(quoted) WHERE \"id\" = ?1"
        let marks = (1...cells.count).map { "?\($0)" }.joined(separator: ", ")
        insert = "INSERT INTO \(quoted) (\(names)) VALUES (\(marks)) \(returning)"
        delete = "DELETE FROM \(quoted) WHERE \"id\" = ?1"
    }

    /// Sets these columns, in their order from `?5` on; `?1` to `?4` are id and system values.
    func update(_ columns: [Int]) -> String {
        var text = "UPDATE " + ServerSchema.quoted(name)
        text += " SET \"updatedAt\" = ?2, \"version\" = ?3, \"deleted\" = ?4"
        for (offset, column) in columns.enumerated() {
            text += ", " + cells[column + 1].quoted + " = ?\(offset + 5)"
        }
        text += " WHERE \"id\" = ?1 " + returning
        return text
    }

    /// The row that the statement stands on, its columns those of `selectRow`.
    func row(_ statement: Statement) -> StoredRow {
        var writer = JSONWriter(capacity: 256)
        Cell.write(cells, statement, to: &writer)
        let count = Int32(cells.count)
        return StoredRow(
            json: writer.bytes,
            state: RowState(
                version: statement.integer(count - 2),
                updatedAt: statement.integer(count - 3),
                isDeleted: statement.integer(count - 1) != 0
            )
        )
    }
}

/// How one column becomes a JSON member.
struct Cell: Sendable {
    private enum Form: Sendable {
        case string
        case integer
        case real
        case boolean
        case date
        case base64
        case raw
        case version
    }

    /// The name as an SQL identifier.
    let quoted: String
    /// The bytes `,"name":`.
    private let prefix: [UInt8]
    private let form: Form

    init(_ column: ColumnDefinition, isSystem: Bool) {
        quoted = ServerSchema.quoted(column.name)
        var writer = JSONWriter()
        writer.byte(",")
        writer.string(column.name)
        writer.byte(":")
        prefix = writer.bytes
        if isSystem && column.name == SystemColumn.version {
            form = .version
            return
        }
        form =
            switch column.type {
            case .string, .date, .time, .guid, .enumeration: .string
            case .integer: .integer
            case .number: .real
            case .boolean: .boolean
            case .dateTime: .date
            case .binary: .base64
            case .decimal, .json: .raw
            }
    }

    /// Writes an object of the first columns of the statement's row.
    static func write(_ cells: [Cell], _ statement: Statement, to writer: inout JSONWriter) {
        let start = writer.bytes.count
        var index: Int32 = 0
        for cell in cells {
            cell.write(statement, index, to: &writer)
            index += 1
        }
        // The comma of the first member.
        if index > 0 { writer.bytes[start] = UInt8(ascii: "{") } else { writer.byte("{") }
        writer.byte("}")
    }

    @inline(__always)
    private func write(_ statement: Statement, _ index: Int32, to writer: inout JSONWriter) {
        writer.raw(prefix)
        guard !statement.isNull(index) else { return writer.null() }
        switch form {
        case .string: writer.string(utf8: statement.utf8(index))
        case .integer: writer.integer(statement.integer(index))
        case .real: writer.number(statement.real(index))
        case .boolean: writer.bool(statement.integer(index) != 0)
        case .date: writer.date(Timestamp(microseconds: statement.integer(index)))
        case .base64: writer.string(Data(statement.blob(index)).base64EncodedString())
        case .raw: writer.raw(statement.utf8(index))
        case .version:
            writer.byte("\"")
            RowVersion.write(statement.integer(index), to: &writer.bytes)
            writer.byte("\"")
        }
    }
}

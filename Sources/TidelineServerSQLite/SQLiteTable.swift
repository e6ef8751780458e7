// SQLiteTable: the values derived once from a table: SQL texts, and how its cells become JSON.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The shared state of a table, the same for all its schema versions.
final class TableHead: Sendable {
    /// Whether a client counts the rows of the last millisecond, so that the next write begins
    /// another.
    let isCounted = Atomic(false)
    let ties = TieCounts()
    let clock = KnownClock()
    /// Whether a write has had to do with a large row of it, so that others are weighed.
    let hasLargeRows = Atomic(false)
}

final class SQLiteTable: Sendable {
    let head: TableHead
    let table: Table
    let name: String
    /// The name of its clock, whatever letter case it is written in.
    let clock: String
    /// Whether the rows that writes replace are kept, to merge by.
    let keepsBases: Bool
    let log: ChangeLog
    /// The columns of a row in the order of the wire: id, columns, other system columns.
    let cells: [CellColumn]
    /// All cells of a row as JSON.
    let form: RowForm
    /// The places of the cells among columns and system columns, as a selection counts them.
    let places: [Int]
    /// The names of the cells as SQL.
    let cellNames: String
    let selectRow: String
    let insert: String
    let delete: String
    private let updateHead: String
    private let updateTail: String

    init(_ table: Table, head: TableHead) {
        self.table = table
        self.head = head
        clock = table.name.lowercased()
        name = table.name
        keepsBases = table.definition.conflict == .merge
        log = ChangeLog(table)
        let columns = table.columns
        let all = columns + SystemColumn.definitions
        let id = columns.count
        places = [id] + Array(0..<columns.count) + Array((id + 1)..<all.count)
        cells = places.map { CellColumn(all[$0], isSystem: $0 >= id) }
        form = RowForm(cells)
        let quoted = ServerSchema.quoted(table.name)
        let names = cells.map(\.quoted).joined(separator: ", ")
        cellNames = names
        updateHead =
            "UPDATE \(quoted) SET \"updatedAt\" = ?2, \"version\" = ?3, \"deleted\" = ?4"
        updateTail = " WHERE \"id\" = ?1"
        selectRow = "SELECT \(names) FROM \(quoted) WHERE \"id\" = ?1"
        let marks = (1...cells.count).map { "?\($0)" }.joined(separator: ", ")
        insert =
            "INSERT INTO \(quoted) (\(names)) VALUES (\(marks)) ON CONFLICT (\"id\") DO NOTHING"
        delete = "DELETE FROM \(quoted) WHERE \"id\" = ?1"
    }

    /// Sets these columns, in their order from `?5` on; `?1` to `?4` are id and system values.
    func update(_ columns: [Int]) -> String {
        var text = updateHead
        for (offset, column) in columns.enumerated() {
            text += ", \(cells[column + 1].quoted) = ?\(offset + 5)"
        }
        return text + updateTail
    }

    /// Returns the current row of the statement, its columns those of `selectRow`.
    ///
    /// - Throws: The error of `bounds` if the row is too large, before anything of it is copied.
    func row(_ statement: Statement, _ bounds: RowBounds) throws -> StoredRow {
        if bounds.needsSize {
            let bytes = bytes(statement)
            guard bytes <= bounds.loopBytesMax else { throw RowTooLargeForLoop() }
            try bounds.room?.take(bytes: bytes, of: state(statement))
        }
        return row(statement)
    }

    /// How many bytes the texts and blobs of the row have.
    func bytes(_ statement: Statement) -> Int {
        (0..<Int32(cells.count)).reduce(0) { $0 + statement.cell($1).bytes }
    }

    private func state(_ statement: Statement) -> RowState {
        let count = Int32(cells.count)
        return RowState(
            version: statement.integer(count - 2),
            updatedAt: statement.integer(count - 3),
            isDeleted: statement.integer(count - 1) != 0
        )
    }

    /// Returns the current row of the statement.
    private func row(_ statement: Statement) -> StoredRow {
        var json = RowBytes(capacity: 512)
        json.row(form, statement)
        return StoredRow(json: json.bytes, state: state(statement))
    }
}

extension SQLiteTable {
    /// The same row with all that is stored of it.
    func image(_ statement: Statement) -> RowImage {
        let count = Int32(cells.count)
        return RowImage(
            id: statement.text(0),
            values: (1..<count - 4).map { statement.value($0) },
            createdAt: statement.integer(count - 4),
            updatedAt: statement.integer(count - 3),
            version: statement.integer(count - 2),
            isDeleted: statement.integer(count - 1) != 0
        )
    }
}

/// How large a row may be that is read by itself.
struct RowBounds: Sendable {
    /// The most bytes that its texts and blobs may have where it is read.
    var loopBytesMax = Int.max
    /// The memory reservation for it, made before it is built; nil if it is not counted.
    var room: RowRoom?

    fileprivate var needsSize: Bool { loopBytesMax < .max || room != nil }
}

/// One column of a row, as SQL and JSON know it.
struct CellColumn: Sendable {
    let name: String
    let form: CellForm
    /// The name as an SQL identifier.
    let quoted: String

    init(_ column: ColumnDefinition, isSystem: Bool) {
        name = column.name
        quoted = ServerSchema.quoted(column.name)
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
}

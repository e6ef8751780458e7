// SQLiteTable: statements and names for each table.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The shared state of a table, the same for all its schema versions.
final class TableHead: Sendable {
    /// Whether a client counts the rows of the last millisecond, so that the next write must use another
    /// millisecond.
    let isCounted = Atomic(false)
    let ties = TieCounts()
    let clock = KnownClock()
    /// Whether a write has read or stored a large row of the table, so that other writes check the size of their
    /// rows.
    let hasLargeRows = Atomic(false)
}

/// The shared states of all tables.
final class TableHeads: Sendable {
    private let heads = Mutex<[String: TableHead]>([:])

    /// The maximum number of stored states; beyond it, states of missing tables are not stored.
    private static let headsMax = 10_000

    /// Returns the state that all schema versions of a table share, in any letter case of its name.
    ///
    /// Beyond the limit, the state of a missing table is not stored, because callers of a dynamic schema may send any
    /// name.
    func head(of table: String, needsGrowth: Bool = false) -> TableHead {
        heads.withLock { heads in
            let name = table.lowercased()
            if let known = heads[name] { return known }
            let created = TableHead()
            if !needsGrowth || heads.count < Self.headsMax { heads[name] = created }
            return created
        }
    }
}

/// The derived tables of a store, cached for as long as their definitions are the same.
final class DerivedTables: Sendable {
    let heads = TableHeads()
    private let tables = Mutex<[String: SQLiteTable]>([:])

    func derived(_ table: Table) -> SQLiteTable {
        tables.withLock { tables in
            if let known = tables[table.name], known.table === table { return known }
            let created = SQLiteTable(
                table,
                head: heads.head(of: table.name, needsGrowth: table.needsGrowth)
            )
            // A table that a write may create might never exist.
            if !table.needsGrowth { tables[table.name] = created }
            return created
        }
    }
}

/// The values that are derived once from a table: its SQL statements and JSON member names.
final class SQLiteTable: Sendable {
    let head: TableHead
    let table: Table
    let name: String
    /// The name of the table clock, in lower case.
    let clock: String
    /// Whether replaced rows are stored for merges.
    let keepsBases: Bool
    let log: ChangeLog
    /// The statements of the `unique` rules.
    let uniqueChecks: [UniqueCheck]
    /// The columns of a row in the order of the wire: id, columns, other system columns.
    let cells: [CellColumn]
    /// All cells of a row as JSON.
    let form: RowForm
    /// The indexes of the cells among columns and system columns, as a selection uses them.
    let places: [Int]
    /// The names of the cells as SQL.
    let cellNames: String
    let selectRow: String
    let insert: String
    let delete: String
    private let updateHead: String
    private let updateTail: String
    /// The statements of `update`, by columns.
    private let updates = Mutex(GenerationCache<[Int], String>(countMax: 32))

    init(_ table: Table, head: TableHead) {
        self.table = table
        self.head = head
        clock = table.name.lowercased()
        name = table.name
        keepsBases = table.definition.conflict == .merge
        log = ChangeLog(table)
        uniqueChecks = UniqueCheck.all(of: table)
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
        let placeholders = (1...cells.count).map { "?\($0)" }.joined(separator: ", ")
        insert =
            "INSERT INTO \(quoted) (\(names)) VALUES (\(placeholders)) ON CONFLICT (\"id\") DO NOTHING"
        delete = "DELETE FROM \(quoted) WHERE \"id\" = ?1"
    }

    /// Returns the statement that sets these columns, in their order from `?5` on; `?1` to `?4` are id and system
    /// values.
    func update(_ columns: [Int]) -> String {
        updates.withLock { updates in
            if let known = updates.value(columns) { return known }
            var text = updateHead
            for (offset, column) in columns.enumerated() {
                text += ", \(cells[column + 1].quoted) = ?\(offset + 5)"
            }
            text += updateTail
            updates.put(text, for: columns)
            return text
        }
    }

    /// Returns the current row of a statement with the columns of `selectRow`.
    ///
    /// - Throws: The error of `bounds` if the row is too large, before any of it is copied.
    func row(_ statement: Statement, _ bounds: RowBounds) throws -> StoredRow {
        if bounds.needsSize {
            let bytes = bytes(statement)
            guard bytes <= bounds.loopBytesMax else { throw RowTooLargeForLoop() }
            try bounds.reservation?.take(bytes: bytes, of: state(statement))
        }
        return row(statement)
    }

    /// Returns the size of the row's strings and blobs, in bytes.
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
    /// Returns the same row with all stored values.
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

/// The limits for the read of a single row.
struct RowBounds: Sendable {
    /// The maximum number of bytes of the row's strings and blobs on the thread that reads it.
    var loopBytesMax = Int.max
    /// The reservation for the row, made before it is read; nil if its memory is not counted.
    var reservation: RowReservation?

    fileprivate var needsSize: Bool { loopBytesMax < .max || reservation != nil }
}

/// A column of a row with its SQL and JSON names.
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

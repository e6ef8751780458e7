// RowChecksum: a checksum that shows whether a row in the file is unchanged since the store wrote
// it.
//
// The digests for a comparison with the server include only ids and versions. If another program
// changes a value in the file but not the version, only the row's checksum shows the change.

import TidelineCore
import TidelineSQLite

/// A checksum of a row's cells in the form in which SQLite stores them.
///
/// The checksum does not depend on the order of the columns or on columns without a value, so
/// adding a column to the table does not change the checksum.
struct RowChecksum {
    private var sum: UInt64 = 0
    /// Whether each cell has its column's storage class; if not, SQLite may convert the cell.
    private var isKnown = true

    /// The checksum; nil if it cannot be computed before SQLite stores the row.
    var value: Int64? { isKnown ? Int64(bitPattern: sum) : nil }

    /// A column in a checksum: its case-insensitive name, and the storage class that SQLite does
    /// not convert.
    struct Column {
        fileprivate let seed: UInt64
        fileprivate let storage: StorageClass

        init(_ name: String, _ storage: StorageClass) {
            seed = RowChecksum.hash(Array(name.lowercased().utf8), seed: 0)
            self.storage = storage
        }
    }

    @inline(__always)
    mutating func add(integer: Int64, _ column: Column) {
        switch column.storage {
        case .integer, .blob: mix(UInt64(bitPattern: integer), column, kind: 1)
        case .real: add(real: Double(integer), column)
        case .text: isKnown = false
        }
    }

    /// Adds a number.
    ///
    /// SQLite stores a number without a fraction as an integer, so it is hashed as an integer.
    @inline(__always)
    mutating func add(real: Double, _ column: Column) {
        guard column.storage != .text, !real.isNaN else {
            isKnown = false
            return
        }
        if let integer = Int64(exactly: real) {
            mix(UInt64(bitPattern: integer), column, kind: 1)
        } else {
            mix(real.bitPattern, column, kind: 2)
        }
    }

    @inline(__always)
    mutating func add(text: UnsafeBufferPointer<UInt8>, _ column: Column) {
        guard column.storage == .text || column.storage == .blob else {
            isKnown = false
            return
        }
        mix(Self.hash(text, seed: column.seed), column, kind: 3)
    }

    mutating func add(blob: UnsafeBufferPointer<UInt8>, _ column: Column) {
        mix(Self.hash(blob, seed: column.seed), column, kind: 4)
    }

    /// Adds a value that its column can store, in the form in which it is bound.
    mutating func add(_ value: Value, _ column: Column) {
        switch value {
        case .integer(let value): add(integer: value, column)
        case .string(var text): text.withUTF8 { add(text: $0, column) }
        case let value: add(SQLiteStoreSQL.stored(value), column)
        }
    }

    /// Adds a bound value in the form in which the file stores it.
    private mutating func add(_ value: SQLValue, _ column: Column) {
        switch value {
        case .null: break
        case .integer(let value): add(integer: value, column)
        case .real(let value): add(real: value, column)
        case .text(var text): text.withUTF8 { add(text: $0, column) }
        case .blob(let data): Array(data).withUnsafeBufferPointer { add(blob: $0, column) }
        case .program: isKnown = false
        }
    }

    /// Adds a cell that was read from the file.
    ///
    /// The cell is hashed with the storage class that SQLite gave it.
    mutating func add(stored cell: StatementCell, _ column: Column) {
        switch cell.kind {
        case .null: break
        case .integer: mix(UInt64(bitPattern: cell.integer), column, kind: 1)
        case .real:
            if let integer = Int64(exactly: cell.real) {
                mix(UInt64(bitPattern: integer), column, kind: 1)
            } else {
                mix(cell.real.bitPattern, column, kind: 2)
            }
        case .text: mix(Self.hash(cell.utf8, seed: column.seed), column, kind: 3)
        case .blob:
            mix(Self.hash(cell.blob.bindMemory(to: UInt8.self), seed: column.seed), column, kind: 4)
        }
    }

    @inline(__always)
    private mutating func mix(_ word: UInt64, _ column: Column, kind: UInt64) {
        sum &+= Self.step(Self.step(column.seed, kind), word)
    }

    /// Multiplies the hash by a constant and folds it.
    ///
    /// The constant is the odd number closest to 2^64 divided by the golden ratio.
    @inline(__always)
    private static func step(_ hash: UInt64, _ word: UInt64) -> UInt64 {
        let product = (hash ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return product.high ^ product.low ^ (word &* 0xD6E8_FEB8_6659_FD93)
    }

    @inline(__always)
    private static func hash(_ bytes: UnsafeBufferPointer<UInt8>, seed: UInt64) -> UInt64 {
        let raw = UnsafeRawBufferPointer(bytes)
        var hash = step(seed, UInt64(raw.count))
        var place = 0
        while place &+ 8 <= raw.count {
            hash = step(hash, raw.loadUnaligned(fromByteOffset: place, as: UInt64.self))
            place &+= 8
        }
        var last: UInt64 = 0
        while place < raw.count {
            last = last << 8 | UInt64(raw[place])
            place &+= 1
        }
        return step(hash, last)
    }

    private static func hash(_ bytes: [UInt8], seed: UInt64) -> UInt64 {
        bytes.withUnsafeBufferPointer { hash($0, seed: seed) }
    }
}

extension SQLiteTransaction {
    func uncertainRows(_ filter: Filter?, in name: String) throws -> UncertainRows {
        let table = try self.table(name)
        guard table.hasExtra else { return UncertainRows() }
        // Includes columns that the model no longer has.
        let columns = try storedColumns(of: table)
        let list = columns.map { Identifier($0).quoted }.joined(separator: ", ")
        let places = columns.map { RowChecksum.Column($0, .blob) }
        let sql = try SQLiteStoreSQL.checksums(filter, table, columns: list)
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var uncertain = UncertainRows()
        while try statement.step() {
            var checksum = RowChecksum()
            for (index, column) in places.enumerated() {
                checksum.add(stored: statement.cell(Int32(index + 2)), column)
            }
            let stored = statement.cell(0)
            if stored.isNull {
                uncertain.unknown.append(statement.text(1))
            } else if checksum.value != stored.integer {
                uncertain.changed.append(statement.text(1))
            }
        }
        return uncertain
    }

    func noteUncertain(rowWith id: String, in name: String) throws {
        let table = try self.table(name)
        guard table.hasExtra else { return }
        let statement = try database.prepare(table.dropChecksumByID)
        statement.bind(1, SQLiteStoreSQL.stored(.string(id)))
        try statement.run()
    }

    private func storedColumns(of table: SQLiteTable) throws -> [String] {
        try database.columns(of: table.schema.name).map(\.name)
            .filter { $0 != MembershipMask.name && $0 != SQLiteTable.checksum }
    }
}

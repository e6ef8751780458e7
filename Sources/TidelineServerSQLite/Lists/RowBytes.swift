// RowBytes: rows as JSON.
//
// This is the innermost loop of every list: it uses plain pointers, and counts no references for a cell. Rare values
// (escapes, fractions, bytes) are written by JSONWriter.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The columns of a statement, with their names as JSON members.
struct RowForm: Sendable {
    fileprivate struct Cell: Sendable {
        /// The range of `,"name":` in the names.
        var name: Range<Int>
        var form: CellForm
    }

    fileprivate let names: [UInt8]
    fileprivate let cells: [Cell]

    init(_ columns: [CellColumn]) {
        var writer = JSONWriter()
        var cells: [Cell] = []
        for column in columns {
            let start = writer.bytes.count
            writer.byte(",")
            writer.string(column.name)
            writer.byte(":")
            cells.append(Cell(name: start..<writer.bytes.count, form: column.form))
        }
        names = writer.bytes
        self.cells = cells
    }
}

/// The conversion of a value from the database to JSON.
enum CellForm: Sendable {
    case string
    case integer
    case real
    case boolean
    case date
    case base64
    case raw
    case version
}

/// A buffer into which the rows of a statement are written as JSON.
struct RowBytes: ~Copyable {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private(set) var count = 0

    /// The last minute that was written, and its position, because adjacent rows often have the same minute.
    private var minute = Int64.min
    private var minutePlace = 0

    init(capacity: Int) {
        self.capacity = max(capacity, 64)
        base = .allocate(capacity: self.capacity)
    }

    /// Creates a buffer; its capacity is limited, because a page may have fewer rows than requested.
    init(rowsMax: Int) {
        self.init(capacity: (min(rowsMax, Self.usualRowsMax) + 1) * Self.usualRowBytes)
    }

    private static let usualRowsMax = 1000
    private static let usualRowBytes = 256

    deinit { base.deallocate() }

    /// A copy of the bytes, with spare capacity for the end of a page.
    var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count + Self.bytesForEnd) { target, written in
            target.baseAddress?.initialize(from: base, count: count)
            written = count
        }
    }

    private static let bytesForEnd = 1024

    /// Removes the bytes after the first `count` bytes.
    mutating func cut(to count: Int) {
        precondition(count <= self.count, "only what was written can be dropped")
        self.count = count
        minute = .min
    }

    mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { copy($0) }
    }

    mutating func byte(_ byte: UInt8) {
        reserve(1)
        base[count] = byte
        count += 1
    }

    /// Writes the current row of the statement as an object.
    mutating func row(_ form: RowForm, _ statement: Statement) {
        let start = count
        form.names.withUnsafeBufferPointer { names in
            form.cells.withUnsafeBufferPointer { cells in
                for index in cells.indices {
                    copy(UnsafeBufferPointer(rebasing: names[cells[index].name]))
                    value(cells[index].form, statement, Int32(truncatingIfNeeded: index))
                }
            }
        }
        // The first member needs no comma.
        if count > start { base[start] = UInt8(ascii: "{") } else { byte(UInt8(ascii: "{")) }
        byte(UInt8(ascii: "}"))
    }

    /// Writes the `@removed` object of the row whose id is in this column.
    mutating func removed(_ statement: Statement, id column: Int32, isDeleted: Bool) {
        word("{\"@removed\":{\"reason\":\"")
        word(isDeleted ? "deleted" : "changed")
        word("\"},\"id\":")
        string(statement.cell(column).utf8)
        byte(UInt8(ascii: "}"))
    }

    private mutating func value(_ form: CellForm, _ statement: Statement, _ index: Int32) {
        let cell = statement.cell(index)
        guard !cell.isNull else { return word("null") }
        switch form {
        case .string: string(cell.utf8)
        case .integer: integer(cell.integer)
        case .boolean: if cell.integer != 0 { word("true") } else { word("false") }
        case .date: date(cell.integer)
        case .version: version(cell.integer)
        case .raw: copy(cell.utf8)
        case .real: written { $0.number(cell.real) }
        case .base64: written { $0.string(Data(statement.blob(index)).base64EncodedString()) }
        }
    }

    private mutating func written(_ body: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        body(&writer)
        append(writer.bytes)
    }

    // MARK: - Values

    private mutating func string(_ text: UnsafeBufferPointer<UInt8>) {
        guard PlainText.end(text, from: 0).index == text.count else {
            return written { $0.string(utf8: text) }
        }
        reserve(text.count + 2)
        base[count] = UInt8(ascii: "\"")
        if let start = text.baseAddress {
            (base + count + 1).update(from: start, count: text.count)
        }
        base[count + text.count + 1] = UInt8(ascii: "\"")
        count += text.count + 2
    }

    private mutating func integer(_ value: Int64) {
        reserve(20)
        if value < 0 {
            base[count] = UInt8(ascii: "-")
            count += 1
        }
        var rest = value.magnitude
        var digits = 1
        while rest >= 10 {
            rest /= 10
            digits += 1
        }
        rest = value.magnitude
        for place in stride(from: count + digits - 1, through: count, by: -1) {
            base[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        count += digits
    }

    /// Writes microseconds since 1970 as a quoted instant with three decimals, truncated.
    private mutating func date(_ microseconds: Int64) {
        var milliseconds = microseconds / 1000
        if microseconds % 1000 < 0 { milliseconds -= 1 }
        var minute = milliseconds / 60_000
        if milliseconds % 60_000 < 0 { minute -= 1 }
        let start = count
        reserve(Self.dateSize)
        if minute == self.minute {
            (base + start).update(from: base + minutePlace, count: Self.dateSize)
            count += Self.dateSize
        } else {
            var text: [UInt8] = [UInt8(ascii: "\"")]
            Timestamp(microseconds: minute &* 60_000_000).write(to: &text)
            text.append(UInt8(ascii: "\""))
            append(text)
            // A year of more than four digits has a different format, and cannot be copied.
            self.minute = text.count == Self.dateSize ? minute : .min
            minutePlace = start
        }
        // "2026-11-20T20:32:00.000Z" with its quotes: seconds from 18, milliseconds from 21.
        let rest = UInt64(truncatingIfNeeded: milliseconds - minute * 60_000)
        base[start + 18] = Self.digit(rest / 10_000)
        base[start + 19] = Self.digit(rest / 1000)
        base[start + 21] = Self.digit(rest / 100)
        base[start + 22] = Self.digit(rest / 10)
        base[start + 23] = Self.digit(rest)
    }

    private static let dateSize = 26

    private static func digit(_ value: UInt64) -> UInt8 {
        UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10)
    }

    private mutating func version(_ timestamp: Int64) {
        reserve(14)
        base[count] = UInt8(ascii: "\"")
        RowVersion.write(timestamp, to: base + count + 1)
        base[count + 13] = UInt8(ascii: "\"")
        count += 14
    }

    // MARK: - Memory

    private mutating func word(_ text: StaticString) {
        copy(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func copy(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let start = bytes.baseAddress else { return }
        reserve(bytes.count)
        (base + count).update(from: start, count: bytes.count)
        count += bytes.count
    }

    @inline(__always)
    private mutating func reserve(_ more: Int) {
        if count + more > capacity { grow(to: count + more) }
    }

    private mutating func grow(to needed: Int) {
        capacity = max(capacity * 2, needed)
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        larger.update(from: base, count: count)
        base.deallocate()
        base = larger
    }
}

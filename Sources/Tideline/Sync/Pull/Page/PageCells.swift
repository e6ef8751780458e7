// PageCells: a page that is stored without creating rows.
//
// On a typical page, all rows have the columns of the table and values that fit them, and no row is
// removed. Such a page is stored without creating names, values and strings for each row. Any other
// page is read as rows.

import Foundation
import TidelineCore

/// The rows of a page as SQLite cells, which point into the bytes of the response.
package struct PageCells: Sendable {
    /// A value in the form in which SQLite stores it.
    struct Cell {
        enum Kind: UInt8 {
            case null
            case integer
            case real
            /// UTF-8 text within the bytes of the response.
            case text
            /// UTF-8 text that was converted from the response because of escapes or canonical
            /// forms.
            case copiedText
            case copiedBlob
        }

        var kind = Kind.null
        /// The number of bytes of a string or blob.
        var count: Int32 = 0
        /// The integer, the bits of a floating-point number, or the offset of the bytes.
        var payload: Int64 = 0
    }

    /// The columns of every row, in the order of its cells.
    let columns: [String]
    private(set) var cells: [Cell] = []
    private(set) var rowCount = 0
    /// The latest `updatedAt`, in milliseconds.
    private(set) var latest: Int64?
    private let bytes: [UInt8]
    private var copies: [UInt8] = []

    /// Reads an array of rows.
    ///
    /// - Returns: Nil if the rows do not all have the same JSON members and types. The position of
    ///   `reader` is then undefined.
    init?(_ reader: inout JSONReader, of bytes: [UInt8], schema: TableSchema) {
        self.bytes = bytes
        let definitions = schema.systemColumns.filter { $0.name != SystemColumn.deleted }
        columns = definitions.map(\.name) + schema.columns.map(\.name)
        var shape = PageShape(schema, columns: columns)
        do {
            try reader.beginArray()
            while try reader.nextElement() {
                guard try readRow(&reader, &shape) else { return nil }
            }
        } catch {
            return nil
        }
    }

    private mutating func readRow(
        _ reader: inout JSONReader,
        _ shape: inout PageShape
    ) throws -> Bool {
        let first = cells.count
        cells.append(contentsOf: repeatElement(Cell(), count: columns.count))
        var place = 0
        try reader.beginObject()
        while let name = try reader.nextMember() {
            guard let member = shape.member(place, name, reader, isFirst: rowCount == 0) else {
                return false
            }
            place += 1
            guard try readValue(&reader, member, first) else { return false }
        }
        rowCount += 1
        // The id is the first column.
        let id = cells[first]
        return place == shape.count && id.kind != .null && id.count > 0
    }

    private mutating func readValue(
        _ reader: inout JSONReader,
        _ member: PageShape.Member,
        _ first: Int
    ) throws -> Bool {
        if case .other(let form, let kind) = member.form {
            return keep(try JSONRowReader.value(&reader, form), kind, at: first + member.column)
        }
        switch (member.form, try reader.value()) {
        case (.deleted, .bool(false)), (_, .null):
            return true
        case (.text, .string(let span)):
            if span.isEscaped {
                copy(Array(reader.text(span).utf8), .copiedText, at: first + member.column)
            } else {
                cells[first + member.column] = Cell(
                    kind: .text,
                    count: Int32(truncatingIfNeeded: span.range.count),
                    payload: Int64(span.range.lowerBound)
                )
            }
            return true
        case (.instant, .string(let span)):
            let text = UnsafeBufferPointer(rebasing: reader.bytes[span.range])
            guard !span.isEscaped, let timestamp = Timestamp(utf8: UnsafeRawBufferPointer(text))
            else {
                return false
            }
            let milliseconds = timestamp.milliseconds
            if member.isUpdatedAt { latest = max(latest ?? milliseconds, milliseconds) }
            cells[first + member.column] = Cell(kind: .integer, payload: milliseconds)
            return true
        case (.integer, .number(let span)):
            guard let integer = reader.integer(span) else { return false }
            cells[first + member.column] = Cell(kind: .integer, payload: integer)
            return true
        case (.boolean, .bool(let value)):
            cells[first + member.column] = Cell(kind: .integer, payload: value ? 1 : 0)
            return true
        case (.text, _), (.instant, _), (.integer, _), (.boolean, _), (.deleted, _), (.other, _):
            return false
        }
    }

    /// Adds a value of a column whose type is not one of the frequent ones.
    private mutating func keep(_ value: Value, _ kind: CellKind, at place: Int) -> Bool {
        guard kind.holds(value) else { return false }
        switch SQLiteStoreSQL.stored(value) {
        case .null: break
        case .integer(let value): cells[place] = Cell(kind: .integer, payload: value)
        case .real(let value):
            cells[place] = Cell(kind: .real, payload: Int64(bitPattern: value.bitPattern))
        case .text(let text): copy(Array(text.utf8), .copiedText, at: place)
        case .blob(let data): copy(Array(data), .copiedBlob, at: place)
        case .program: return false
        }
        return true
    }

    private mutating func copy(_ bytes: [UInt8], _ kind: Cell.Kind, at place: Int) {
        cells[place] = Cell(
            kind: kind,
            count: Int32(truncatingIfNeeded: bytes.count),
            payload: Int64(copies.count)
        )
        copies += bytes
    }

    /// Whether any row has a version.
    var hasVersion: Bool {
        guard let version = columns.firstIndex(of: SystemColumn.version) else { return false }
        return (0..<rowCount).contains { cells[$0 * columns.count + version].kind != .null }
    }

    /// Calls `body` with the bytes that the cells point into: the bytes of the response, and the
    /// converted bytes.
    func withBytes<Result>(
        _ body: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>) throws -> Result
    ) rethrows -> Result {
        try bytes.withUnsafeBufferPointer { bytes in
            try copies.withUnsafeBufferPointer { try body(bytes, $0) }
        }
    }

    /// Rereads the bytes of the response with another reader.
    func rows(_ read: (UnsafeBufferPointer<UInt8>) throws -> [Row]) rethrows -> [Row] {
        try bytes.withUnsafeBufferPointer(read)
    }

    /// Calls `body` with the bytes of each id, in order.
    func forEachID(_ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        withBytes { bytes, copies in
            for row in 0..<rowCount {
                let cell = cells[row * columns.count]
                let source = cell.kind == .text ? bytes : copies
                let start = Int(cell.payload)
                body(UnsafeBufferPointer(rebasing: source[start..<start + Int(cell.count)]))
            }
        }
    }
}

/// The JSON members of each row of a page, determined from the first row.
private struct PageShape {
    enum Form {
        case text
        case instant
        case integer
        case boolean
        /// False or null: the row is not deleted.
        case deleted
        case other(ValueForm, CellKind)
    }

    struct Member {
        var name: Range<Int>
        /// The index of the column's cell in a row.
        var column: Int
        var form: Form
        var isUpdatedAt: Bool
    }

    private let schema: TableSchema
    private let columns: [String]
    private var members: [Member] = []
    /// The names of the members as they arrived, one after the other.
    private var names: [UInt8] = []

    var count: Int { members.count }

    init(_ schema: TableSchema, columns: [String]) {
        self.schema = schema
        self.columns = columns
    }

    /// Returns the member at this position; nil if the row has a different member there.
    mutating func member(
        _ place: Int,
        _ name: JSONReader.Span,
        _ reader: JSONReader,
        isFirst: Bool
    ) -> Member? {
        if place < members.count {
            let member = members[place]
            return reader.matches(name, names, member.name) ? member : nil
        }
        return isFirst ? learn(reader.text(name)) : nil
    }

    private mutating func learn(_ name: String) -> Member? {
        guard let column = schema.column(matching: name) else { return nil }
        let isDeleted = column.name == SystemColumn.deleted
        guard let place = isDeleted ? columns.count : columns.firstIndex(of: column.name),
            !members.contains(where: { $0.column == place })
        else { return nil }
        let start = names.count
        names.append(contentsOf: name.utf8)
        let member = Member(
            name: start..<names.count,
            column: place,
            form: isDeleted ? .deleted : Self.form(column.type),
            isUpdatedAt: column.name == SystemColumn.updatedAt
        )
        members.append(member)
        return member
    }

    private static func form(_ type: ColumnType) -> Form {
        switch type {
        case .string, .date, .time, .enumeration: .text
        case .dateTime: .instant
        case .integer: .integer
        case .boolean: .boolean
        case .guid, .number, .decimal, .binary, .json: .other(ValueForm(type), CellKind(type))
        }
    }
}

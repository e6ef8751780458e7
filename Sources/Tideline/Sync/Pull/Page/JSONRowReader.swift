// JSONRowReader: reads rows from JSON text, with the types of a schema.
//
// JSON members are matched with the columns of the schema regardless of letter case: the server's
// `text` is the model's `Text`.

import Foundation
import TidelineCore

/// A reader of the rows of a page, whose rows share their names if they have the same JSON members.
struct JSONRowReader {
    private let schema: TableSchema?
    /// The JSON members of the last row, in the order in which they arrived.
    private var members: [Member] = []
    /// The names of these members as they arrived, one after the other.
    private var names: [UInt8] = []
    /// The names of these members in the row.
    private var columns: [String] = []
    private var layout = RowLayout.empty

    /// A JSON member as plain data, so that a loop over members causes no reference counting.
    private struct Member {
        var name: Range<Int>
        var form: ValueForm
    }

    init(schema: TableSchema?) {
        self.schema = schema
    }

    /// Reads one object; values get the types of the schema's columns if their text fits.
    mutating func row(_ reader: inout JSONReader) throws -> Row {
        var values: [Value] = []
        values.reserveCapacity(members.count)
        var isSameShape = true
        try reader.beginObject()
        while let name = try reader.nextMember() {
            let index = values.count
            if isSameShape, index < members.count, reader.matches(name, names, members[index].name)
            {
                values.append(try JSONRowReader.value(&reader, members[index].form))
                continue
            }
            if isSameShape {
                cut(to: index)
                isSameShape = false
            }
            values.append(try JSONRowReader.value(&reader, try append(name, reader)))
        }
        if values.count < members.count {
            cut(to: values.count)
            isSameShape = false
        }
        if !isSameShape { layout = RowLayout(columns) }
        return Row(layout: layout, values: values)
    }

    private mutating func cut(to count: Int) {
        members.removeSubrange(count...)
        columns.removeSubrange(count...)
        names.removeSubrange((members.last?.name.upperBound ?? 0)...)
    }

    /// Adds a JSON member that the last row did not have, and returns the form of its value.
    private mutating func append(
        _ name: JSONReader.Span,
        _ reader: JSONReader
    ) throws -> ValueForm {
        guard !members.contains(where: { reader.matches(name, names, $0.name) }) else {
            throw reader.failure("duplicate member name", at: name.range.lowerBound)
        }
        let text = reader.text(name)
        var column = schema?.column(matching: text)
        if let known = column, let place = columns.firstIndex(of: known.name) {
            // If two members match one column, the member with exactly the column's name is used.
            if known.name == text {
                columns[place] = String(decoding: names[members[place].name], as: UTF8.self)
            } else {
                column = nil
            }
        }
        let form = ValueForm(column?.type)
        let start = names.count
        names.append(contentsOf: text.utf8)
        members.append(Member(name: start..<names.count, form: form))
        columns.append(column?.name ?? text)
        return form
    }

    /// Reads one value; a value that does not fit the column's type is kept unchanged.
    static func value(_ reader: inout JSONReader, _ form: ValueForm) throws -> Value {
        let start = reader.position
        let token = try reader.value()
        if form == .json, !isNull(token) {
            try reader.skip(token)
            return .json(JSON(checked: JSON.compact(reader.bytes, start..<reader.position)))
        }
        switch token {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .number(let span): return number(reader, span, form)
        case .string(let span): return string(reader, span, form)
        case .object, .array:
            let opening = reader.position
            try reader.skip(token)
            return .json(JSON(checked: JSON.compact(reader.bytes, opening..<reader.position)))
        }
    }

    private static func isNull(_ token: JSONReader.Token) -> Bool {
        if case .null = token { true } else { false }
    }

    private static func number(
        _ reader: JSONReader,
        _ span: Range<Int>,
        _ form: ValueForm
    ) -> Value {
        switch form {
        case .number:
            if let integer = reader.integer(span) { return .number(Double(integer)) }
            guard let number = Double(reader.text(span)), number.isFinite else {
                return .json(JSON(checked: reader.text(span)))
            }
            return .number(number)
        case .decimal:
            let text = reader.text(span)
            return DecimalText.parse(text).map(Value.decimal) ?? .json(JSON(checked: text))
        case .integer, .dateTime, .guid, .binary, .json, .plain:
            if let integer = reader.integer(span) { return .integer(integer) }
            guard let number = Double(reader.text(span)), number.isFinite else {
                return .json(JSON(checked: reader.text(span)))
            }
            if form == .integer, let whole = Int64(exactly: number) { return .integer(whole) }
            return .number(number)
        }
    }

    private static func string(
        _ reader: JSONReader,
        _ span: JSONReader.Span,
        _ form: ValueForm
    ) -> Value {
        switch form {
        case .dateTime:
            if !span.isEscaped,
                let timestamp = Timestamp(
                    utf8: UnsafeRawBufferPointer(
                        UnsafeBufferPointer(rebasing: reader.bytes[span.range])
                    )
                )
            {
                return .date(Timestamp(microseconds: timestamp.milliseconds * 1000).date)
            }
            return .string(reader.text(span))
        case .guid:
            return .string(reader.text(span).lowercased())
        case .binary:
            let text = reader.text(span)
            return Data(base64Encoded: text).map(Value.data) ?? .string(text)
        case .decimal:
            let text = reader.text(span)
            return DecimalText.parse(text).map(Value.decimal) ?? .string(text)
        case .integer, .number, .json, .plain:
            return .string(reader.text(span))
        }
    }
}

/// The form in which a column's text is read, which is its type without associated values.
enum ValueForm {
    case integer
    case number
    case decimal
    case dateTime
    case guid
    case binary
    case json
    /// The value is not converted.
    case plain

    init(_ type: ColumnType?) {
        self =
            switch type {
            case .integer: .integer
            case .number: .number
            case .decimal: .decimal
            case .dateTime: .dateTime
            case .guid: .guid
            case .binary: .binary
            case .json: .json
            case .string, .boolean, .date, .time, .enumeration, nil: .plain
            }
    }
}

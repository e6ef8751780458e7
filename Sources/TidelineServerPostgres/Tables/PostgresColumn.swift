// PostgresColumn: values in PostgreSQL.
//
// Values inside the server have the same form for every database (StoredDefault.swift): instants are microseconds since
// 1970; dates, times, UUIDs and decimals are strings. PostgreSQL has types for them. A column that is not nullable may
// contain the empty string instead of a date, a time or a UUID; this string is null in PostgreSQL.

import Foundation
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A column in PostgreSQL: its declaration, and how its values are read and written.
struct PostgresColumn: Sendable {
    let name: String
    let quoted: String
    private let form: Form
    /// The value that null represents.
    private let null: SQLValue

    private enum Form {
        case text
        case integer
        case real
        case decimal
        case boolean
        case instant
        case day
        case time
        case guid
        case bytes
        case json
    }

    /// A column of a table, or a system column.
    init(_ column: ColumnDefinition, isSystem: Bool = false) {
        name = column.name
        quoted = PostgresName.quoted(column.name)
        filler = column.isNullable ? .null : column.storedDefault
        if isSystem && column.name == SystemColumn.version {
            form = .integer
            null = .null
            return
        }
        form =
            switch column.type {
            case .string, .enumeration: .text
            case .integer: .integer
            case .number: .real
            case .decimal: .decimal
            case .boolean: .boolean
            case .dateTime: .instant
            case .date: .day
            case .time: .time
            case .guid: .guid
            case .binary: .bytes
            case .json: .json
            }
        let canBeEmpty = form == .day || form == .time || form == .guid
        null = canBeEmpty && !column.isNullable ? .text("") : .null
    }

    // MARK: - Declaring

    /// The name of the type.
    private var type: String {
        switch form {
        case .text: "text"
        case .integer: "bigint"
        case .real: "double precision"
        case .decimal: "numeric"
        case .boolean: "boolean"
        case .instant: "timestamptz"
        case .day: "date"
        case .time: "time"
        case .guid: "uuid"
        case .bytes: "bytea"
        case .json: "json"
        }
    }

    /// PostgreSQL's name of the type.
    var typeName: String {
        switch form {
        case .instant: "timestamp with time zone"
        case .time: "time without time zone"
        case .text, .integer, .real, .decimal, .boolean, .day, .guid, .bytes, .json: type
        }
    }

    /// PostgreSQL's identifiers of the types that cells may have in a result, beginning with that of
    /// ``typeName``.
    var cellTypes: [UInt32] {
        switch form {
        // A text type with a length has the same bytes.
        case .text: [25, 1043]
        case .decimal, .json: [25]
        case .integer: [20]
        case .real: [701]
        case .boolean: [16]
        case .instant: [1184]
        case .day: [1082]
        case .time: [1083]
        case .guid: [2950]
        case .bytes: [17]
        }
    }

    /// Returns whether cells of this type and collation are read and ordered in the same way.
    func isServed(as type: String, _ collation: String) -> Bool {
        guard form != .text || collation == "C" else { return false }
        // Without length and precision: "timestamp(3) with time zone".
        let parts = type.split(separator: "(", maxSplits: 1)
        let rest = parts.count > 1 ? parts[1].drop { $0 != ")" }.dropFirst() : ""
        let bare = (parts.first.map(String.init) ?? "") + rest
        return bare == typeName || form == .text && bare == "character varying"
    }

    /// The type with its collation; strings are compared by their bytes.
    var declaration: String { form == .text ? "\(type) COLLATE \"C\"" : type }

    /// Returns a value as SQL, for a default.
    func constant(_ value: SQLValue) -> String {
        guard let text = element(value) else { return "NULL" }
        return "'" + text.replacing("'", with: "''") + "'::\(type)"
    }

    /// The replacement for a value that cannot be stored: null, or the default if null is not allowed.
    let filler: SQLValue

    // MARK: - Reading

    /// Returns the column as a binary cell that `value` reads.
    ///
    /// A column that is read as text gets an alias; otherwise ORDER BY would order the strings.
    func selected(from table: String = "") -> String {
        let column = table + quoted
        return form == .decimal || form == .json ? "\(column)::text AS \"tideline_text\"" : column
    }

    /// Returns an expression of the column's type as a binary cell that `value` reads.
    func selected(expression: String) -> String {
        let cast = "(\(expression))::\(type)"
        return form == .decimal || form == .json ? "(\(cast))::text" : cast
    }

    func value(_ result: PostgresResult, _ row: Int, _ cell: Int) -> SQLValue {
        if result.isNull(row, cell) { return null }
        switch form {
        case .text, .decimal, .json: return .text(result.text(row, cell))
        case .integer: return .integer(result.integer(row, cell))
        case .real: return .real(result.real(row, cell))
        case .boolean: return .integer(result.boolean(row, cell) ? 1 : 0)
        case .instant: return .integer(Self.instant(result.integer(row, cell)))
        case .day: return .text(Self.day(result.integer(row, cell)))
        case .time: return .text(TimeText.text(result.integer(row, cell)))
        case .guid: return .text(Self.guid(result.bytes(row, cell)))
        case .bytes: return .blob(result.data(row, cell))
        }
    }

    /// The seconds from 1970 to 2000, the start of PostgreSQL's time.
    private static let epochSeconds: Int64 = 946_684_800

    /// Converts a cell to microseconds since 1970.
    static func instant(_ cell: Int64) -> Int64 { cell &+ epochSeconds * 1_000_000 }

    private static func day(_ days: Int64) -> String {
        let seconds = days &* 86_400 &+ epochSeconds
        return String(Timestamp(microseconds: seconds &* 1_000_000).text.prefix(10))
    }

    private static func guid(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(36)
        for (place, byte) in bytes.enumerated() {
            if place == 4 || place == 6 || place == 8 || place == 10 {
                text.append(UInt8(ascii: "-"))
            }
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    // MARK: - Writing

    /// The type of an array of the column's values.
    var arrayType: String { type + "[]" }

    /// Returns values of the column as a parameter of `arrayType`.
    func array(_ values: [SQLValue]) -> PostgresParameter {
        .array(values.map { value in element(value).map { .text($0) } ?? .null })
    }

    /// Returns a value in PostgreSQL's text format; nil for null.
    private func element(_ value: SQLValue) -> String? {
        switch value {
        case .null, .program: nil
        case .integer(let flag) where form == .boolean: flag != 0 ? "true" : "false"
        case .integer(let time) where form == .instant: Timestamp(microseconds: time).exactText
        case .integer(let number): String(number)
        case .real(let number): "\(number)"
        case .text(let text): text.isEmpty && value == null ? nil : text
        case .blob(let data):
            "\\x" + data.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }
}

extension SQL {
    /// Returns an instant, in microseconds since 1970, as a parameter.
    static func instant(_ microseconds: Int64) -> SQL {
        "\(SQLValue.text(Timestamp(microseconds: microseconds).exactText))::timestamptz"
    }
}

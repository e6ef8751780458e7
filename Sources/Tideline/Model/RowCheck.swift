// RowCheck: checks of records before they are queued.

import Foundation
import TidelineCore

/// The checks that reject records that no server would accept, before they are stored.
enum RowCheck {
    /// Rejects reserved names, values that no table can hold, and a set `deleted` flag.
    ///
    /// `schema` has the column types of rows that were not created from a model. Columns that are not in the schema can
    /// hold any value.
    static func check(
        _ row: Row,
        table: String,
        id: String? = nil,
        schema: TableSchema? = nil
    ) throws {
        for (name, value) in row {
            let column = schema?.columns.first { $0.name == name }
            if let reason = fault(ofName: name) ?? fault(of: value, in: column?.type) {
                throw SyncError.recordDoesNotFit(
                    table: table,
                    id: id ?? row.id,
                    column: name,
                    reason: reason
                )
            }
        }
        try checkIsLive(row, table: table)
    }

    /// Rejects invalid values that are in neither the local row nor the server's row.
    ///
    /// A value that either row already has is accepted, because the app did not create it.
    static func check(
        _ row: Row,
        changing known: [Row?],
        table: String,
        id: String,
        schema: TableSchema?
    ) throws {
        try checkIsLive(row, table: table)
        var changes = Row()
        for (name, value) in RowMerge.payload(row)
        where !known.contains(where: { $0.map { RowMerge.same($0[name], value) } ?? false }) {
            changes[name] = value
        }
        try check(changes, table: table, id: id, schema: schema)
    }

    /// Rejects a set `deleted` flag, because only the server may set it.
    static func checkIsLive(_ row: Row, table: String) throws {
        guard row[SystemColumn.deleted] == .bool(true) else { return }
        throw SyncError.recordDoesNotFit(
            table: table,
            id: row.id,
            column: SystemColumn.deleted,
            reason: "is true, but only a delete may set it: call 'delete' instead"
        )
    }

    /// Rejects an id that is not a string, because no query would find the row.
    static func checkID(_ row: Row) throws {
        guard let id = row["id"], !id.isNull else { return }
        guard case .string = id else { throw SyncError.invalidID("it is not a string") }
    }

    /// Returns why a row cannot have a member of this name, as the end of a sentence; nil if it can.
    private static func fault(ofName name: String) -> String? {
        name.hasPrefix("__")
            ? "has a reserved name: no name may begin with '__'" : nil
    }

    /// Returns why a column of this type cannot hold a value, as the end of a sentence; nil if it can.
    static func fault(of value: Value, in type: ColumnType?) -> String? {
        switch value {
        case .string(let text) where text.utf8.contains(0):
            return "contains the character U+0000, which no table can store"
        case .json(let document) where hasNUL(document.text):
            return "has a document with the character U+0000, which no table can store"
        case .number(let number) where !number.isFinite: return "is a number that is not finite"
        case .decimal(let number) where !number.isFinite: return "is a number that is not finite"
        case .date(let date) where Timestamp(millisecondOf: date) == nil:
            return "is a date outside the years 1 to 9999"
        case .null, .bool, .integer, .number, .decimal, .string, .date, .data, .json: break
        }
        guard let type, !value.isNull, !holds(value, type) else { return nil }
        return "has a value of another type than the column, whose type is \(type.name)"
    }

    private static func holds(_ value: Value, _ type: ColumnType) -> Bool {
        switch type {
        case .json: return true
        case .string: return value.asString() != nil
        case .boolean: return value.asBool() != nil
        case .integer: return value.asInteger(Int64.self) != nil
        case .dateTime: return value.asDate() != nil
        case .binary: return value.asData() != nil
        case .number: return isNumber(value)
        case .decimal:
            guard case .string(let text) = value else { return isNumber(value) }
            return DecimalText.parse(text) != nil
        case .date: return value.asString().flatMap { DayText.canonical($0) } != nil
        case .time: return value.asString().flatMap { TimeText.microseconds($0) } != nil
        case .guid: return value.asString().flatMap { GuidText.canonical($0) } != nil
        case .enumeration(let members):
            guard case .string(let text) = value else { return false }
            return members.contains { $0.utf8.elementsEqual(text.utf8) }
        }
    }

    private static func isNumber(_ value: Value) -> Bool {
        switch value {
        case .integer, .number, .decimal: true
        case .null, .bool, .string, .date, .data, .json: false
        }
    }

    /// Returns whether a document contains the escape `\u0000`.
    ///
    /// An escaped backslash followed by `u0000` does not count.
    private static func hasNUL(_ json: String) -> Bool {
        var bytes = json.utf8[...]
        while let place = bytes.firstIndex(of: UInt8(ascii: "\\")) {
            bytes = bytes[bytes.index(after: place)...]
            if bytes.starts(with: "u0000".utf8) { return true }
            bytes = bytes.dropFirst()
        }
        return false
    }
}

// RowValues: converts rows between a database's form and that of hooks.

import Foundation
package import TidelineCore

extension Value {
    /// Creates the value of a column of this type from its stored form.
    package init(_ stored: SQLValue, type: ColumnType) {
        self.init(stored, as: ExpressionType(type))
    }

    /// Converts a stored value to the wire value of this type.
    package init(_ stored: SQLValue, as type: ExpressionType) {
        self = SQLFunctions.value(stored, as: type)
    }
}

extension Table {
    /// Returns the values of the columns, then of the system columns, in their stored form; times are truncated
    /// as on the wire.
    func storedValues(_ row: StoredRow) throws -> [SQLValue] {
        var values = try members(of: row.json).map { $0 ?? .null }
        if let place = member(named: SystemColumn.version) {
            values[place] = .integer(row.state.version)
        }
        return values
    }

    /// Returns the same for a row in its wire form; nil for absent members.
    ///
    /// The version is a string.
    package func members(of json: [UInt8]) throws -> [SQLValue?] {
        var values = [SQLValue?](
            repeating: nil,
            count: columns.count + SystemColumn.definitions.count
        )
        try json.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            guard case .object = try reader.value() else { return }
            try reader.beginObject()
            var hint = 0
            while let name = try reader.nextMember() {
                guard let place = member(name, in: reader, hint: hint) else {
                    try reader.skip(try reader.value())
                    continue
                }
                hint = place + 1
                var column =
                    place < columns.count
                    ? columns[place] : SystemColumn.definitions[place - columns.count]
                let isNullable = column.isNullable
                // Stored values may be older than the rules of the column.
                column.isNullable = true
                // An empty text is the zero value of a date, a time or a guid. It remains if the column
                // becomes nullable.
                let isEmptyZero = [.date, .time, .guid].contains(column.type)
                values[place] = try column.read(&reader, acceptsZero: !isNullable || isEmptyZero)
                if isNullable, isEmptyZero, values[place] == .text("") { values[place] = .null }
            }
        }
        return values
    }

    /// Returns the row as hooks see it.
    func row(_ stored: StoredRow) throws -> Row {
        let values = try storedValues(stored)
        var row = Row()
        let all = columns + SystemColumn.definitions
        for (column, value) in zip(all, values) {
            row[column.name] = Self.value(value, column.type)
        }
        row[SystemColumn.version] = .string(RowVersion.text(stored.state.version))
        return row
    }

    /// Returns the members that a write sets, as hooks see them.
    func row(of values: [SQLValue?]) -> Row {
        var row = Row()
        for (column, value) in zip(columns, values) {
            if let value { row[column.name] = Self.value(value, column.type) }
        }
        return row
    }

    /// Returns a stored value as hooks see it: the JSON document `null` is null.
    private static func value(_ stored: SQLValue, _ type: ColumnType) -> Value {
        type == .json && stored == .text("null") ? .null : Value(stored, type: type)
    }

    /// Returns the values of a row that a hook derived from `old`, whose values are `known`.
    ///
    /// - Throws: ``ServerError`` with 400 for a value that the column does not accept, and ``HookFault`` for a
    ///   member that is not a column.
    func values(of row: Row, from old: Row, _ known: [SQLValue?]) throws -> [SQLValue?] {
        var values = [SQLValue?](repeating: nil, count: columns.count)
        for (name, value) in row {
            guard let place = member(named: name) else { throw HookFault.noColumn(name, self.name) }
            guard place < columns.count else {
                if old[name] == value { continue }
                throw HookFault.systemColumn(name)
            }
            // A value that the hook did not change is stored exactly as it was: read back from the wire, a time would
            // lose its microseconds. This applies to untouched columns as well.
            values[place] = old[name] == value ? known[place] : try stored(value, place)
        }
        return values
    }

    private func stored(_ value: Value, _ place: Int) throws -> SQLValue {
        if case .date = value, columns[place].type == .dateTime {
            let stored = SQLValue(value, type: .dateTime)
            try check(place, stored)
            return stored
        }
        var writer = JSONWriter()
        writer.value(value)
        return try writer.bytes.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            return try read(place, &reader)
        }
    }
}

/// A mistake in a hook, for the log.
struct HookFault: Error, CustomStringConvertible {
    var description: String

    static func noColumn(_ name: String, _ table: String) -> HookFault {
        HookFault(description: "a hook set '\(name)', but table '\(table)' has no such column")
    }

    static func systemColumn(_ name: String) -> HookFault {
        HookFault(description: "a hook set '\(name)', which only the server sets")
    }

    static func status(_ rejection: Rejection) -> HookFault {
        HookFault(
            description:
                "a hook rejected with status \(rejection.status), but only 400 to 499 are allowed, except "
                + "401, 409 and 412: \(rejection.message)"
        )
    }
}

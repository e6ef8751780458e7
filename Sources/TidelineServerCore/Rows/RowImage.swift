// RowImage: a row as a database stores it: the input and the result of a planned write.

import Foundation
package import TidelineCore

/// All values of a row, with times in microseconds.
package struct RowImage: Hashable, Sendable {
    package var id: String
    /// The values by column.
    package var values: [SQLValue]
    package var createdAt: Int64
    package var updatedAt: Int64
    package var version: Int64
    package var isDeleted: Bool

    package init(
        id: String,
        values: [SQLValue],
        createdAt: Int64,
        updatedAt: Int64,
        version: Int64,
        isDeleted: Bool
    ) {
        self.id = id
        self.values = values
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.version = version
        self.isDeleted = isDeleted
    }

    /// The values of the columns, followed by those of the system columns.
    package var allValues: [SQLValue] {
        values + [
            .text(id), .integer(createdAt), .integer(updatedAt), .integer(version),
            .integer(isDeleted ? 1 : 0),
        ]
    }

    /// The size of the row's strings and blobs, in bytes.
    package var bytes: Int {
        values.reduce(id.utf8.count) { $0 + $1.bytes }
    }

    /// The part of the row that determines the outcome of a write.
    package var state: RowState {
        RowState(version: version, updatedAt: updatedAt, isDeleted: isDeleted)
    }

    /// Returns whether a visibility filter matches the row; nil matches all rows.
    package func isVisible(in view: QueryExpression?, of table: Table) -> Bool {
        guard let view else { return true }
        let all = allValues
        return FilterEvaluator.matches(view.namingExactUpdates) { name in
            guard let place = table.place(of: StoredInstants.column(name)) else { return .null }
            let type = ExpressionType(table.member(place).type)
            return StoredInstants.value(of: name, type, stored: all[place])
        }
    }

    /// Returns the row in its wire form.
    package func stored(in table: Table) -> StoredRow {
        StoredRow(
            json: json(in: table),
            state: state
        )
    }

    /// Returns the JSON of the row, with the same bytes as in a list.
    private func json(in table: Table) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.raw("{\"id\":")
        writer.string(id)
        for (place, column) in table.columns.enumerated() {
            writer.raw(table.jsonNames[place])
            writer.stored(values[place], of: column.type)
        }
        writer.raw(",\"createdAt\":")
        writer.date(Timestamp(microseconds: createdAt))
        writer.raw(",\"updatedAt\":")
        writer.date(Timestamp(microseconds: updatedAt))
        writer.raw(",\"version\":\"")
        writer.raw(RowVersion.text(version))
        writer.raw("\",\"deleted\":")
        writer.bool(isDeleted)
        writer.byte("}")
        return writer.bytes
    }
}

extension RowImage {
    /// Returns the JSON of the row with only these members, given by index among columns and system columns.
    package func json(in table: Table, places: [Int]) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        let all = allValues
        let version = table.columns.count + Self.versionOffset
        writer.byte("{")
        for (number, place) in places.enumerated() {
            let member = table.member(place)
            if number > 0 { writer.byte(",") }
            writer.string(member.name)
            writer.byte(":")
            if place == version {
                writer.string(RowVersion.text(self.version))
            } else {
                writer.stored(all[place], of: member.type)
            }
        }
        writer.byte("}")
        return writer.bytes
    }

    /// The index of the version among the system values.
    private static let versionOffset = 3
}

extension JSONWriter {
    /// Writes a stored value of a column of this type.
    mutating func stored(_ value: SQLValue, of type: ColumnType) {
        switch value {
        case .null, .program: null()
        case .integer(let number) where type == .boolean: bool(number != 0)
        case .integer(let number) where type == .dateTime: date(Timestamp(microseconds: number))
        case .integer(let number): integer(number)
        case .real(let number): self.number(number)
        case .text(let text) where type == .decimal || type == .json: raw(text)
        case .text(let text): string(text)
        case .blob(let data): string(data.base64EncodedString())
        }
    }
}

extension SQLValue {
    /// The size of a string or blob in bytes; 0 for other values.
    var bytes: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .blob(let data): data.count
        case .null, .program, .integer, .real: 0
        }
    }

    /// The value as a database returns it, without negative zero.
    var withoutNegativeZero: SQLValue { if case .real(0) = self { .real(0) } else { self } }
}

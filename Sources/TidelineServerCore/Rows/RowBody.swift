// RowBody: parses bodies of writes.

package import TidelineCore

/// The JSON object of a write, parsed against the table's columns without a tree.
package struct RowBody: Sendable {
    /// A member that the table has no column for.
    package struct Unknown: Hashable, Sendable {
        package var name: String
        /// The type of the column that a dynamic schema would add; nil for null.
        package var type: ColumnType?
    }

    package var id: String?
    /// The values by column; nil for an absent member.
    package var values: [SQLValue?]
    package var version: String?
    package var deleted: Bool?
    /// The value of `updatedAt` as it was sent; only a datasync PATCH uses it.
    package var updatedAt: String?
    /// The names among `createdAt`, `updatedAt` and `deleted` that the body contains, even with null.
    package var reserved: [String] = []
    /// Whether `id`, `version` or `updatedAt` is null in the body; only a datasync PATCH uses it.
    package var hasNullClaim = false
    /// The different values of a column that the body has under several of its names.
    package var alternatives: [Int: AlternativeValues] = [:]
    package var unknown: [Unknown] = []

    package static func empty(_ table: Table) -> RowBody {
        RowBody(values: Array(repeating: nil, count: table.columns.count))
    }

    /// Reads a complete body, which is an object.
    package static func read(_ bytes: [UInt8], for table: Table) throws -> RowBody {
        do {
            return try bytes.withUnsafeBufferPointer { buffer in
                var reader = JSONReader(buffer)
                var body = RowBody.empty(table)
                try body.readObject(&reader, table)
                try reader.end()
                return body
            }
        } catch let error as JSONError {
            throw ServerError.malformed(error)
        }
    }

    private mutating func readObject(_ reader: inout JSONReader, _ table: Table) throws {
        guard case .object = try reader.value() else {
            throw ServerError.badRequest("The body must be a JSON object.")
        }
        try reader.beginObject()
        let columns = table.columns
        var seen = MemberSet()
        var former: [Int: [SQLValue]] = [:]
        var formerNames: Set<String> = []
        var hint = 0
        while let name = try reader.nextMember() {
            guard let index = table.member(name, in: reader, hint: hint) else {
                try readUnknown(name, &reader)
                continue
            }
            if table.hasFormerNames, table.isFormer(reader.text(name)) {
                guard formerNames.insert(reader.text(name).lowercased()).inserted else {
                    throw ServerError.badRequest(
                        "A former name of member '\(columns[index].name)' occurs twice.",
                        position: name.range.lowerBound
                    )
                }
                former[index, default: []].append(try table.read(index, &reader))
                continue
            }
            guard seen.insert(index) else {
                throw ServerError.badRequest(
                    "Member '\(String(decoding: table.memberNames[index], as: UTF8.self))' "
                        + "occurs twice.",
                    position: name.range.lowerBound
                )
            }
            hint = index + 1
            if index < columns.count {
                values[index] = try table.read(index, &reader)
            } else {
                try readSystem(SystemColumn.definitions[index - columns.count].name, &reader)
            }
        }
        for (place, values) in former { take(values, of: columns[place], at: place) }
    }

    /// Takes the values of a column under its former names, next to the one under its name.
    private mutating func take(_ former: [SQLValue], of column: ColumnDefinition, at place: Int) {
        let current = values[place]
        var other: [SQLValue] = []
        for value in former
        where !(other + [current].compactMap(\.self))
            .contains(where: { column.type.isSame($0, value) })
        {
            other.append(value)
        }
        values[place] = current ?? other.first
        if other.count + (current == nil ? 0 : 1) > 1 {
            alternatives[place] = AlternativeValues(former: other, current: current)
        }
    }

    mutating func readSystem(_ name: String, _ reader: inout JSONReader) throws {
        let token = try reader.value()
        if case .null = token {
            let isKey = name == SystemColumn.id || name == SystemColumn.version
            if !isKey { reserved.append(name) }
            if isKey || name == SystemColumn.updatedAt { hasNullClaim = true }
            return
        }
        switch (name, token) {
        case (SystemColumn.id, .string(let span)):
            id = reader.text(span)
        case (SystemColumn.version, .string(let span)):
            version = reader.text(span)
        case (SystemColumn.deleted, .bool(let value)):
            reserved.append(name)
            deleted = value
        case (SystemColumn.updatedAt, .string(let span)):
            reserved.append(name)
            updatedAt = reader.text(span)
        case (SystemColumn.createdAt, .string):
            reserved.append(name)
        case (SystemColumn.deleted, _):
            throw Self.wrongSystem(name, "true or false")
        default:
            throw Self.wrongSystem(name, "a string")
        }
    }

    private static func wrongSystem(_ name: String, _ expected: String) -> ServerError {
        .badRequest("Member '\(name)': \(expected) is expected.")
    }

    private mutating func readUnknown(_ name: JSONReader.Span, _ reader: inout JSONReader) throws {
        let text = reader.text(name)
        guard !unknown.contains(where: { $0.name.lowercased() == text.lowercased() }) else {
            throw ServerError.badRequest(
                "An unknown member occurs twice.",
                position: name.range.lowerBound
            )
        }
        guard unknown.count < Self.unknownMax else {
            throw ServerError.badRequest(
                "The body has more than \(Self.unknownMax) unknown members."
            )
        }
        let token = try reader.value()
        switch token {
        case .null: unknown.append(Unknown(name: text, type: nil))
        case .bool: unknown.append(Unknown(name: text, type: .boolean))
        case .number(let range):
            unknown.append(Unknown(name: text, type: Self.type(of: range, in: reader)))
        case .string: unknown.append(Unknown(name: text, type: .string))
        case .object, .array:
            try reader.skip(token)
            unknown.append(Unknown(name: text, type: .json))
        }
    }

    /// Returns the type of a number: a double, unless only an integer represents it exactly.
    private static func type(of range: Range<Int>, in reader: JSONReader) -> ColumnType {
        let isKept = Double(reader.text(range)).map { reader.isKept(range, by: $0) } ?? true
        return isKept || reader.integer(range) == nil ? .number : .integer
    }

    private static let unknownMax = 200
}

/// The JSON members seen so far.
private struct MemberSet {
    private var low: UInt64 = 0
    private var high: Set<Int> = []

    /// Inserts an index; returns whether it was new.
    mutating func insert(_ index: Int) -> Bool {
        guard index < 64 else { return high.insert(index).inserted }
        let bit: UInt64 = 1 << UInt64(index)
        defer { low |= bit }
        return low & bit == 0
    }
}

// JSONPatch: patches of rows.
//
// Parsing needs only the table. Applying is pure and needs the stored row, so a backend does it inside its transaction.
// A path names a JSON member, in any letter case, and cannot go deeper, even in a column of type json.

package import TidelineCore

/// A JSON Patch (RFC 6902) of one flat row.
package struct JSONPatch: Sendable {
    private enum Step: Sendable {
        case set(Int, Setting)
        case reset(Int)
        case copy(from: Int, to: Int)
        /// Tests a column; the value is nil if the column can never contain it.
        case test(Int, SQLValue?)
    }

    /// The new content of a JSON member.
    private enum Setting: Sendable {
        case value(SQLValue)
        /// A value that the column cannot contain; the patch is rejected if no later step replaces it.
        case rejected(ServerError)
    }

    /// The system members in the patch, by name.
    ///
    /// They are checked like the members of a merge.
    private(set) var claims = RowBody(values: [])
    private var steps: [Step] = []
    private let table: Table

    /// Whether the result depends on values of the row.
    ///
    /// The patch compares them, or copies them to columns that may have other rules.
    var readsValues: Bool {
        steps.contains { step in
            switch step {
            case .test, .copy: true
            case .set, .reset: false
            }
        }
    }

    /// The columns that a step resets to their defaults.
    package var resets: Set<Int> {
        Set(
            steps.compactMap { step in
                switch step {
                case .reset(let place): place
                case .set, .copy, .test: nil
                }
            }
        )
    }

    /// Reads a body, an array of operations.
    package init(_ bytes: [UInt8], for table: Table, stepsMax: Int) throws {
        self.table = table
        do {
            try bytes.withUnsafeBufferPointer { buffer in
                // Values may be as deep as in a row, which is one object around them.
                var reader = JSONReader(buffer, outside: 1)
                guard case .array = try reader.value() else {
                    throw ServerError.badRequest("A JSON Patch must be an array of operations.")
                }
                try reader.beginArray()
                var count = 0
                while try reader.nextElement() {
                    count += 1
                    guard count <= stepsMax else { throw ServerError.tooManyPatchSteps(stepsMax) }
                    try read(try Operation(&reader), buffer)
                }
                try reader.end()
            }
        } catch let error as JSONError {
            throw ServerError.malformed(error)
        }
    }

    private mutating func read(_ operation: Operation, _ bytes: UnsafeBufferPointer<UInt8>) throws {
        let place = try self.place(operation.path, operation)
        switch operation.name {
        case "add", "replace":
            try set(place, try operation.value(bytes), operation)
        case "test":
            let value = try operation.value(bytes)
            steps.append(.test(place, Self.tested(table.member(place), value)))
        case "remove":
            try onlyColumn(place, operation)
            steps.append(.reset(place))
        case "copy", "move":
            let source = try self.place(operation.from, operation)
            try onlyColumn(place, operation)
            try onlyColumn(source, operation)
            guard table.columns[source].type == table.columns[place].type else {
                throw operation.fault("both members must have the same type")
            }
            steps.append(.copy(from: source, to: place))
            if operation.name == "move", source != place { steps.append(.reset(source)) }
        default:
            throw operation.fault("'op' must be add, remove, replace, move, copy or test")
        }
    }

    private mutating func set(
        _ place: Int,
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ operation: Operation
    ) throws {
        var reader = JSONReader(bytes)
        if place < table.columns.count {
            steps.append(.set(place, try setting(table.columns[place], &reader)))
        } else {
            guard !bytes.elementsEqual("null".utf8) else {
                throw operation.fault("'\(table.member(place).name)' is set by the server")
            }
            try claims.readSystem(table.member(place).name, &reader)
        }
    }

    /// Converts a value, or returns `.rejected` because a later step may replace the value.
    private func setting(
        _ column: ColumnDefinition,
        _ reader: inout JSONReader
    ) throws -> Setting {
        do {
            return .value(try column.read(&reader, acceptsZero: !column.isNullable))
        } catch let rejection as ServerError {
            return .rejected(rejection)
        }
    }

    private func onlyColumn(_ place: Int, _ operation: Operation) throws {
        guard place < table.columns.count else {
            throw operation.fault("'\(table.member(place).name)' is set by the server")
        }
    }

    /// Returns the index of the member that a JSON Pointer refers to.
    private func place(_ pointer: String?, _ operation: Operation) throws -> Int {
        guard let pointer else { throw operation.fault("'path' or 'from' is missing") }
        // Compares bytes, because '/' followed by a combining character is another Character.
        let slash = UInt8(ascii: "/")
        let name = pointer.utf8.dropFirst()
        guard pointer.utf8.first == slash, !name.contains(slash) else {
            throw operation.fault("a path must be '/' and the name of a member of the row")
        }
        // No column has '~' or '/' in its name, so an escaped pointer names none.
        guard let place = table.member(named: String(decoding: name, as: UTF8.self)) else {
            throw operation.fault("a path names a member for which the table has no column")
        }
        return place
    }

    private static func tested(
        _ column: ColumnDefinition,
        _ bytes: UnsafeBufferPointer<UInt8>
    ) -> SQLValue? {
        // In a column of documents that is not nullable, null is stored as a document.
        let isDocument = column.type == .json && !column.isNullable
        if bytes.elementsEqual("null".utf8), !isDocument { return .null }
        var reader = JSONReader(bytes)
        guard column.name == SystemColumn.version else {
            return try? column.read(&reader, acceptsZero: !column.isNullable)
        }
        guard case .string(let span) = try? reader.value() else { return nil }
        return RowVersion.timestamp(reader.text(span)).map { .integer($0) }
    }
}

// MARK: - Applying

extension JSONPatch {
    /// Returns the new values of the changed columns, nil for the others; nil if a test fails.
    ///
    /// `stored` has the columns in their order, then the system columns. Each column is checked once, at the
    /// end.
    package func apply(
        to stored: [SQLValue],
        defaults: [Int: SQLValue] = [:]
    ) throws(ServerError) -> [SQLValue?]? {
        var row = stored
        var changed = [Bool](repeating: false, count: table.columns.count)
        var rejections: [Int: ServerError] = [:]
        var bytesToTest = Self.testedBytesMax
        for step in steps {
            switch step {
            case .set(let place, .value(let value)):
                row[place] = value
                changed[place] = true
                rejections[place] = nil
            case .set(let place, .rejected(let rejection)):
                changed[place] = true
                rejections[place] = rejection
            case .reset(let place):
                row[place] = defaults[place] ?? table.columns[place].storedDefault
                changed[place] = true
                rejections[place] = nil
            case .copy(let source, let place):
                row[place] = row[source]
                changed[place] = true
                rejections[place] = rejections[source]
            case .test(let place, let value):
                // The row cannot contain the value that this test compares the member with.
                if let rejection = rejections[place] { throw rejection }
                guard let value else { return nil }
                try Self.spend(&bytesToTest, on: row[place], value)
                guard table.member(place).type.isSame(row[place], value) else { return nil }
            }
        }
        for place in table.columns.indices where changed[place] {
            if let rejection = rejections[place] { throw rejection }
            guard row[place] != .null || table.columns[place].isNullable else {
                throw ServerError.badRequest(
                    "Member '\(table.columns[place].name)': null is not allowed."
                )
            }
            try table.check(place, row[place])
        }
        return table.columns.indices.map { changed[$0] ? row[$0] : nil }
    }

    /// The maximum number of bytes that the tests of a patch may compare, because a comparison parses
    /// documents.
    private static let testedBytesMax = 16 << 20

    private static func spend(
        _ bytes: inout Int,
        on stored: SQLValue,
        _ value: SQLValue
    ) throws(ServerError) {
        guard case .text(let one) = stored, case .text(let two) = value else { return }
        bytes -= one.utf8.count + two.utf8.count
        guard bytes >= 0 else {
            throw ServerError.badRequest(
                "JSON Patch: its tests compare more than \(testedBytesMax) bytes."
            )
        }
    }
}

/// A parsed operation of the body.
private struct Operation {
    var name = ""
    var path: String?
    var from: String?
    private var span: Range<Int>?
    private let position: Int

    /// Reads the next element; unknown members are ignored, as the standard requires.
    init(_ reader: inout JSONReader) throws {
        guard case .object = try reader.value() else {
            throw ServerError.badRequest("An operation of a JSON Patch must be an object.")
        }
        position = reader.position
        try reader.beginObject()
        var names = MemberNames()
        while let member = try reader.nextMember() {
            try names.insert(member, reader)
            let isText: Bool
            switch reader.text(member) {
            case "op": isText = try Self.text(&reader) { name = $0 }
            case "path": isText = try Self.text(&reader) { path = $0 }
            case "from": isText = try Self.text(&reader) { from = $0 }
            case "value":
                span = try reader.rawValue()
                isText = true
            default:
                _ = try reader.rawValue()
                isText = true
            }
            guard isText else { throw fault("'op', 'path' and 'from' must be strings") }
        }
    }

    private static func text(_ reader: inout JSONReader, _ take: (String) -> Void) throws -> Bool {
        let token = try reader.value()
        guard case .string(let span) = token else {
            try reader.skip(token)
            return false
        }
        take(reader.text(span))
        return true
    }

    func value(_ bytes: UnsafeBufferPointer<UInt8>) throws -> UnsafeBufferPointer<UInt8> {
        guard let span else { throw fault("'value' is missing") }
        return UnsafeBufferPointer(rebasing: bytes[span])
    }

    func fault(_ message: String) -> ServerError {
        .badRequest("JSON Patch: \(message).", position: position)
    }
}

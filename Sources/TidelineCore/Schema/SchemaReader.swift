// SchemaReader: reads a SchemaDocument from JSON. It ignores unknown members, because a newer
// version may write more.

import Foundation

extension SchemaDocument {
    /// Reads a document.
    ///
    /// - Throws: ``JSONError`` if the bytes are not a document of a known format.
    package init(_ bytes: [UInt8]) throws {
        self = try bytes.withUnsafeBufferPointer { buffer in
            var reader = SchemaReader(JSONReader(buffer))
            return try reader.document()
        }
    }
}

/// A reader of one document.
private struct SchemaReader {
    private var reader: JSONReader
    /// The maximum number of tables in a document, and of columns and of rules in a table.
    private static let countMax = 10_000

    init(_ reader: JSONReader) { self.reader = reader }

    mutating func document() throws -> SchemaDocument {
        var tables: [SchemaDocument.Table] = []
        var parts: Set<SchemaDocument.Part> = []
        var format: Int64?
        try members { reader, name in
            switch name {
            case "format": format = try reader.integer()
            case "parts":
                parts = Set(try reader.texts().compactMap { SchemaDocument.Part(rawValue: $0) })
            case "tables":
                try reader.members { reader, name in tables.append(try reader.table(name)) }
            default: try reader.skip()
            }
        }
        try reader.end()
        guard let format, format == SchemaDocument.format else {
            throw reader.failure(
                format == nil
                    ? "a schema document with 'format' is expected"
                    : "the document has another format than \(SchemaDocument.format)"
            )
        }
        return SchemaDocument(tables, parts: parts)
    }

    private mutating func table(_ name: String) throws -> SchemaDocument.Table {
        var schema = TableSchema(name: name, columns: [])
        var result = SchemaDocument.Table(schema)
        try members { reader, name in
            switch name {
            case "columns":
                try reader.members { reader, name in
                    schema.columns.append(try reader.column(name))
                }
            case "unique": schema.rules.unique = try reader.lists()
            case "compare":
                schema.rules.comparisons = try reader.lists().compactMap { texts in
                    guard texts.count == 3,
                        let comparison = ColumnComparison.Operator(rawValue: texts[1])
                    else { return nil }
                    return ColumnComparison(texts[0], comparison, texts[2])
                }
            case "references":
                try reader.members { reader, column in
                    result.references[column] = try reader.reference()
                }
            case "aliases":
                try reader.members { reader, old in schema.aliases[old] = try reader.text() }
            case "owner": result.owner = try reader.text()
            default: try reader.skip()
            }
        }
        result.schema = schema
        return result
    }

    private mutating func reference() throws -> SchemaDocument.Reference {
        var reference = SchemaDocument.Reference(table: "", onDelete: "")
        try members { reader, name in
            switch name {
            case "table": reference.table = try reader.text()
            case "onDelete": reference.onDelete = try reader.text()
            default: try reader.skip()
            }
        }
        return reference
    }

    private mutating func column(_ name: String) throws -> ColumnDefinition {
        var type: ColumnType?
        var isNullable = true
        var rules = ColumnRules()
        var values: [String: [UInt8]] = [:]
        try members { reader, name in
            switch name {
            case "type":
                let text = try reader.text()
                type = ColumnType.simple.first { $0.name == text }
            case "enum": type = .enumeration(try reader.texts())
            case "nullable": isNullable = try reader.bool()
            case "required": rules.isRequired = try reader.bool()
            case "maxLength": rules.maxLength = Int(exactly: try reader.integer())
            case "pattern": rules.pattern = try reader.text()
            case "default", "min", "max": values[name] = try reader.raw()
            default: try reader.skip()
            }
        }
        guard let type else { throw reader.failure("column '\(name)' has no known type") }
        func value(_ name: String) throws -> Value? {
            try values[name].map { bytes in
                guard let value = Value(json: bytes, of: type) else {
                    throw reader.failure("column '\(name)' has a wrong value")
                }
                return value
            }
        }
        rules.min = try value("min")
        rules.max = try value("max")
        return ColumnDefinition(
            name,
            type,
            nullable: isNullable,
            default: try value("default"),
            rules: rules
        )
    }

    // MARK: - JSON

    private mutating func members(
        _ read: (inout SchemaReader, String) throws -> Void
    ) throws {
        guard case .object = try reader.value() else {
            throw reader.failure("an object is expected")
        }
        try reader.beginObject()
        var count = 0
        while let name = try reader.nextMember() {
            count += 1
            guard count <= Self.countMax else { throw reader.failure("too many members") }
            try read(&self, reader.text(name))
        }
    }

    private mutating func texts() throws -> [String] {
        guard case .array = try reader.value() else { throw reader.failure("an array is expected") }
        try reader.beginArray()
        var texts: [String] = []
        while try reader.nextElement() { texts.append(try text()) }
        return texts
    }

    private mutating func lists() throws -> [[String]] {
        guard case .array = try reader.value() else { throw reader.failure("an array is expected") }
        try reader.beginArray()
        var lists: [[String]] = []
        while try reader.nextElement() { lists.append(try texts()) }
        return lists
    }

    private mutating func text() throws -> String {
        guard case .string(let span) = try reader.value() else {
            throw reader.failure("a string is expected")
        }
        return reader.text(span)
    }

    private mutating func bool() throws -> Bool {
        guard case .bool(let value) = try reader.value() else {
            throw reader.failure("true or false is expected")
        }
        return value
    }

    private mutating func integer() throws -> Int64 {
        guard case .number(let range) = try reader.value(), let value = reader.integer(range) else {
            throw reader.failure("a whole number is expected")
        }
        return value
    }

    private mutating func raw() throws -> [UInt8] { Array(reader.bytes[try reader.rawValue()]) }

    private mutating func skip() throws { _ = try reader.rawValue() }
}

extension Value {
    /// Reads a JSON value as a value of a column type; nil if the type does not include the value.
    fileprivate init?(json bytes: [UInt8], of type: ColumnType) {
        let read: Value? = bytes.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            switch (try? reader.value(), type) {
            case (.null, _): return .null
            case (_, .json): return .json(JSON(checked: String(decoding: buffer, as: UTF8.self)))
            case (.bool(let value), .boolean): return .bool(value)
            case (.number(let range), .integer): return reader.integer(range).map { .integer($0) }
            case (.number(let range), .number):
                return Double(reader.text(range)).map { .number($0) }
            case (.number(let range), .decimal):
                return DecimalText.parse(reader.text(range)).map { .decimal($0) }
            case (.string(let span), .dateTime):
                return Timestamp(reader.text(span)).map { .date($0.date) }
            case (.string(let span), .binary):
                return Data(base64Encoded: reader.text(span)).map { .data($0) }
            case (.string(let span), .string), (.string(let span), .date),
                (.string(let span), .time), (.string(let span), .guid),
                (.string(let span), .enumeration):
                return .string(reader.text(span))
            case (_, .string), (_, .integer), (_, .number), (_, .decimal), (_, .boolean),
                (_, .dateTime), (_, .date), (_, .time), (_, .guid), (_, .binary), (_, .enumeration):
                return nil
            }
        }
        guard let read else { return nil }
        self = read
    }
}

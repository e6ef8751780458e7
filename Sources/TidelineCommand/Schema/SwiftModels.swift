// SwiftModels: Swift models of the tables of a schema document, the same bytes for the same document.

import Foundation
import TidelineCore

/// The Swift source of the models of a document.
struct SwiftModels {
    private let document: SchemaDocument
    /// The type of each table.
    private let types: [String: String]

    init(_ document: SchemaDocument) {
        let document = SchemaDocument(
            document.tables.map(Self.declarable),
            parts: document.parts
        )
        self.document = document
        var names = SwiftNames(taken: SwiftNames.usedTypes)
        types = Dictionary(
            document.tables.map {
                ($0.name.lowercased(), names.type($0.name, otherwise: "Record"))
            },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// Returns a table without the rules that name a column that it does not have.
    private static func declarable(_ table: SchemaDocument.Table) -> SchemaDocument.Table {
        var table = table
        let names = Set(table.schema.columns.map(\.name))
        table.schema.rules.unique.removeAll { $0.isEmpty || !names.isSuperset(of: $0) }
        table.schema.rules.comparisons.removeAll { rule in
            !names.contains(rule.left) || !names.contains(rule.right)
        }
        return table
    }

    var text: String {
        var lines = [
            "// Models of the tables of a Tideline server, written by 'tideline models --swift'.",
            "// Change the server's configuration and write them again instead of editing this file.",
            "//",
            "// Schema \(fingerprint)",
            "",
            "import Foundation",
            "import Tideline",
        ]
        for table in document.tables {
            lines.append("")
            lines += model(table)
        }
        let hasDocuments = document.tables.contains { table in
            table.schema.columns.contains { $0.type == .json }
        }
        if hasDocuments { lines += ["", Self.documentType] }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The fingerprint of what the models state, so that the document of the printed models has the same one.
    ///
    /// Models state no owners and no former names, and a property that is not optional always has a default.
    private var fingerprint: String {
        let stated = document.tables.map { table in
            var schema = table.schema
            schema.aliases = [:]
            for place in schema.columns.indices
            where !schema.columns[place].isNullable && schema.columns[place].defaultValue == nil {
                schema.columns[place].defaultValue = schema.columns[place].type.zeroOfProperty
            }
            return SchemaDocument.Table(schema, references: references(table).mapValues(\.stated))
        }
        return SchemaDocument(stated).fingerprint
    }

    // MARK: - Models

    private func type(of table: String) -> String {
        types[table.lowercased()] ?? SwiftNames.upperCamel(table)
    }

    private func model(_ table: SchemaDocument.Table) -> [String] {
        let type = type(of: table.name)
        let properties = self.properties(of: table)
        // A line break in the name would end the comment.
        let name = SwiftNames.literal(table.name).dropFirst().dropLast()
        var lines = ["/// A row of the table '\(name)'.", "struct \(type): SyncRecord {"]
        for property in properties {
            if let enumeration = property.enumeration { lines += enumeration.lines + [""] }
        }
        lines.append("    var id = UUID().uuidString.lowercased()")
        lines += properties.map { "    var \($0.name): \($0.type)\($0.defaultText)" }
        lines += ["    var createdAt: Date?", "    var updatedAt: Date?"]
        if type != table.name {
            lines += ["", "    static let tableName = \(SwiftNames.literal(table.name))"]
        }
        lines += declaredColumns(type, properties)
        lines += references(table, properties)
        lines += rules(table, type, properties)
        if properties.contains(where: { $0.name != $0.column.name }) {
            lines += ["", "    enum CodingKeys: String, CodingKey {", "        case id"]
            lines += properties.map { property in
                property.name == property.column.name
                    ? "        case \(property.name)"
                    : "        case \(property.name) = \(SwiftNames.literal(property.column.name))"
            }
            lines += ["        case createdAt, updatedAt", "    }"]
        }
        return lines + ["}"]
    }

    /// A property of a model.
    private struct Property {
        var column: ColumnDefinition
        var name: String
        var type: String
        /// ` = …`, or empty for an optional property.
        var defaultText: String
        var enumeration: Enumeration?
    }

    /// The nested type of a column with members.
    private struct Enumeration {
        var type: String
        var cases: [(name: String, member: String)]

        var lines: [String] {
            ["    enum \(type): String, Codable, Sendable, CaseIterable {"]
                + cases.map { "        case \($0.name) = \(SwiftNames.literal($0.member))" }
                + ["    }"]
        }

        init(_ column: ColumnDefinition, _ members: [String], _ names: inout SwiftNames) {
            type = names.type(column.name, otherwise: "Value")
            var own = SwiftNames(taken: [])
            cases = members.map { (own.property($0), $0) }
        }
    }

    private func properties(of table: SchemaDocument.Table) -> [Property] {
        var names = SwiftNames(taken: ["id", "createdAt", "updatedAt"])
        let columns = table.schema.columns.map { ($0, names.property($0.name)) }
        // A nested type must not have the name of a property, of a model or of another type in the file.
        var nested = SwiftNames(
            taken: SwiftNames.usedTypes.union(columns.map(\.1)).union(types.values)
        )
        return columns.map { column, name in
            var enumeration: Enumeration?
            if case .enumeration(let members) = column.type {
                enumeration = Enumeration(column, members, &nested)
            }
            let type = enumeration?.type ?? Self.swiftType(column.type)
            return Property(
                column: column,
                name: name,
                type: column.isNullable ? type + "?" : type,
                defaultText: Self.defaultText(column, enumeration),
                enumeration: enumeration
            )
        }
    }

    private static func swiftType(_ type: ColumnType) -> String {
        switch type {
        case .string, .enumeration: "String"
        case .integer: "Int"
        case .number: "Double"
        case .decimal: "Decimal"
        case .boolean: "Bool"
        case .dateTime: "Date"
        case .date: "LocalDate"
        case .time: "LocalTime"
        case .guid: "UUID"
        case .binary: "Data"
        case .json: "JSONValue"
        }
    }

    /// The type of columns that hold any JSON, which the SDK does not have.
    private static let documentType = """
        /// Any JSON value.
        ///
        /// Replace it if you know what a column holds.
        indirect enum JSONValue: Codable, Hashable, Sendable {
            case null
            case bool(Bool)
            case integer(Int64)
            case number(Double)
            case string(String)
            case array([JSONValue])
            case object([String: JSONValue])

            /// Reads a JSON text; null if it is none.
            static func parsed(_ text: String) -> JSONValue {
                (try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))) ?? .null
            }

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if container.decodeNil() {
                    self = .null
                } else if let value = try? container.decode(Bool.self) {
                    self = .bool(value)
                } else if let value = try? container.decode(Int64.self) {
                    self = .integer(value)
                } else if let value = try? container.decode(Double.self) {
                    self = .number(value)
                } else if let value = try? container.decode(String.self) {
                    self = .string(value)
                } else if let value = try? container.decode([JSONValue].self) {
                    self = .array(value)
                } else {
                    self = .object(try container.decode([String: JSONValue].self))
                }
            }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                switch self {
                case .null: try container.encodeNil()
                case .bool(let value): try container.encode(value)
                case .integer(let value): try container.encode(value)
                case .number(let value): try container.encode(value)
                case .string(let value): try container.encode(value)
                case .array(let value): try container.encode(value)
                case .object(let value): try container.encode(value)
                }
            }
        }
        """

    /// Returns the value of a new record, ` = nil` only if the column has a default other than nil.
    private static func defaultText(
        _ column: ColumnDefinition,
        _ enumeration: Enumeration?
    ) -> String {
        if column.isNullable, column.defaultValue == nil { return "" }
        let value = column.defaultValue ?? column.type.zeroOfProperty
        return " = " + literal(value, column.type, enumeration)
    }

    private static func literal(
        _ value: Value,
        _ type: ColumnType,
        _ enumeration: Enumeration? = nil
    ) -> String {
        switch (value, type) {
        case (.null, _): return "nil"
        case (.bool(let value), _): return "\(value)"
        case (.integer(let value), _): return "\(value)"
        case (.number(let value), _): return "\(value)"
        case (.decimal(let value), _):
            let text = DecimalText.canonical(value)
            if text.utf8.count < 16, Int(text) != nil { return text }
            return "Decimal(string: \(SwiftNames.literal(text))) ?? 0"
        case (.date(let value), _):
            return "Date(timeIntervalSince1970: \(value.timeIntervalSince1970))"
        case (.data(let value), _):
            let text = SwiftNames.literal(value.base64EncodedString())
            return value.isEmpty ? "Data()" : "Data(base64Encoded: \(text)) ?? Data()"
        case (.json(let value), _):
            let text = SwiftNames.literal(value.text)
            return value.text == "null" ? "JSONValue.null" : "JSONValue.parsed(\(text))"
        case (.string(let text), .date):
            let day = Timestamp(text + "T00:00:00Z")?.date ?? Date(timeIntervalSince1970: 0)
            return "LocalDate(\(literal(.date(day), .dateTime)), in: .gmt)"
        case (.string(let text), .time):
            return "LocalTime(\(SwiftNames.literal(text))) ?? .midnight"
        case (.string(let text), .guid):
            return "UUID(uuidString: \(SwiftNames.literal(text))) ?? UUID()"
        case (.string(let text), .enumeration):
            let found = enumeration?.cases.first { $0.member == text } ?? enumeration?.cases.first
            return found.map { "\(enumeration?.type ?? "").\($0.name)" } ?? "nil"
        case (.string(let text), _): return SwiftNames.literal(text)
        }
    }

    /// Returns the declarations of columns whose type does not follow from their property.
    private func declaredColumns(_ type: String, _ properties: [Property]) -> [String] {
        let lines = properties.filter { $0.column.type == .json }.map { property in
            "            RecordColumn(\\.\(property.name), \(SwiftNames.literal(property.column.name)), "
                + ".json, nullable: \(property.column.isNullable)),"
        }
        return lines.isEmpty
            ? []
            : ["", "    static var columns: [RecordColumn<\(type)>] {", "        ["]
                + lines + ["        ]", "    }"]
    }

    // MARK: - References and rules

    /// A reference that can be declared: its table has a model, and its rule is known.
    private struct DeclarableReference {
        var parent: String
        var rule: DeleteRule

        var stated: SchemaDocument.Reference {
            SchemaDocument.Reference(table: parent, onDelete: rule.rawValue)
        }
    }

    /// Returns the references of a table that the models can declare, by column.
    ///
    /// A table that the caller may not read has no model to refer to.
    private func references(
        _ table: SchemaDocument.Table
    ) -> [String: DeclarableReference] {
        table.references.compactMapValues { reference in
            guard let parent = document.table(matching: reference.table)?.name,
                let rule = DeleteRule(rawValue: reference.onDelete)
            else { return nil }
            return DeclarableReference(parent: parent, rule: rule)
        }
    }

    private func references(_ table: SchemaDocument.Table, _ properties: [Property]) -> [String] {
        let (type, references) = (type(of: table.name), references(table))
        let lines = properties.compactMap { property -> String? in
            guard let reference = references[property.column.name] else { return nil }
            return
                "        Reference(\\\(type).\(property.name), to: \(self.type(of: reference.parent)).self, "
                + "onDelete: .\(reference.rule)),"
        }
        return lines.isEmpty ? [] : ["", "    static let references = ["] + lines + ["    ]"]
    }

    private func rules(
        _ table: SchemaDocument.Table,
        _ type: String,
        _ properties: [Property]
    ) -> [String] {
        let paths = Dictionary(
            properties.map { ($0.column.name, "\\." + $0.name) },
            uniquingKeysWith: { first, _ in first }
        )
        var rules: [String] = []
        for property in properties {
            let (column, path) = (property.column, "\\." + property.name)
            if column.rules.isRequired { rules.append(".required(\(path))") }
            if let length = column.rules.maxLength {
                rules.append(".maxLength(\(path), \(length))")
            }
            if let min = column.rules.min {
                rules.append(".min(\(path), \(Self.literal(min, column.type)))")
            }
            if let max = column.rules.max {
                rules.append(".max(\(path), \(Self.literal(max, column.type)))")
            }
            if let pattern = column.rules.pattern {
                rules.append(".pattern(\(path), \(SwiftNames.literal(pattern)))")
            }
        }
        for columns in table.schema.rules.unique {
            rules.append(".unique(\(columns.compactMap { paths[$0] }.joined(separator: ", ")))")
        }
        for rule in table.schema.rules.comparisons {
            guard let left = paths[rule.left], let right = paths[rule.right] else { continue }
            rules.append(".compare(\(left), .\(rule.operator), \(right))")
        }
        return rules.isEmpty
            ? []
            : ["", "    static let rules: [Rule<\(type)>] = ["]
                + rules.map { "        \($0)," } + ["    ]"]
    }
}

extension ColumnType {
    /// The value of a property that is not optional, whose column has no default.
    fileprivate var zeroOfProperty: Value {
        switch self {
        case .date: .string("1970-01-01")
        case .time: .string("00:00:00.000")
        case .guid: .string("00000000-0000-0000-0000-000000000000")
        case .string, .integer, .number, .decimal, .boolean, .dateTime, .binary, .json,
            .enumeration:
            zero
        }
    }
}

// SchemaWriter: writes a SchemaDocument as JSON, without white space for the wire and with line
// breaks for files.

/// A writer of JSON objects with optional line breaks.
struct SchemaWriter {
    private var writer = JSONWriter()
    private let isPretty: Bool
    private var depth = 0
    /// Whether the next member or element is the first one.
    private var isFirst = true

    init(isPretty: Bool) { self.isPretty = isPretty }

    var bytes: [UInt8] { writer.bytes }

    // MARK: - Documents

    mutating func document(_ document: SchemaDocument) {
        object { writer in
            writer.member("format") { $0.writer.integer(SchemaDocument.format) }
            writer.member("parts") { writer in
                let parts = SchemaDocument.Part.allCases.filter(document.parts.contains)
                writer.texts(parts.map(\.rawValue))
            }
            writer.member("fingerprint") { $0.writer.string(document.fingerprint) }
            writer.tables(document.tables, hasFingerprints: true)
        }
    }

    mutating func tables(_ tables: [SchemaDocument.Table], hasFingerprints: Bool) {
        member("tables") { writer in
            writer.object { writer in
                for table in tables {
                    writer.member(table.name) {
                        $0.table(table, fingerprint: hasFingerprints ? table.fingerprint : nil)
                    }
                }
            }
        }
    }

    mutating func table(_ table: SchemaDocument.Table, fingerprint: String?) {
        object { writer in
            if let fingerprint {
                writer.member("fingerprint") { $0.writer.string(fingerprint) }
            }
            writer.member("columns") { writer in
                writer.object { writer in
                    for column in table.schema.columns {
                        writer.member(column.name) { $0.column(column) }
                    }
                }
            }
            if let owner = table.owner { writer.member("owner") { $0.writer.string(owner) } }
            writer.rules(table.schema.rules)
            writer.references(table.references)
            guard !table.schema.aliases.isEmpty else { return }
            writer.member("aliases") { writer in
                writer.inline { writer in
                    for (old, new) in Self.sorted(table.schema.aliases) {
                        writer.member(old) { $0.writer.string(new) }
                    }
                }
            }
        }
    }

    private mutating func rules(_ rules: TableRules) {
        if !rules.unique.isEmpty {
            member("unique") { writer in
                writer.array(rules.unique) { writer, columns in writer.texts(columns) }
            }
        }
        if !rules.comparisons.isEmpty {
            member("compare") { writer in
                writer.array(rules.comparisons) { writer, rule in
                    writer.texts([rule.left, rule.operator.rawValue, rule.right])
                }
            }
        }
    }

    private mutating func references(_ references: [String: SchemaDocument.Reference]) {
        guard !references.isEmpty else { return }
        member("references") { writer in
            writer.object { writer in
                for (column, reference) in Self.sorted(references) {
                    writer.member(column) { writer in
                        writer.inline { writer in
                            writer.member("table") { $0.writer.string(reference.table) }
                            writer.member("onDelete") { $0.writer.string(reference.onDelete) }
                        }
                    }
                }
            }
        }
    }

    private mutating func column(_ column: ColumnDefinition) {
        inline { writer in
            if case .enumeration(let members) = column.type {
                writer.member("enum") { $0.texts(members) }
            } else {
                writer.member("type") { $0.writer.string(column.type.name) }
            }
            writer.member("nullable") { $0.writer.bool(column.isNullable) }
            if let value = column.defaultValue {
                writer.member("default") { $0.writer.value(value) }
            }
            let rules = column.rules
            if rules.isRequired { writer.member("required") { $0.writer.bool(true) } }
            if let length = rules.maxLength {
                writer.member("maxLength") { $0.writer.integer(Int64(length)) }
            }
            if let min = rules.min { writer.member("min") { $0.writer.value(min) } }
            if let max = rules.max { writer.member("max") { $0.writer.value(max) } }
            if let pattern = rules.pattern {
                writer.member("pattern") { $0.writer.string(pattern) }
            }
        }
    }

    private static func sorted<Element>(
        _ members: [String: Element]
    ) -> [(key: String, value: Element)] {
        members.sorted { SchemaDocument.precedes($0.key, $1.key) }
    }

    // MARK: - JSON

    /// Writes an object with one line per member.
    mutating func object(_ members: (inout SchemaWriter) -> Void) {
        braces(isPretty: isPretty, members)
    }

    /// Writes an object on one line.
    private mutating func inline(_ members: (inout SchemaWriter) -> Void) {
        var inner = SchemaWriter(isPretty: false)
        inner.braces(isPretty: false, members)
        writer.raw(inner.bytes)
    }

    private mutating func braces(isPretty: Bool, _ members: (inout SchemaWriter) -> Void) {
        writer.byte("{")
        depth += 1
        isFirst = true
        members(&self)
        depth -= 1
        if isPretty, !isFirst { line() }
        isFirst = false
        writer.byte("}")
    }

    mutating func member(_ name: String, _ value: (inout SchemaWriter) -> Void) {
        if !isFirst { writer.byte(",") }
        if isPretty { line() }
        writer.string(name)
        writer.byte(":")
        if isPretty { writer.byte(" ") }
        value(&self)
        isFirst = false
    }

    private mutating func line() {
        writer.byte("\n")
        for _ in 0..<depth { writer.raw("  ") }
    }

    private mutating func texts(_ texts: [String]) {
        array(texts) { writer, text in writer.writer.string(text) }
    }

    private mutating func array<Element>(
        _ elements: [Element],
        _ write: (inout SchemaWriter, Element) -> Void
    ) {
        writer.byte("[")
        for (place, element) in elements.enumerated() {
            if place > 0 { writer.byte(",") }
            if place > 0, isPretty { writer.byte(" ") }
            write(&self, element)
        }
        writer.byte("]")
    }
}

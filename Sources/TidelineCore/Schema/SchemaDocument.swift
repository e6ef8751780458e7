// SchemaDocument: the tables of an app or a server as a JSON document, so that the two sides can be
// compared.
//
// `tables` has the format of `tables` in a server's configuration, so that parts of a document can
// be pasted there. docs/table-rules.md, "Schema", has the specification.

/// The tables that an app or a server declares.
///
/// A server returns this document for `GET /$schema`. An app writes the document of its models for
/// `tideline schema`:
///
/// ```swift
/// try SchemaDocument(of: [Customer.self, Job.self]).json.write(toFile: "schema.json", …)
/// ```
///
/// The tables are not public. Use ``json``, or compare two documents with ``differences(from:)``.
public struct SchemaDocument: Hashable, Sendable {
    /// A kind of fact in a document; two documents are compared by the kinds that both contain.
    package enum Part: String, Hashable, Sendable, CaseIterable {
        /// The names, types, nullability, and defaults of the columns.
        case columns
        /// The rules of columns and tables.
        case rules
        /// The references between tables.
        case references
    }

    /// A reference from a column to the rows of a table.
    package struct Reference: Hashable, Sendable {
        /// The table whose ids the column contains.
        package var table: String
        /// The effect of deleting the referenced row, with the name from the configuration.
        package var onDelete: String

        package init(table: String, onDelete: String) {
            self.table = table
            self.onDelete = onDelete
        }
    }

    /// A table of a document.
    package struct Table: Hashable, Sendable {
        /// The name, the columns in declaration order, the rules, and the former names of columns.
        package var schema: TableSchema
        /// The references by column.
        package var references: [String: Reference]
        /// The column that contains the owner of a row, which the server sets.
        package var owner: String?

        package init(
            _ schema: TableSchema,
            references: [String: Reference] = [:],
            owner: String? = nil
        ) {
            self.schema = schema
            self.references = references
            self.owner = owner
        }

        package init(_ schema: TableSchema, references: [TableReference], owner: String? = nil) {
            var found: [String: Reference] = [:]
            for reference in references {
                found[reference.column] = Reference(
                    table: reference.table,
                    onDelete: reference.onDelete.rawValue
                )
            }
            self.init(schema, references: found, owner: owner)
        }

        package var name: String { schema.name }
    }

    /// The version of the format, which increases with each change that older readers would
    /// misunderstand.
    package static let format: Int64 = 1

    /// The tables, in the byte order of their names.
    package let tables: [Table]
    /// The kinds of facts that the document contains.
    package let parts: Set<Part>

    package init(_ tables: [Table], parts: Set<Part> = Set(Part.allCases)) {
        self.tables = tables.sorted { Self.precedes($0.name, $1.name) }
        self.parts = parts
    }

    /// Reads a document, for example one that `tideline schema` printed or that ``json`` returned.
    ///
    /// ```swift
    /// let server = try SchemaDocument(json: String(contentsOfFile: "server.json", encoding: .utf8))
    /// ```
    ///
    /// JSON members that this version does not know are ignored.
    ///
    /// - Throws: ``JSONError`` if the text is not a schema document or has a different format.
    public init(json: String) throws { try self.init(Array(json.utf8)) }

    /// Returns the table with this name, in any letter case.
    package func table(matching name: String) -> Table? {
        let lowered = name.lowercased()
        return tables.first { $0.name == name }
            ?? tables.first { $0.name.lowercased() == lowered }
    }

    /// Returns whether a name precedes another name in byte order.
    static func precedes(_ one: String, _ two: String) -> Bool {
        one.utf8.lexicographicallyPrecedes(two.utf8)
    }
}

// MARK: - JSON

extension SchemaDocument {
    /// The document as JSON, with one line per column; equal documents have equal text.
    public var json: String { String(decoding: bytes(isPretty: true), as: UTF8.self) + "\n" }

    /// Returns the document as JSON.
    package func bytes(isPretty: Bool = false) -> [UInt8] {
        var writer = SchemaWriter(isPretty: isPretty)
        writer.document(self)
        return writer.bytes
    }

    /// The tables as a server configuration file with `tables` as its only key.
    package var configuration: String {
        var writer = SchemaWriter(isPretty: true)
        writer.object { writer in
            writer.tables(tables, hasFingerprints: false)
        }
        return String(decoding: writer.bytes, as: UTF8.self) + "\n"
    }
}

// MARK: - Fingerprints

extension SchemaDocument {
    /// The SHA-256 of the names and fingerprints of all tables, in hexadecimal digits.
    ///
    /// The order of columns does not matter.
    public var fingerprint: String {
        var hash = SHA256()
        for table in tables {
            hash.update(table.name, endedBy: 0)
            hash.update(table.fingerprint, endedBy: UInt8(ascii: "\n"))
        }
        return Self.hexadecimal(hash.finish())
    }

    /// Returns the entity tag of a document, which is different for each body.
    package static func tag(of body: [UInt8]) -> String {
        String(hexadecimal(SHA256.hash(body)).prefix(32))
    }

    static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(
            decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] },
            as: UTF8.self
        )
    }
}

extension SchemaDocument.Table {
    /// The SHA-256 of the table as JSON with sorted members and no white space, in hexadecimal
    /// digits.
    package var fingerprint: String {
        var sorted = self
        sorted.schema.columns.sort { SchemaDocument.precedes($0.name, $1.name) }
        sorted.schema.rules.unique = schema.rules.unique
            .map { $0.sorted(by: SchemaDocument.precedes) }
            .sorted {
                SchemaDocument.precedes($0.joined(separator: ","), $1.joined(separator: ","))
            }
        sorted.schema.rules.comparisons.sort {
            SchemaDocument.precedes(
                "\($0.left) \($0.operator.rawValue) \($0.right)",
                "\($1.left) \($1.operator.rawValue) \($1.right)"
            )
        }
        var writer = SchemaWriter(isPretty: false)
        writer.table(sorted, fingerprint: nil)
        return SchemaDocument.hexadecimal(SHA256.hash(writer.bytes))
    }
}

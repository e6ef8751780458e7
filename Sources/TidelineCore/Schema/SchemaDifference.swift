// SchemaDifference: a mismatch between the tables of an app and of a server, described in words.

/// A difference between the tables of an app and those of a server.
public struct SchemaDifference: Hashable, Sendable, CustomStringConvertible {
    /// The table.
    public let table: String
    /// The column; nil if the difference concerns the whole table.
    public let column: String?
    /// A description of the difference, and how to fix it.
    public let reason: String

    /// Creates a difference, for use in an app's tests.
    public init(table: String, column: String? = nil, reason: String) {
        self.table = table
        self.column = column
        self.reason = reason
    }

    /// The table or column, followed by the reason.
    public var description: String {
        let name = column.map { "\(table).\($0)" } ?? table
        return "\(name): \(reason)"
    }
}

extension SchemaDocument {
    /// Returns the differences between an app's tables and a server's tables.
    ///
    /// `tideline schema --check` makes the same comparison. In an app's tests:
    ///
    /// ```swift
    /// let app = try SchemaDocument(of: [Customer.self, Job.self])
    /// let server = try SchemaDocument(json: String(contentsOfFile: "server.json", encoding: .utf8))
    /// #expect(app.differences(from: server).isEmpty)
    /// ```
    ///
    /// Tables, columns, types, rules, and references are compared if both documents state them. A
    /// server column that the app lacks is a difference only if the server requires a value,
    /// because an app keeps columns that it does not know. A reference to a table that the server's
    /// document lacks is not compared. Names are compared without regard to letter case; column
    /// names are also compared with their former names.
    ///
    /// - Parameter server: The document of the server.
    /// - Returns: The differences, in the order of the app's tables and columns; empty if the
    ///   documents match.
    public func differences(from server: SchemaDocument) -> [SchemaDifference] {
        let parts = parts.intersection(server.parts)
        return tables.flatMap { table -> [SchemaDifference] in
            guard let other = server.table(matching: table.name) else {
                let reason = "the server has no such table, or the caller may not read it"
                return [SchemaDifference(table: table.name, column: nil, reason: reason)]
            }
            return SchemaComparison(app: table, server: other, of: server).differences(in: parts)
        }
    }
}

/// The comparison of one table.
private struct SchemaComparison {
    let app: SchemaDocument.Table
    let server: SchemaDocument.Table
    let document: SchemaDocument

    init(app: SchemaDocument.Table, server: SchemaDocument.Table, of document: SchemaDocument) {
        (self.app, self.server, self.document) = (app, server, document)
    }

    func differences(in parts: Set<SchemaDocument.Part>) -> [SchemaDifference] {
        var found: [SchemaDifference] = []
        if parts.contains(.columns) { found += columns }
        if parts.contains(.rules) { found += rules }
        if parts.contains(.references) { found += references }
        return found
    }

    private func difference(_ column: String?, _ reason: String) -> SchemaDifference {
        SchemaDifference(table: app.name, column: column, reason: reason)
    }

    // MARK: - Columns

    private var columns: [SchemaDifference] {
        let own = app.schema.columns.compactMap { column -> SchemaDifference? in
            guard let other = server.schema.column(matching: column.name) else {
                return difference(column.name, "the server's table has no such column")
            }
            if let problem = Self.typeProblem(column.type, other.type) {
                return difference(column.name, problem)
            }
            guard !column.isNullable || other.isNullable else {
                return difference(
                    column.name,
                    "the app may send null, which the server rejects. Make the property not optional, "
                        + "or the column nullable"
                )
            }
            return nil
        }
        let missing = server.schema.columns.filter { column in
            column.rules.isRequired && column.defaultValue == nil && column.name != server.owner
                && app.schema.column(matching: column.name) == nil && !isAliased(column)
        }
        return own
            + missing.map {
                difference($0.name, "the server requires a value, and the app has no such property")
            }
    }

    /// Returns whether the app declares a column by one of its former names.
    private func isAliased(_ column: ColumnDefinition) -> Bool {
        server.schema.aliases.contains { old, new in
            new == column.name && app.schema.column(matching: old) != nil
        }
    }

    /// Returns why an app's property cannot store every value of the server's column, or the
    /// reverse; nil if the types match.
    private static func typeProblem(_ app: ColumnType, _ server: ColumnType) -> String? {
        switch (app, server) {
        case (.enumeration(let app), .enumeration(let server)):
            let (unknown, rejected) = (Set(server).subtracting(app), Set(app).subtracting(server))
            if !unknown.isEmpty {
                return "the app's enum has no case for the server's members \(listed(unknown))"
            }
            guard rejected.isEmpty else {
                return "the server rejects the cases \(listed(rejected)) of the app's enum"
            }
            return app == server
                ? nil
                : "the app's enum has its cases in another order than the server, which compares "
                    + "them by position. Use the order of the server: "
                    + server.map { "'\($0)'" }.joined(separator: ", ")
        // An app stores an enum as its raw value, and the server may accept any string.
        case (.enumeration, .string), (.string, .enumeration), (.string, .guid), (.string, .date),
            (.string, .time):
            return nil
        default:
            return app == server
                ? nil : "the app has the type \(app.name), the server \(server.name)"
        }
    }

    private static func listed(_ members: Set<String>) -> String {
        members.sorted { SchemaDocument.precedes($0, $1) }.map { "'\($0)'" }.joined(separator: ", ")
    }

    // MARK: - Rules

    private var rules: [SchemaDifference] {
        let columns = app.schema.columns.compactMap { column -> SchemaDifference? in
            guard let other = server.schema.column(matching: column.name),
                column.rules != other.rules
            else {
                return nil
            }
            return difference(column.name, "app and server have different rules")
        }
        let (one, two) = (app.schema.rules, server.schema.rules)
        let unique = Set(one.unique.map { Set($0.map(current)) })
            .symmetricDifference(two.unique.map { Set($0) })
        let comparisons = Set(
            one.comparisons.map {
                ColumnComparison(current($0.left), $0.operator, current($0.right))
            }
        )
        .symmetricDifference(two.comparisons)
        return columns
            + unique.map { $0.sorted().joined(separator: ", ") }.sorted().map {
                difference(nil, "only one side has the rule unique (\($0))")
            }
            + comparisons.map { "\($0.left) \($0.operator.rawValue) \($0.right)" }.sorted().map {
                difference(nil, "only one side has the rule \($0)")
            }
    }

    /// Returns the server's name for a column of the app; the app's name if the server has no such
    /// column.
    private func current(_ column: String) -> String {
        server.schema.column(matching: column)?.name ?? column
    }

    // MARK: - References

    private var references: [SchemaDifference] {
        // In the app, a reference may use a former name of its column or a different letter case.
        let own = Dictionary(
            app.references.map { (key(of: $0.key), (column: $0.key, reference: $0.value)) },
            uniquingKeysWith: { first, _ in first }
        )
        let others = Dictionary(
            server.references.map { (key(of: $0.key), (column: $0.key, reference: $0.value)) },
            uniquingKeysWith: { first, _ in first }
        )
        let columns = Set(own.keys).union(others.keys)
        return columns.sorted { SchemaDocument.precedes($0, $1) }.compactMap { key in
            let (one, two) = (own[key], others[key])
            if let one, let two, Self.isSame(one.reference, two.reference) { return nil }
            // A server's document omits tables that the caller may not read; the missing table is
            // already reported as a difference.
            if let one, two == nil, document.table(matching: one.reference.table) == nil {
                return nil
            }
            let column = one?.column ?? two?.column ?? key
            return difference(column, "app and server have different references")
        }
    }

    /// Returns the server's column name in lower case, which is the key for comparing references.
    private func key(of column: String) -> String { current(column).lowercased() }

    private static func isSame(
        _ one: SchemaDocument.Reference,
        _ two: SchemaDocument.Reference
    ) -> Bool {
        one.onDelete == two.onDelete && one.table.lowercased() == two.table.lowercased()
    }
}

// SchemaDifference: where an app and a server do not fit each other, for people.

/// A difference between the tables of an app and those of a server.
public struct SchemaDifference: Hashable, Sendable, CustomStringConvertible {
    /// The table.
    public let table: String
    /// The column; nil for a difference of the whole table.
    public let column: String?
    /// The difference, and the remedy.
    public let reason: String

    /// The place and the difference.
    public var description: String {
        let place = column.map { "\(table).\($0)" } ?? table
        return "\(place): \(reason)"
    }
}

extension SchemaDocument {
    /// Returns where these tables of an app do not fit the tables of a server.
    ///
    /// The documents are compared in the parts that both state. Columns of the server that the app lacks are not
    /// differences, because an app keeps columns that it does not know. The order of the result is that of the app's tables and columns.
    package func differences(from server: SchemaDocument) -> [SchemaDifference] {
        let parts = parts.intersection(server.parts)
        return tables.flatMap { table -> [SchemaDifference] in
            guard let other = server.table(matching: table.name) else {
                let reason = "the server has no such table, or the caller may not read it"
                return [SchemaDifference(table: table.name, column: nil, reason: reason)]
            }
            return SchemaComparison(app: table, server: other).differences(in: parts)
        }
    }
}

/// The comparison of one table.
private struct SchemaComparison {
    let app: SchemaDocument.Table
    let server: SchemaDocument.Table

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
            guard Self.fits(column.type, other.type) else {
                return difference(
                    column.name,
                    "the app has the type \(column.type.name), the server \(other.type.name)"
                )
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

    /// Returns whether the app has a column under one of its former names.
    private func isAliased(_ column: ColumnDefinition) -> Bool {
        server.schema.aliases.contains { old, new in
            new == column.name && app.schema.column(matching: old) != nil
        }
    }

    /// Whether a property of the app holds every value that the server's column may have, and the reverse.
    private static func fits(_ app: ColumnType, _ server: ColumnType) -> Bool {
        switch (app, server) {
        case (.enumeration(let app), .enumeration(let server)): Set(server).isSubset(of: app)
        // An enum of an app is stored as its raw value.
        case (.string, .enumeration), (.string, .guid), (.string, .date), (.string, .time): true
        default: app == server
        }
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
        let unique = Set(one.unique.map { Set($0) }).symmetricDifference(two.unique.map { Set($0) })
        let comparisons = Set(one.comparisons).symmetricDifference(two.comparisons)
        return columns
            + unique.map { $0.sorted().joined(separator: ", ") }.sorted().map {
                difference(nil, "only one side has the rule unique (\($0))")
            }
            + comparisons.map { "\($0.left) \($0.operator.rawValue) \($0.right)" }.sorted().map {
                difference(nil, "only one side has the rule \($0)")
            }
    }

    private var references: [SchemaDifference] {
        let columns = Set(app.references.keys).union(server.references.keys)
        return columns.sorted().compactMap { column in
            guard app.references[column] != server.references[column] else { return nil }
            return difference(column, "app and server have different references")
        }
    }
}

// OutdatedTable: a table that another server has changed since this one read its definition.
//
// A database that servers share numbers the schema versions of each table, and every read and write compares
// the number. If it differs, the table's definition is reloaded and the request restarts.

import TidelineCore

/// The error for a request with an outdated definition of a table.
///
/// Nothing was done: the schema version of the table in the database differs from that of the request.
package struct OutdatedTable: Error, Sendable {
    /// The table's definition in the database.
    package let definition: TableDefinition

    package init(_ definition: TableDefinition) { self.definition = definition }

    /// The number of times that a request restarts before it is rejected.
    static let attemptsMax = 3
}

extension TableService {
    /// Performs work that may be restarted, each time with the current tables.
    func current<Result>(_ body: () async throws -> Result) async throws -> Result {
        for _ in 1..<OutdatedTable.attemptsMax {
            do {
                return try await body()
            } catch let outdated as OutdatedTable {
                try learn(outdated)
            }
        }
        return try await body()
    }

    /// Loads the definition of a table that another server has changed.
    ///
    /// - Throws: ``ServerError/tableChanged`` if it lacks columns of this server's configuration.
    func learn(_ outdated: OutdatedTable) throws {
        let found = outdated.definition
        guard let known = catalog.table(named: found.name)?.definition else {
            if settings.dynamicSchema { catalog.put(found) }
            return
        }
        var definition = known
        definition.form = found.form
        definition.databaseDefaults = found.databaseDefaults(for: known.schema.columns)
        if settings.dynamicSchema {
            definition.schema.columns = found.schema.columns.map { column in
                known.schema.columns.first { $0.isSameForm(as: column) } ?? column
            }
        } else {
            let isWhole = known.schema.columns.allSatisfy { column in
                found.schema.columns.contains { column.isSameForm(as: $0) }
            }
            guard isWhole else { throw ServerError.tableChanged }
        }
        settings.log.write(.info, "tables", ["change": "Another server changed '\(found.name)'."])
        catalog.put(definition)
    }

    /// Loads a table that another server may have created.
    ///
    /// Such tables exist only with a dynamic schema.
    func lookUp(_ name: String) async throws {
        guard settings.dynamicSchema, catalog.table(named: name) == nil,
            TableDefinition.nameFault(name) == nil
        else { return }
        if let found = try await store.stored(name) { catalog.put(found) }
    }
}

extension ColumnDefinition {
    /// Returns whether both columns have the same name and store the same values.
    fileprivate func isSameForm(as other: ColumnDefinition) -> Bool {
        name == other.name && !ColumnConversion.isNeeded(type, other.type)
            && !ColumnConversion.isNeeded(other.type, type)
    }
}

extension TableDefinition {
    /// Returns the database's default expressions for columns that are declared without a default.
    func databaseDefaults(for columns: [ColumnDefinition]) -> [String: String] {
        databaseDefaults.filter { name, _ in
            columns.contains { $0.name == name && $0.defaultValue == nil }
        }
    }
}

// LocalTables: tables and columns that stay on the device.

import TidelineCore

extension TableSchema {
    /// Applies a model's declarations of the table and the columns that stay on the device.
    ///
    /// - Throws: ``SyncError`` with code `invalidModel`.
    mutating func keep(
        _ columns: [String],
        isLocalOnly: Bool,
        model: String
    ) throws {
        self.isLocalOnly = isLocalOnly
        localColumns = Set(columns)
        if let name = columns.first(where: SystemColumn.names.contains) {
            throw SyncError.invalidModel(
                model,
                "'\(name)' is a system column, which cannot be local. Remove it from 'localColumns'."
            )
        }
        let unchecked = rules.unique.first { rule in
            isLocalOnly || rule.contains(where: localColumns.contains)
        }
        if let unchecked {
            let names = unchecked.map { "'\($0)'" }.joined(separator: ", ")
            throw SyncError.invalidModel(
                model,
                """
                the rule '.unique' for \(names) covers values that stay on the device, but only a server can check it. \
                Remove it from 'rules'.
                """
            )
        }
    }

    /// Returns a row without the columns that stay on the device.
    func synced(_ row: Row) -> Row {
        guard !localColumns.isEmpty else { return row }
        var result = row
        for name in localColumns where result[name] != nil { result[name] = nil }
        return result
    }

    /// Throws an error if the table stays on the device.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a table that stays on the device.
    func checkIsOnServer() throws {
        guard isLocalOnly else { return }
        throw SyncError.unsupportedQuery(
            """
            a request to the server for table '\(name)', which stays on the device ('isLocalOnly'). Use \
            'SyncClient.syncTable' for its records.
            """
        )
    }

    /// The table with only the columns and rules that a server has too.
    package var synced: TableSchema {
        var schema = TableSchema(
            name: name,
            columns: columns.filter { !localColumns.contains($0.name) }
        )
        schema.rules.unique = rules.unique
        schema.rules.comparisons = rules.comparisons.filter {
            !localColumns.contains($0.left) && !localColumns.contains($0.right)
        }
        return schema
    }
}

extension TableCatalog {
    /// The columns that stay on the device, for each synchronized table that has any.
    var localColumns: [String: Set<String>] {
        schemas.mapValues(\.localColumns).filter { !$0.value.isEmpty }
    }

    /// The names of the tables and columns that stay on the device; columns are written as
    /// `table.column`.
    var localNames: [String] {
        schemas.values.flatMap { schema in
            schema.isLocalOnly ? [schema.name] : schema.localColumns.map { "\(schema.name).\($0)" }
        }.sorted()
    }

    /// The tables that are pulled and pushed.
    var syncedNames: [String] {
        schemas.values.filter { !$0.isLocalOnly }.map(\.name).sorted()
    }

    /// Returns a row without the columns that stay on the device.
    func synced(_ row: Row, in table: String) -> Row { schema(table)?.synced(row) ?? row }

    /// Returns a row with the values of local columns taken from the stored row.
    ///
    /// If `stored` is nil, the result has no local columns.
    func row(_ row: Row, of table: String, withLocalColumnsOf stored: Row?) -> Row {
        guard let names = schema(table)?.localColumns, !names.isEmpty else { return row }
        var result = row
        for name in names { result[name] = stored?[name] }
        return result
    }

    /// Returns whether all rows of a table stay on the device.
    func isLocalOnly(_ table: String) -> Bool { schema(table)?.isLocalOnly ?? false }

    /// Rejects a call that needs a server.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a table that stays on the device.
    func checkSynced(_ table: String) throws {
        guard isLocalOnly(table) else { return }
        throw SyncError.unsupportedQuery(
            """
            a pull, a verification or a purge of table '\(table)', which stays on the device ('isLocalOnly'). To remove \
            its records, use 'delete(where:)'; otherwise remove the call.
            """
        )
    }
}

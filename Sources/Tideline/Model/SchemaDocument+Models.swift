// SchemaDocument+Models: the schema document of an app's models, for the commands of a server.

public import TidelineCore

extension SchemaDocument {
    /// Creates the document of an app's models.
    ///
    /// Write it to a file in a test of the app, and let CI compare it with the server:
    ///
    /// ```swift
    /// let document = try SchemaDocument(of: [TodoList.self, TodoItem.self])
    /// try document.json.write(to: url, atomically: true, encoding: .utf8)
    /// ```
    ///
    /// ```
    /// tideline schema --check schema.json --server https://jobs.example
    /// ```
    ///
    /// A property whose type is a `CaseIterable` enum with strings as raw values becomes a column that lists the raw
    /// values of the enum. Tables and columns that stay on the device are left out; see ``SyncRecord/isLocalOnly``
    /// and ``SyncRecord/localColumns``.
    ///
    /// - Parameter models: The models of the tables.
    /// - Throws: ``SyncError`` with code `invalidModel`, whose message says what to change in the model.
    public init(of models: [any SyncRecord.Type]) throws {
        var names: Set<String> = []
        let found = try models.map { (type: $0, schema: try RecordSchema.of($0)) }
        let tables = try found.compactMap { type, found -> Table? in
            guard names.insert(found.table.name.lowercased()).inserted else {
                throw SyncError.invalidModel(
                    "\(type)",
                    "another model uses the table '\(found.table.name)'. Give one of them another name."
                )
            }
            guard !found.table.isLocalOnly else { return nil }
            var table = Table(ofModel: found.table)
            let rules = RowRules(table.schema)
            for place in table.schema.columns.indices
            where table.schema.columns[place].defaultValue == nil {
                let name = table.schema.columns[place].name
                // A new record may have an empty string that a rule rejects. A server cannot use it as a default.
                guard let value = found.ownDefaults[name] ?? found.optionalDefaults[name],
                    rules.check([name: value], changing: [name]) == nil
                else { continue }
                table.schema.columns[place].defaultValue = value
            }
            return table
        }
        self.init(tables)
    }
}

extension SchemaDocument.Table {
    /// Creates the server's version of a table from its schema on the device.
    init(ofModel schema: TableSchema) {
        self.init(schema.synced, references: schema.references)
    }
}

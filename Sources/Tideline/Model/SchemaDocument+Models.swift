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
    /// Tables and columns that stay on the device are left out; see ``SyncRecord/isLocalOnly`` and
    /// ``SyncRecord/localColumns``.
    ///
    /// - Parameter models: The models of the tables.
    /// - Throws: ``SyncError`` with code `invalidModel`, whose message says what to change in the model.
    public init(of models: [any SyncRecord.Type]) throws {
        var names: Set<String> = []
        let tables = try models.compactMap { type -> Table? in
            let found = try RecordSchema.of(type)
            guard names.insert(found.table.name.lowercased()).inserted else {
                throw SyncError.invalidModel(
                    "\(type)",
                    "another model has the table '\(found.table.name)'. Give one of them another name."
                )
            }
            guard !found.table.isLocalOnly else { return nil }
            var schema = found.table.synced
            for place in schema.columns.indices where schema.columns[place].defaultValue == nil {
                schema.columns[place].defaultValue = found.ownDefaults[schema.columns[place].name]
            }
            var references: [String: Reference] = [:]
            for reference in found.table.references {
                references[reference.column] = Reference(
                    table: reference.table,
                    onDelete: reference.onDelete.rawValue
                )
            }
            return Table(schema, references: references)
        }
        self.init(tables, parts: [.columns, .references, .rules])
    }
}

// TableCatalog: the tables that a client keeps in sync, and their columns.

import TidelineCore

/// The synchronised tables of a client, by name.
struct TableCatalog: Sendable {
    let schemas: [String: TableSchema]

    /// Declared columns come first; those of a model that were not declared are added to them.
    init(declared: [TableSchema], models: [TableSchema]) throws {
        var schemas: [String: TableSchema] = [:]
        for schema in declared {
            guard schemas.updateValue(schema, forKey: schema.name) == nil else {
                throw SyncError.tableTwice(schema.name)
            }
        }
        var seen: Set<String> = []
        for model in models {
            guard seen.insert(model.name).inserted else { throw SyncError.tableTwice(model.name) }
            var schema = schemas[model.name] ?? TableSchema(name: model.name, columns: [])
            let known = Set(schema.columns.map(\.name))
            schema.columns += model.columns.filter { !known.contains($0.name) }
            schemas[model.name] = schema
        }
        self.schemas = schemas
    }

    func schema(_ table: String) -> TableSchema? { schemas[table] }
}

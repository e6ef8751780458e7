// TableCatalog: the synced tables of a client. Names are compared without regard to letter case, as
// on a server.

import TidelineCore

extension TableSchema {
    /// The reason why a store cannot have these columns; nil if it can.
    var columnFault: String? {
        var seen: Set<String> = []
        for column in columns {
            let name = column.name
            guard seen.insert(name.lowercased()).inserted else {
                return "two are named '\(name)', ignoring case. Rename one of them."
            }
            if name.hasPrefix("__") {
                return "names that begin with '__' are reserved. Rename '\(name)'."
            }
            if case .enumeration(let members) = column.type, members.isEmpty {
                return "'\(name)' is an enumeration without members. Declare them."
            }
            if let value = column.defaultValue,
                let fault = RowCheck.fault(of: value, in: column.type)
            {
                return "the default of '\(name)' \(fault). Declare one that the column can hold."
            }
        }
        for reference in references where column(named: reference.column) == nil {
            return """
                the reference to '\(reference.table)' names a column '\(reference.column)', which the table does \
                not have. Name one of its columns.
                """
        }
        return nil
    }
}

extension TableSchema {
    /// Spells the tables in references as they are declared, and adds the indexes that find the
    /// rows of a parent.
    fileprivate mutating func prepareReferences(_ names: [String: String]) {
        for place in references.indices {
            let reference = references[place]
            references[place].table = names[reference.table.lowercased()] ?? reference.table
            if !indexes.contains(where: { $0.first == reference.column }) {
                indexes.append([reference.column])
            }
        }
    }
}

/// The synced tables of a client, by name.
struct TableCatalog: Sendable {
    let schemas: [String: TableSchema]
    /// The references between the tables.
    let references: ModelReferences
    /// The names by their lowercase form.
    private let names: [String: String]
    /// The rules of each table that has any.
    private let rules: [String: RowRules]
    /// Functions that encode a row as the table's model does, without JSON members that the model
    /// does not know.
    private var models: [String: @Sendable (Row) -> Row?] = [:]
    /// The values that the models have for columns without a value.
    private var absent: [String: AbsentValues] = [:]

    private init() {
        (schemas, names, rules) = ([:], [:], [:])
        references = ModelReferences([:])
    }

    /// A catalog without tables.
    static let empty = TableCatalog()

    /// Creates a catalog in which the columns of a table are the declared ones, followed by the
    /// model's other columns.
    ///
    /// If the letter case of a column differs, the model's name is used.
    init(declared: [TableSchema], models: [TableSchema]) throws {
        var schemas: [String: TableSchema] = [:]
        var names: [String: String] = [:]
        for schema in declared {
            guard names.updateValue(schema.name, forKey: schema.name.lowercased()) == nil else {
                throw SyncError.tableTwice(schema.name)
            }
            schemas[schema.name] = schema
        }
        var seen: Set<String> = []
        for model in models {
            let key = model.name.lowercased()
            guard seen.insert(key).inserted else { throw SyncError.tableTwice(model.name) }
            let name = names[key] ?? model.name
            names[key] = name
            var schema = schemas[name] ?? TableSchema(name: name, columns: [])
            for column in model.columns {
                let same = schema.columns.firstIndex {
                    $0.name.lowercased() == column.name.lowercased()
                }
                if let same {
                    schema.columns[same].name = column.name
                    if column.rules != ColumnRules() {
                        schema.columns[same].rules = column.rules
                    }
                } else {
                    schema.columns.append(column)
                }
            }
            schema.indexes += model.indexes.filter { !schema.indexes.contains($0) }
            schema.orderIndexes += model.orderIndexes.filter { !schema.orderIndexes.contains($0) }
            schema.search = model.search ?? schema.search
            schema.references += model.references.filter { reference in
                !schema.references.contains { $0.column == reference.column }
            }
            if !model.rules.isEmpty { schema.rules = model.rules }
            schema.isLocalOnly = schema.isLocalOnly || model.isLocalOnly
            schema.localColumns.formUnion(model.localColumns)
            schemas[name] = schema
        }
        for name in schemas.keys { schemas[name]?.prepareReferences(names) }
        self.schemas = schemas
        self.names = names
        references = ModelReferences(schemas)
        rules = schemas.mapValues(RowRules.init).filter { !$0.value.isEmpty }
    }

    func schema(_ table: String) -> TableSchema? {
        schemas[table] ?? names[table.lowercased()].flatMap { schemas[$0] }
    }

    /// Returns the tables whose rows a filter has conditions on, spelled as in the store.
    func relatedTables(of filter: Filter?) -> Set<String> {
        Set((filter?.expression.relatedTables ?? []).map { schema($0)?.name ?? $0 })
    }

    /// Returns the rules that the device checks for a table; nil if there are none.
    func rules(of table: String) -> RowRules? { rules[table] }

    /// Returns the same catalog, with the record types of its tables.
    func with(models types: [any SyncRecord.Type]) throws -> TableCatalog {
        var catalog = self
        for type in types {
            let name = try RecordSchema.of(type).table.name
            guard let schema = schema(name) else { continue }
            catalog.models[schema.name] = try Self.asModel(type, declared: schema)
            catalog.absent[schema.name] = AbsentValues(try RecordSchema.of(type), table: schema)
        }
        return catalog
    }

    private static func asModel<Record: SyncRecord>(
        _ type: Record.Type,
        declared: TableSchema
    ) throws -> @Sendable (Row) -> Row? {
        let coder = try RecordCoder.model(for: type, declared: declared)
        return { row in (try? coder.decode(row)).flatMap { try? coder.encode($0) } }
    }

    /// The tables of the app as a server should have them, without the tables that stay on the
    /// device.
    var document: SchemaDocument {
        let tables = schemas.values.filter { !$0.isLocalOnly && !$0.columns.isEmpty }
        return SchemaDocument(tables.map(SchemaDocument.Table.init(ofModel:)))
    }

    /// Returns a condition that finds the same rows as a comparison of decoded records would.
    func applyingDefaults(_ condition: QueryExpression, in table: String) -> QueryExpression {
        absent[table]?.applyingDefaults(Filter(condition))?.expression ?? condition
    }

    /// Returns the values that a table's model has for columns without a value; nil if the table
    /// has no model.
    func placeholders(of table: String) -> Row? { models[table]?(["id": ""]) }

    /// Returns `row` with the values of `item`.
    ///
    /// A JSON object keeps the members that the table's model does not know. `item` lacks them if
    /// it was encoded from a record.
    func row(_ row: Row, of table: String, with item: Row) -> Row {
        let hasDocument = item.contains { name, value in
            if case .json = value, case .json? = row[name] { true } else { false }
        }
        let known = hasDocument ? models[table]?(row) : nil
        var result = row
        for (name, value) in RowMerge.payload(item.inMilliseconds) {
            result[name] = (row[name] ?? .null)
                .applying(from: known?[name], to: value, ofModel: true)
        }
        return result
    }

    /// Returns whether the app syncs the table of an operation under exactly this name.
    func names(tableOf operation: QueuedOperation) -> Bool {
        schemas[operation.table].map { !$0.isLocalOnly } ?? false
    }
}

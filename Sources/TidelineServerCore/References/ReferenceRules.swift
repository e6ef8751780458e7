// ReferenceRules: checks the references of tables.

package import TidelineCore

extension [TableReference] {
    /// The references that the server checks.
    package var checked: [TableReference] { filter { $0.onDelete != .none } }
}

/// The references of a table, compared with the declared tables and the foreign keys of the database.
package enum ReferenceRules {
    /// Returns whether a reference that the server checks names a table.
    package static func isReferenced(_ table: String, by tables: [TableDefinition]) -> Bool {
        tables.contains { definition in
            definition.references.checked.contains { SchemaPlan.isSame($0.table, table) }
        }
    }

    /// Returns the references with the declared spelling of columns and tables.
    static func completed(
        _ table: TableDefinition,
        among tables: [TableDefinition]
    ) -> [TableReference] {
        table.references.map { reference in
            let column = table.schema.columns.first {
                SchemaPlan.isSame($0.name, reference.column)
            }
            let parent = tables.first { SchemaPlan.isSame($0.name, reference.table) }
            var completed = reference
            completed.column = column?.name ?? reference.column
            completed.table = parent?.name ?? reference.table
            return completed
        }
    }

    /// Returns the references with foreign keys of the database, for columns without a declared one.
    ///
    /// A foreign key that cannot set null, because the column needs a value, restricts.
    package static func extended(
        _ table: TableDefinition,
        by keys: [TableReference]
    ) -> [TableReference] {
        var references = table.references
        for var key in keys {
            guard let column = table.schema.columns.first(where: { $0.name == key.column }),
                column.type == .string || column.type == .guid, column.name != table.owner,
                !references.contains(where: { SchemaPlan.isSame($0.column, key.column) })
            else { continue }
            if key.onDelete == .setNull, !column.isNullable || column.rules.isRequired {
                key.onDelete = .restrict
            }
            references.append(key)
        }
        return references
    }

    /// Returns the references that the server cannot check, each with its column and the end of a sentence.
    package static func faults(
        of table: TableDefinition,
        among tables: [TableDefinition]
    ) -> [(column: String, fault: String)] {
        var faults: [(column: String, fault: String)] = []
        var seen: Set<String> = []
        for reference in table.references {
            let fault =
                seen.insert(reference.column.lowercased()).inserted
                ? fault(of: reference, in: table, among: tables)
                : "the column already has a reference; a column can have only one"
            if let fault { faults.append((reference.column, fault)) }
        }
        return faults
    }

    private static func fault(
        of reference: TableReference,
        in table: TableDefinition,
        among tables: [TableDefinition]
    ) -> String? {
        let column = table.schema.columns.first { SchemaPlan.isSame($0.name, reference.column) }
        guard let column else { return "the column does not exist; declare it in 'columns'" }
        guard tables.contains(where: { SchemaPlan.isSame($0.name, reference.table) }) else {
            return "table '\(reference.table)' is not declared"
        }
        guard column.type == .string || column.type == .guid else {
            return "a column of type \(column.type.name) cannot contain an id; "
                + "'string' or 'guid' is expected"
        }
        if let owner = table.owner, SchemaPlan.isSame(owner, column.name) {
            return "the owner column stores the token's sub, so it cannot be a reference"
        }
        if reference.onDelete == .setNull, !column.isNullable {
            return "'setNull' requires a column with 'nullable' true"
        }
        if reference.onDelete == .setNull, column.rules.isRequired {
            return "'setNull' requires a column without 'required'"
        }
        return nil
    }
}

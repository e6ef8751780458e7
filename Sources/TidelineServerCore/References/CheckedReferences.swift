// CheckedReferences: which tables the checked references of a server name.

import TidelineCore

extension [TableDefinition] {
    /// Returns whether a reference that the server checks names a table.
    package func isReferenced(_ table: String) -> Bool {
        contains { definition in
            definition.checkedReferences.contains { SchemaPlan.isSame($0.table, table) }
        }
    }
}

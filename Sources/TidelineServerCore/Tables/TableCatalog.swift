// TableCatalog: the tables by name, in any letter case.

import Synchronization
import TidelineCore

package final class TableCatalog: Sendable {
    private let tables = Mutex<[String: Table]>([:])

    package init() {}

    /// The table with this name: exactly, else without regard to case.
    package func table(named name: String) -> Table? {
        tables.withLock { $0[name] ?? $0[name.lowercased()] }
    }

    /// Adds a table, or puts a wider form of it in its place.
    ///
    /// Columns are only ever added while a server runs, so the form with fewer is the older one.
    package func put(_ definition: TableDefinition) {
        tables.withLock { tables in
            let old = tables[definition.name]?.columns.count ?? -1
            guard definition.schema.columns.count > old else { return }
            let table = Table(definition)
            tables[definition.name] = table
            tables[definition.name.lowercased()] = table
        }
    }
}

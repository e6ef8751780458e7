// TableCatalog: the tables by name, in any letter case.

import Synchronization
import TidelineCore

package final class TableCatalog: Sendable {
    private let tables = Mutex<[String: Table]>([:])
    /// What a table's permissions are where nothing is said.
    private let defaultAccess: TablePermissions.Access

    /// The code of the tables, by their names in lower case.
    private let hooks: [String: TableHooks]

    package init(
        defaultAccess: TablePermissions.Access = .anonymous,
        hooks: [String: TableHooks] = [:]
    ) {
        self.defaultAccess = defaultAccess
        self.hooks = Dictionary(hooks.map { ($0.lowercased(), $1) }) { $1 }
    }

    /// The table with this name: exactly, else without regard to case.
    package func table(named name: String) -> Table? {
        tables.withLock { $0[name] ?? $0[name.lowercased()] }
    }

    /// All tables by their names.
    var all: [Table] {
        tables.withLock { tables in
            tables.filter { $0.key.utf8.elementsEqual($0.value.name.utf8) }.map(\.value)
        }
        .sorted { $0.name < $1.name }
    }

    /// A table that a write will make, or make wider; it is not added.
    func table(of definition: TableDefinition, from stored: Table?) -> Table {
        Table(
            completed(definition),
            hooks: hooks[definition.name.lowercased()],
            made: stored.map { .part($0) } ?? .nothing
        )
    }

    private func completed(_ definition: TableDefinition) -> TableDefinition {
        var definition = definition
        definition.permissions = definition.permissions.filled(with: defaultAccess)
        return definition
    }

    /// Adds a table, or puts a wider form of it in its place.
    ///
    /// Columns are only ever added while a server runs, so the form with fewer is the older one; but
    /// of a database that others change, too, the form that was read last counts.
    package func put(_ definition: TableDefinition) {
        let table = Table(completed(definition), hooks: hooks[definition.name.lowercased()])
        tables.withLock { tables in
            if let old = tables[table.name] {
                let isOtherForm = definition.form != nil && definition.form != old.definition.form
                guard isOtherForm || table.columns.count > old.columns.count else { return }
            }
            tables[table.name] = table
            tables[table.name.lowercased()] = table
        }
    }
}

// TableCatalog: looks up tables.

import Synchronization
import TidelineCore

/// The tables of a server by name, in any letter case.
package final class TableCatalog: Sendable {
    private struct State {
        var tables: [String: Table] = [:]
        /// The sum of the fingerprints of all tables.
        ///
        /// With a sum, the cost of adding a table does not depend on the number of tables.
        var fingerprint: UInt64 = 0
        /// Whether a table has references.
        var hasReferences = false
        /// The references between the tables; nil until they are requested after a change.
        var graph: ReferenceGraph?
        /// Whether a column of a table has a former name.
        var hasFormerNames = false
        /// The schema documents since the last change, by the names of their tables.
        var documents: [[String]: SchemaAnswer] = [:]
    }

    /// The maximum number of schema documents that are kept; callers have few different rights.
    private static let documentsMax = 8

    private let state = Mutex(State())
    /// The access for permissions that a table does not declare.
    private let defaultAccess: TablePermissions.Access

    /// The hooks of the tables, by their names in lower case.
    private let hooks: [String: TableHooks]

    package init(
        defaultAccess: TablePermissions.Access = .anonymous,
        hooks: [String: TableHooks] = [:]
    ) {
        self.defaultAccess = defaultAccess
        self.hooks = Dictionary(hooks.map { ($0.lowercased(), $1) }) { $1 }
    }

    /// Returns the table with this name; an exact match precedes one in another letter case.
    package func table(named name: String) -> Table? {
        state.withLock { $0.tables[name] ?? $0.tables[name.lowercased()] }
    }

    /// All tables, by name.
    var all: [Table] {
        state.withLock { Self.all($0.tables) }
    }

    /// The references between the tables; nil if there are none that the server checks.
    package var references: ReferenceGraph? {
        state.withLock { state in
            guard state.hasReferences else { return nil }
            if let known = state.graph { return known }
            let created = ReferenceGraph(Self.all(state.tables))
            state.graph = created
            return created
        }
    }

    /// Returns the schema document of some of the tables, which is written once for each set of tables.
    func document(of tables: [Table]) -> SchemaAnswer {
        let names = tables.map(\.name)
        if let known = state.withLock({ $0.documents[names] }) { return known }
        let created = SchemaAnswer(tables)
        state.withLock { state in
            // The tables may have changed since they were read; the next caller reads them again.
            guard tables.allSatisfy({ state.tables[$0.name] === $0 }) else { return }
            if state.documents.count >= Self.documentsMax { state.documents = [:] }
            state.documents[names] = created
        }
        return created
    }

    private static func all(_ tables: [String: Table]) -> [Table] {
        tables.filter { $0.key.utf8.elementsEqual($0.value.name.utf8) }.map(\.value)
            .sorted { $0.name < $1.name }
    }

    /// Whether a column of a table has a former name.
    var hasFormerNames: Bool { state.withLock { $0.hasFormerNames } }

    /// The value of `Tideline-Schema`, which changes with the contract of the tables: names, columns, rules and
    /// permissions.
    ///
    /// It is the same on every server with the same tables, even after a restart.
    package var fingerprint: String {
        String(state.withLock { $0.fingerprint }, radix: 16)
    }

    private static func fingerprint(of table: Table) -> UInt64 {
        let definition = table.definition
        let contract = SchemaDocument.Table(definition).fingerprint
        return Fingerprint([table.name, "\(definition.permissions)", contract]).bits
    }

    /// Returns a table that a write will create or extend; it is not added to the catalog.
    func table(of definition: TableDefinition, from stored: Table?) -> Table {
        Table(
            completed(definition),
            hooks: hooks[definition.name.lowercased()],
            existing: stored.map { .part($0) } ?? .nothing
        )
    }

    private func completed(_ definition: TableDefinition) -> TableDefinition {
        var definition = definition
        definition.permissions = definition.permissions.filled(with: defaultAccess)
        return definition
    }

    /// Adds a table, or replaces it with a definition that has more columns.
    ///
    /// While a server runs, columns are only added, so the definition with fewer columns is the older one. If
    /// external writers can change the database, the definition that was read last is used.
    package func put(_ definition: TableDefinition) {
        let table = Table(completed(definition), hooks: hooks[definition.name.lowercased()])
        let fingerprint = Self.fingerprint(of: table)
        state.withLock { state in
            if let old = state.tables[table.name] {
                let isOtherForm = definition.form != nil && definition.form != old.definition.form
                guard isOtherForm || table.columns.count > old.columns.count else { return }
                if old.name == table.name { state.fingerprint &-= Self.fingerprint(of: old) }
            }
            if table.hasFormerNames { state.hasFormerNames = true }
            state.tables[table.name] = table
            state.tables[table.name.lowercased()] = table
            state.fingerprint &+= fingerprint
            state.graph = nil
            state.documents = [:]
            if !table.definition.references.checked.isEmpty { state.hasReferences = true }
        }
    }
}

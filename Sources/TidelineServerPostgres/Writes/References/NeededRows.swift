// NeededRows: which rows a transaction locks.
//
// Rows that are written are locked for an update. Rows that references name are only shared, so that servers can insert
// children of the same row at the same time; if rows of a table are needed for both, all of them are locked for an
// update, in one statement and in the order of their ids, because two statements could deadlock with another server's.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The tables and rows that the writes of a transaction need, before anything is read.
struct NeededRows {
    /// Rows of a table that one statement locks.
    struct Part {
        let table: PostgresTable
        var ids: [String]
        /// Whether the rows are only read.
        var isShared: Bool
    }

    /// The rows, ordered by table.
    private(set) var parts: [Part] = []
    /// The tables that are not in `parts`, whose rows a delete may change, ordered by name.
    private(set) var followers: [PostgresTable] = []
    /// The keys of the writes in the ledger.
    private(set) var names: Set<LedgerKey> = []
    /// The rows that may be deleted and that other rows may refer to, by table.
    private(set) var deleted: [String: Set<String>] = [:]
    /// The rows that the references of the writes name, by table.
    private(set) var named: [(table: PostgresTable, ids: [String])] = []
    /// The references of the writes; nil if they have none.
    private(set) var graph: ReferenceGraph?

    init(_ batches: [PostgresBatch], derived: (Table) -> PostgresTable) {
        var ids: [String: Set<String>] = [:]
        var shared: [String: Set<String>] = [:]
        var tables: [String: PostgresTable] = [:]
        var followers: [String: PostgresTable] = [:]
        for batch in batches {
            for (group, backends) in zip(batch.batch.groups, batch.tables) {
                for (write, table) in zip(group.writes, backends) {
                    // A table that is yet to be created is read after its creation.
                    if !table.table.needsGrowth {
                        // Rows are read with the latest schema version; a batch with another one is rejected
                        // before it is planned.
                        let known = tables[table.clock]?.table.definition.form ?? 0
                        if table.table.definition.form ?? .max >= known {
                            tables[table.clock] = table
                        }
                        ids[table.clock, default: []].insert(write.operation.id)
                    }
                    if let key = write.repeatKey { names.insert(LedgerKey(key)) }
                    guard let references = write.operation.references else { continue }
                    graph = references.graph
                    for (parent, id) in write.operation.namedParents {
                        let parent = derived(parent)
                        tables[parent.clock] = tables[parent.clock] ?? parent
                        shared[parent.clock, default: []].insert(id)
                    }
                    guard write.operation.mayDelete else { continue }
                    let edges = references.graph.closure(of: table.name)
                    guard !edges.isEmpty else { continue }
                    deleted[table.name, default: []].insert(write.operation.id)
                    for edge in edges where edge.rule != .restrict {
                        let child = derived(edge.child)
                        followers[child.clock] = child
                    }
                }
            }
        }
        parts = tables.values.sorted { $0.clock < $1.clock }.map { table in
            let own = ids[table.clock] ?? []
            let all = own.union(shared[table.clock] ?? [])
            return Part(table: table, ids: all.sorted(), isShared: own.isEmpty)
        }
        named = parts.compactMap { part in
            shared[part.table.clock].map { (part.table, $0.sorted()) }
        }
        self.followers = followers.values.filter { tables[$0.clock] == nil }
            .sorted { $0.clock < $1.clock }
    }

    /// The tables with rows that are written, whose clocks are locked.
    var clocks: [String] { parts.filter { !$0.isShared }.map(\.table.clock) }

    /// All tables.
    var tables: [PostgresTable] { parts.map(\.table) + followers }

    /// The statements that lock the tables, in the order of their names.
    var tableLocks: [(clock: String, statement: PostgresStatement)] {
        let own = parts.map { part in
            (part.table, part.isShared ? "ROW SHARE" : "ROW EXCLUSIVE")
        }
        return (own + followers.map { ($0, "ROW EXCLUSIVE") }).sorted { $0.0.clock < $1.0.clock }
            .map { ($0.clock, WriteStatements.lock($0, as: $1)) }
    }
}

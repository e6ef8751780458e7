// MemoryDatabase: the committed state of the in-memory backend, as a value.

import Foundation
import Synchronization
import TidelineCore
import TidelineServerCore

/// A database in memory, of which readers take snapshots, and whose state each commit replaces.
final class MemoryDatabase: Sendable {
    let epoch = UUID().uuidString.lowercased()
    let listener = Mutex<CommitListener?>(nil)
    private let committed = Mutex(MemoryState())
    private let hasClosed = Atomic(false)

    /// The error for all calls after the database was closed; nil before.
    var rejection: (any Error)? {
        hasClosed.load(ordering: .relaxed) ? ServerError.stopping : nil
    }

    func close() { hasClosed.store(true, ordering: .relaxed) }

    /// Returns the committed state.
    func snapshot() throws -> MemoryState {
        if let rejection { throw rejection }
        return committed.withLock { $0 }
    }

    /// Changes a copy of the state, and commits it unless `body` throws.
    ///
    /// Only the writer calls this.
    func transaction<Result>(_ body: (inout MemoryState) throws -> Result) throws -> Result {
        var state = try snapshot()
        let result = try body(&state)
        committed.withLock { [state] in $0 = state }
        return result
    }
}

/// The error of a statement with columns that a table does not have.
struct MissingColumns: Error {
    var names: [String]
}

/// The tables of a database, and everything else that a transaction reads and writes.
struct MemoryState: Sendable {
    /// The tables by their names in lower case.
    var tables: [String: StoredTable] = [:]
    var ledger = MemoryLedger()
    /// The time record of the purge.
    var time: TrustedTime.Memory?

    /// The clocks of all tables, by name.
    var timestamps: [TableTimestamp] {
        tables.map { TableTimestamp(table: $0.key, timestamp: $0.value.clock.timestamp) }
            .sorted { $0.table < $1.table }
    }

    /// The definitions of all tables with their columns, by name.
    var definitions: [TableDefinition] {
        tables.sorted { $0.key < $1.key }
            .map { TableDefinition($0.value.name, columns: $0.value.columns) }
    }

    /// Returns the table.
    ///
    /// - Throws: A rejection if the table does not exist; ``MissingColumns`` if it was not extended before its use.
    func table(_ table: MemoryTable) throws -> StoredTable {
        guard let stored = tables[table.key] else { throw ServerError.noSuchTable }
        let missing = Set(table.names).subtracting(stored.columns.map { $0.name.lowercased() })
        guard missing.isEmpty else { throw MissingColumns(names: missing.sorted()) }
        return stored
    }
}

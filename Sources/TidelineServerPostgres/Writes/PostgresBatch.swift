// PostgresBatch: a batch that waits for the writer of PostgreSQL.

import TidelinePostgres
import TidelineServerCore

typealias PostgresBatch = QueuedBatch<PostgresTable>

extension PostgresBatch {
    /// The tables of the writes, by clock name.
    var clocks: Set<String> { Set(allTables.map(\.clock)) }

    /// The tables of the writes, and those that their references concern.
    var allTables: [PostgresTable] { Array(tables.joined()) + related }

    /// Returns whether the batch was built for a schema version of a table other than this one.
    func isOutdated(by form: Int64?, of clock: String) -> Bool {
        allTables.contains { table in
            let own = table.table.definition.form
            return table.clock == clock && own != nil && own != form
        }
    }
}

extension [PostgresBatch] {
    /// Returns the cause of a failed statement if a table has lost columns; otherwise nil.
    ///
    /// `batches` are those that need the columns, and `others` the rest.
    func outdated(
        _ error: any Error,
        _ link: inout PostgresLink
    ) -> (error: OutdatedTable, batches: [PostgresBatch], others: [PostgresBatch])? {
        guard let error = error as? PostgresError, let connection = try? link.connection() else {
            return nil
        }
        for table in lazy.flatMap(\.allTables) {
            guard let outdated = table.outdated(error, connection) else { continue }
            let form = outdated.definition.form
            let batches = filter { $0.isOutdated(by: form, of: table.clock) }
            return (outdated, batches, filter { !$0.isOutdated(by: form, of: table.clock) })
        }
        return nil
    }
}

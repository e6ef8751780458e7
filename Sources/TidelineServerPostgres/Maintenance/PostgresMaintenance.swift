// PostgresMaintenance: maintenance commands.

import TidelineCore
import TidelinePostgres
package import TidelineServerCore

/// The maintenance of a database in PostgreSQL, while servers may run.
package struct PostgresMaintenance: Sendable {
    let address: PostgresAddress

    /// - Throws: ``DatabaseError``, which does not contain the password.
    package init(url: String) throws {
        do {
            address = try PostgresAddress(url)
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, error.description)
        }
    }

    /// Runs `body` with a new connection.
    func connected<Result>(_ body: (PostgresConnection) throws -> Result) throws -> Result {
        do {
            return try body(PostgresConnection(address))
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, "\(address): \(error)")
        }
    }

    /// Gives the database a new epoch, so that clients pull everything again.
    ///
    /// - Returns: The epoch.
    package func renewEpoch() throws -> String {
        try connected { connection in
            try checkWhole(connection)
            let renewed = try connection.run(PostgresSchema.renewEpoch)
            guard renewed.count > 0 else { throw noTables }
            // The epoch is new, so starting servers have no history to compare.
            try connection.run(HistoryRow.remove)
            return renewed.text(0, 0)
        }
    }

    private var noTables: DatabaseError {
        DatabaseError(
            .missing,
            "\(address): this database has no tables of a server."
        )
    }

    /// - Throws: ``DatabaseError`` if no server has used the database, or if a copy into it is incomplete.
    func checkWhole(_ connection: PostgresConnection) throws {
        let found = try connection.run("SELECT to_regclass('tideline.state') IS NULL")
        guard !found.boolean(0, 0) else { throw noTables }
        let copies = try connection.run(
            "SELECT count(*) FROM tideline.state WHERE \"key\" = $1",
            [.text(CopyProgress.key)]
        )
        guard copies.integer(0, 0) == 0 else {
            throw DatabaseError(.unavailable, "\(address): \(CopyProgress.rejection)")
        }
    }

    /// Sets table clocks that are ahead back to the current time.
    ///
    /// Rows with future times get new versions, and the database gets a new epoch, so that clients pull again.
    ///
    /// Servers may be running; their writes wait in the meantime.
    ///
    /// - Parameters:
    ///   - names: The names in any letter case; nil for all tables.
    ///   - now: The time in microseconds since 1970; nil for the time of the database.
    /// - Returns: The epoch, nil if no clock was ahead, and the tables with the counts of their changed rows.
    /// - Throws: ``DatabaseError``
    package func resetClocks(
        of names: [String]?,
        now: Int64? = nil
    ) throws -> (epoch: String?, tables: [(table: String, rows: Int)]) {
        try connected { connection in
            try checkWhole(connection)
            try connection.execute("BEGIN; \(PostgresSchema.lock(waiting: 10_000));")
            try connection.run(PostgresSchema.idle)
            let now = try now ?? connection.run(PostgresClock.now).integer(0, 0)
            let known = try tables(connection)
            if let missing = names?.first(where: { known[$0.lowercased()] == nil }) {
                let all = known.values.map(\.name).sorted().joined(separator: ", ")
                throw DatabaseError(
                    .missing,
                    "\(address): table '\(missing)' does not exist. Existing tables: \(all)."
                )
            }
            let wanted = names.map { Set($0.map { $0.lowercased() }) }
            var reset: [(table: String, rows: Int)] = []
            for timestamp in try PostgresReceipts.timestamps(connection)
            where timestamp.timestamp > now {
                guard let table = known[timestamp.table], wanted?.contains(timestamp.table) ?? true
                else {
                    continue
                }
                reset.append((table.name, try ClockReset(table, now: now).run(connection)))
            }
            guard !reset.isEmpty else {
                try connection.run("ROLLBACK")
                return (nil, [])
            }
            try ClockReset.dateLedger(now, connection)
            let epoch = try connection.run(PostgresSchema.renewEpoch).text(0, 0)
            try connection.run("COMMIT")
            return (epoch, reset)
        }
    }

    /// Returns the tables, by name in lower case.
    private func tables(_ connection: PostgresConnection) throws -> [String: TableDefinition] {
        let found = try connection.run(PostgresSchema.readTables)
        let tables = try (0..<found.count).map {
            try PostgresSchema.table(found.text($0, 0), found.text($0, 1))
        }
        return Dictionary(tables.map { ($0.name.lowercased(), $0) }) { $1 }
    }

    /// Changes the tables to match their declarations, even if values are lost, and adopts existing tables.
    ///
    /// A dry run is rolled back, and skips statements that take long on many rows. While it runs, it holds the
    /// same locks as the change.
    ///
    /// - Returns: The steps that were done, or would be done.
    package func migrate(
        _ tables: [TableDefinition],
        isComplete: Bool,
        isDry: Bool
    ) throws -> (steps: [SchemaStep], statements: [String]) {
        try connected { connection in
            let change = PostgresSchemaChange(
                connection: connection,
                now: nil,
                hasConsent: true,
                isDry: isDry
            )
            let result = try change.prepare(tables, filtered: nil, isComplete: isComplete)
            return (result.steps, change.script.statements)
        }
    }
}

// PostgresSchemaChange: the log of rows that left the views of a table, and the triggers that write to it.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresSchemaChange {
    /// Creates the log, with the columns of its table.
    ///
    /// If the columns changed, the log is emptied, because links from before the change are invalid.
    func prepareLog(_ table: TableDefinition, before: TableDefinition?) throws {
        func form(_ table: TableDefinition) -> Set<String> {
            Set(table.schema.columns.map { "\($0.name) \(PostgresColumn($0).declaration)" })
        }
        if let before, form(before) == form(table) { return }
        if before != nil {
            let log = PostgresName.log(table.name)
            let last = try connection.run(
                "SELECT coalesce(max(\"tideline_stamp\"), 0) FROM \(log)"
            ).integer(0, 0)
            try script.run(
                PostgresSchema.raiseHorizon,
                [.text(table.name.lowercased()), .integer(last)]
            )
            try script.execute("DROP TABLE \(log)")
            // Dropping the old log has dropped its triggers.
            try put("", as: "triggers.\(table.name.lowercased())")
        }
        try script.execute(PostgresSchema.createLog(table))
    }

    /// Sets the scope of the log to the one that this server needs.
    ///
    /// If the scope becomes wider, callers with earlier links start over.
    func beginLog(of table: TableDefinition, isFiltered: Bool?) throws {
        let key = "log.\(table.name.lowercased())"
        let before = try value(of: key).flatMap { LogScope($0) } ?? .nothing
        guard let isFiltered else { return try assignExternalTimestamps(to: table, before) }
        let scope = LogScope(table, isFiltered: isFiltered)
        if !before.covers(scope) {
            let name = SQLValue.text(table.name.lowercased())
            let timestamp = try connection.run(PostgresSchema.lockClock, [name]).integer(0, 0)
            try script.run(PostgresSchema.raiseHorizon, [name, .integer(timestamp)])
        }
        try put(scope.text, as: key)
        try assignExternalTimestamps(to: table, scope)
    }

    /// Creates the triggers of the table, unless the current ones exist.
    private func assignExternalTimestamps(to table: TableDefinition, _ scope: LogScope) throws {
        let text = ExternalWriterTriggers(table, scope).script
        let key = "triggers.\(table.name.lowercased())"
        let hash = SHA256.hash(text.utf8).prefix(16).map { String($0, radix: 16) }.joined()
        let isMade = try value(of: key) == hash && !SchemaLosses.lacksTriggers(table, connection)
        guard !isMade else { return }
        let log = SQLValue.text(PostgresName.log(table.name))
        if try connection.run("SELECT to_regclass($1) IS NULL", [log]).boolean(0, 0) {
            try script.execute(PostgresSchema.createLog(table))
        }
        try script.execute(text)
        try put(hash, as: key)
    }

    /// Assigns timestamps to rows that external writers wrote while the triggers were missing.
    func assignMissingTimestamps(_ tables: [TableDefinition]) throws {
        guard !tables.isEmpty else { return }
        let setOwn = "SELECT set_config('tideline.own', $1, true)"
        try connection.run(setOwn, [.text("")])
        for table in tables {
            let relation = PostgresName.quoted(table.name)
            try script.run(
                "UPDATE \(relation) SET \"deleted\" = \"deleted\" WHERE \"version\" = 0",
                []
            )
        }
        // Deferred triggers run now, because a table with pending trigger events cannot be changed.
        try connection.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        try connection.run(setOwn, [.text("on")])
    }
}

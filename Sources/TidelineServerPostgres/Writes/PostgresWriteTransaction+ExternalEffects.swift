// PostgresWriteTransaction: the effects of external triggers, rules and constraints on the rows of a transaction.
//
// If there are any, only the changed columns of a row are sent, and the rows are read back. If a row was not stored,
// its write is rejected. If its values were changed, it gets a new timestamp, as if the change had followed the write.
// So the device that gets its own values in the answer pulls the changed ones.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresWriteTransaction {
    /// Checks the rows that were sent.
    ///
    /// - Throws: ``PostgresError``, as for a constraint, if the stored values of a row differ from those sent
    ///   and cannot be sent to devices.
    mutating func readBack(_ keys: Set<RowKey>, now: Int64) throws {
        for (name, keys) in Dictionary(grouping: keys, by: \.table).sorted(by: { $0.key < $1.key })
        {
            guard let table = state.tables[name] else { continue }
            let ids = keys.map(\.id).sorted()
            let result = try connection.run(WriteStatements.read(ids, of: table))
            let found = (0..<result.count).map { table.image(result, $0) }
            let images = Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
            var changed: [(sent: RowImage, found: RowImage)] = []
            for id in ids {
                let key = RowKey(table: name, id: id)
                let sent = state.rows[key]?.stored
                guard let found = images[id] else {
                    // A foreign key removes a tombstone with its parent; the triggers have logged that.
                    guard sent?.isDeleted ?? true else { throw Self.leftOut }
                    state.rows[key] = WriteState.Cell()
                    continue
                }
                guard let sent else { throw Self.leftOut }
                if found.version == 0 {
                    // The row was changed after the write as well, and gets its timestamp at the commit.
                    state.rows[key] = nil
                    continue
                }
                guard found.version == sent.version else { throw Self.leftOut }
                if found.values != sent.values || found.isDeleted != sent.isDeleted {
                    changed.append((sent, found))
                }
            }
            try reassignTimestamps(changed, in: table, now: now)
        }
    }

    private static let leftOut = PostgresError(
        state: "23000",
        "a trigger or a rule of the table skipped a row"
    )

    private mutating func reassignTimestamps(
        _ changes: [(sent: RowImage, found: RowImage)],
        in table: PostgresTable,
        now: Int64
    ) throws {
        guard !changes.isEmpty else { return }
        let images = changes.map(\.found)
        var timestamps: [SQLValue] = []
        for (sent, found) in changes {
            var image = found
            let key = table.clock
            guard let clock = state.clocks[key] else { throw Self.leftOut }
            let timestamp = PostgresClock.next(after: clock.timestamp, now: now, isCounted: false)
            state.clocks[key]?.timestamp = timestamp
            state.clocks[key]?.hasMoved = true
            state.moved.insert(key)
            timestamps.append(.integer(timestamp))
            if table.log.isNeeded(for: sent, image) {
                state.logged.append((table, timestamp, image.isDeleted, table.log.loggedPart(sent)))
            }
            image.version = timestamp
            image.updatedAt = timestamp
            state.rows[RowKey(table: table.clock, id: image.id)] =
                WriteState.Cell(stored: image, planned: image)
        }
        try connection.run(
            PostgresStatement(
                """
                UPDATE \(table.quoted) AS t
                SET "version" = x."version", "updatedAt" = tideline.instant(x."version")
                FROM unnest($1::text[], $2::bigint[]) AS x("id", "version")
                WHERE t."id" = x."id"
                """,
                [.array(images.map { .text($0.id) }), .array(timestamps)]
            )
        )
    }

    /// Runs the checks that COMMIT would run, so that only one group is rejected.
    ///
    /// The checks also assign timestamps to rows that external triggers wrote, from clocks that this
    /// transaction may have read.
    mutating func checkConstraints() throws {
        let clocks = state.clocks.keys.sorted()
        let results = try connection.pipeline([
            PostgresStatement("SET CONSTRAINTS ALL IMMEDIATE"),
            PostgresStatement("SET CONSTRAINTS ALL DEFERRED"),
            PostgresStatement(
                "SELECT \"table\", \"stamp\" FROM tideline.clocks WHERE \"table\" = ANY($1::text[])",
                [.array(clocks.map { .text($0) })]
            ),
        ])
        for clock in TableTimestamp.read(results[2]) {
            if let known = state.clocks[clock.table]?.timestamp, clock.timestamp > known {
                state.clocks[clock.table]?.timestamp = clock.timestamp
            }
        }
    }
}

extension PostgresWriteTransaction {
    /// Returns the error with the columns of the constraint, which PostgreSQL does not report.
    ///
    /// Called after the group was rolled back, when the transaction accepts queries again.
    func withColumns(_ error: PostgresError) throws -> PostgresError {
        guard error.state == "23514", let name = error.constraint, let relation = error.relation
        else { return error }
        let found = try connection.run(
            """
            SELECT string_agg(a.attname::text, ', ' ORDER BY a.attnum) FROM pg_constraint AS c
            JOIN pg_class AS r ON r.oid = c.conrelid JOIN pg_namespace AS n ON n.oid = r.relnamespace
            JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)
            WHERE c.conname = $1 AND n.nspname = $2 AND r.relname = $3
            """,
            [.text(name), .text(relation.schema), .text(relation.table)]
        )
        guard found.count > 0, !found.isNull(0, 0) else { return error }
        var error = error
        error.constraint = "\(found.text(0, 0)) (constraint \(name))"
        return error
    }
}

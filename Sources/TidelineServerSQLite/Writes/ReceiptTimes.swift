// ReceiptTimes: records receipt times.
//
// A commit timestamp usually is the time when the commit was received. After a wrong wall clock, all later timestamps
// of the table follow the wrong one, for years. While a table clock is ahead, its position is recorded each hour;
// commits up to that position were received before. The same applies to entries of the audit log and of the ledger,
// which are in the order of their receipt.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The times at which commits were received while a table clock was ahead of the wall clock.
enum ReceiptTimes {
    /// Returns the commit timestamp up to which all commits of a table were received before a time.
    ///
    /// Later calls return no smaller timestamp; records that no later call needs are removed.
    static func end(_ table: String, _ time: Int64, _ database: Database) throws -> Int64 {
        try max(time, place(table, time, database).map { $0 + 1 } ?? time)
    }

    /// Returns the position of a key in its last record up to a time; removes earlier records.
    static func place(_ key: String, _ time: Int64, _ database: Database) throws -> Int64? {
        let found = try database.integer(
            ServerSchema.readReceipt,
            [.text(key), .integer(time)]
        )
        guard let found else { return nil }
        try database.prepare(ServerSchema.dropReceipts).run([.text(key), .integer(time)])
        return found
    }

    /// Records the positions of table clocks that are ahead, and of everything that they order.
    static func note(now: Int64, _ database: Database) throws {
        let statement = try database.prepare(ServerSchema.readTimestamps)
        defer { statement.reset() }
        var ahead: [(key: String, place: Int64)] = []
        while try statement.step() {
            let timestamp = statement.integer(1)
            guard ClockAhead.seconds(timestamp, now: now) > 0 else { continue }
            ahead.append((statement.text(0), timestamp))
        }
        statement.reset()
        guard !ahead.isEmpty else { return }
        for (key, sql) in [
            (ClockAhead.auditKey, ServerSchema.auditEnd),
            (ClockAhead.ledgerKey, ServerSchema.ledgerEnd),
        ] {
            if let end = try database.integer(sql) { ahead.append((key, end)) }
        }
        for (key, place) in ahead {
            try database.prepare(ServerSchema.noteReceipt).run([
                .text(key), .integer(place), .integer(now), .integer(ClockAhead.notePause),
            ])
        }
    }

    // MARK: - The time that is trusted

    static func memory(_ database: Database) throws -> TrustedTime.Memory? {
        let statement = try database.prepare(ServerSchema.readState)
        defer { statement.reset() }
        try statement.bind([.text(TrustedTime.key)])
        guard try statement.step() else { return nil }
        return TrustedTime.Memory(text: statement.text(0))
    }

    /// Stores the time record; if ages start over, removes earlier receipt records.
    static func store(_ memory: TrustedTime.Memory, _ database: Database) throws {
        try database.prepare(ServerSchema.putState).run([
            .text(TrustedTime.key), .text(memory.text),
        ])
        try database.prepare(ServerSchema.dropReceiptsBefore).run([.integer(memory.agesFrom)])
    }

    /// Returns the newest commit timestamp of all tables; nil for a database without commits.
    static func newest(_ database: Database) throws -> Int64? {
        guard try database.integer(ServerSchema.hasTable, [.text("tideline_tables")]) != 0 else {
            return nil
        }
        let newest = try database.integer(ServerSchema.newestTimestamp) ?? 0
        return newest > 0 ? newest : nil
    }

    /// Returns the clocks of all tables.
    static func timestamps(_ database: Database) throws -> [TableTimestamp] {
        let statement = try database.prepare(ServerSchema.readTimestamps)
        defer { statement.reset() }
        var timestamps: [TableTimestamp] = []
        while try statement.step() {
            timestamps.append(
                TableTimestamp(table: statement.text(0), timestamp: statement.integer(1))
            )
        }
        return timestamps
    }
}

extension ServerSchema {
    /// Creates the table for the position of a table clock, or of entries, at a time.
    static let receipts = """
        CREATE TABLE IF NOT EXISTS "tideline_receipts" (
            "key"   TEXT    NOT NULL COLLATE NOCASE,
            "time"  INTEGER NOT NULL,
            "place" INTEGER NOT NULL,
            PRIMARY KEY ("key", "time")
        ) STRICT, WITHOUT ROWID
        """

    static let readReceipt = """
        SELECT max("place") FROM "tideline_receipts" WHERE "key" = ?1 AND "time" <= ?2
        """

    /// Removes the records before the last one up to a time.
    static let dropReceipts = """
        DELETE FROM "tideline_receipts" WHERE "key" = ?1 AND "time" < (
            SELECT max("time") FROM "tideline_receipts" WHERE "key" = ?1 AND "time" <= ?2
        )
        """

    static let dropReceiptsBefore = """
        DELETE FROM "tideline_receipts" WHERE "time" < ?1
        """

    static let dropReceiptsOf = """
        DELETE FROM "tideline_receipts" WHERE "key" = ?1
        """

    /// Adds a record at most once in an interval, and only after a change since the last one.
    static let noteReceipt = """
        INSERT OR REPLACE INTO "tideline_receipts" ("key", "time", "place")
        SELECT ?1, ?3, ?2 WHERE NOT EXISTS (
            SELECT 1 FROM "tideline_receipts"
            WHERE "key" = ?1 AND ("time" > ?3 - ?4 AND "time" <= ?3 OR "place" >= ?2)
        )
        """

    static let readState = """
        SELECT "value" FROM "tideline_state" WHERE "key" = ?1
        """

    static let putState = """
        INSERT OR REPLACE INTO "tideline_state" ("key", "value") VALUES (?1, ?2)
        """

    static let newestTimestamp = """
        SELECT max("stamp") FROM "tideline_tables"
        """

    static let auditEnd = """
        SELECT max("place") FROM "tideline_audit"
        """
}

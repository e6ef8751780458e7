// ReceiptTimes: when commits were received whose table clock was ahead of the wall clock.
//
// A commit timestamp says when a commit was received, unless a wrong wall clock made it: then all later
// ones of its table follow it, for years. While a table clock is ahead, it is noted each hour how far it
// had come; what is not behind such a note was received before it. The same goes for entries of the
// audit and of the ledger, which are in the order of their receipt.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

enum ReceiptTimes {
    /// The commit timestamp up to which all commits of a table were received before a time.
    ///
    /// Those of later commits are not less, and notes that no later time needs are dropped.
    static func end(_ table: String, _ time: Int64, _ database: Database) throws -> Int64 {
        try max(time, place(table, time, database).map { $0 + 1 } ?? time)
    }

    /// How far a key had come at the last note that is not younger than a time.
    static func place(_ key: String, _ time: Int64, _ database: Database) throws -> Int64? {
        let found = try database.integer(
            ServerSchema.readReceipt,
            [.text(key), .integer(time)]
        )
        guard let found else { return nil }
        try database.prepare(ServerSchema.dropReceipts).run([.text(key), .integer(time)])
        return found
    }

    /// Records the positions of table clocks that are ahead, and of everything that is ordered by them.
    static func note(now: Int64, _ database: Database) throws {
        let statement = try database.prepare(ServerSchema.readStamps)
        defer { statement.reset() }
        var ahead: [(key: String, place: Int64)] = []
        while try statement.step() {
            let stamp = statement.integer(1)
            guard ClockAhead.seconds(stamp, now: now) > 0 else { continue }
            ahead.append((statement.text(0), stamp))
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

    /// Stores the memory; where ages start over, notes from before say nothing.
    static func store(_ memory: TrustedTime.Memory, _ database: Database) throws {
        try database.prepare(ServerSchema.putState).run([
            .text(TrustedTime.key), .text(memory.text),
        ])
        try database.prepare(ServerSchema.dropReceiptsBefore).run([.integer(memory.agesFrom)])
    }

    /// The newest commit timestamp of all tables; nil for a database without commits.
    static func newest(_ database: Database) throws -> Int64? {
        guard try database.integer(ServerSchema.hasTable, [.text("tideline_tables")]) != 0 else {
            return nil
        }
        let newest = try database.integer(ServerSchema.newestStamp) ?? 0
        return newest > 0 ? newest : nil
    }

    /// The clocks of all tables.
    static func stamps(_ database: Database) throws -> [TableStamp] {
        let statement = try database.prepare(ServerSchema.readStamps)
        defer { statement.reset() }
        var stamps: [TableStamp] = []
        while try statement.step() {
            stamps.append(TableStamp(table: statement.text(0), stamp: statement.integer(1)))
        }
        return stamps
    }
}

extension ServerSchema {
    /// How far the clock of a table, or the places of entries, had come at a time.
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

    /// Those before the last one that is not younger than a time.
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

    /// Once in a while, and only where something came since the last note.
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

    static let newestStamp = """
        SELECT max("stamp") FROM "tideline_tables"
        """

    static let auditEnd = """
        SELECT max("place") FROM "tideline_audit"
        """
}

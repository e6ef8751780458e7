// Ledger: entries are stored in the transaction of the write.
//
// Each caller has an account for the bytes of its entries. If all entries together exceed `limits.ledgerBytes`, the
// oldest entries of the caller with the most bytes are dropped first.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The idempotency ledger: the writes with a key, and their outcomes.
struct Ledger {
    /// The size of an entry without its row.
    static let entryBytes = LedgerRules.entryBytes
    /// How much longer an entry lives than the oldest accepted First-Sent, so that a delayed repeat is still known.
    private static let margin: Int64 = 86_400_000_000

    let database: Database
    let limits: ServerLimits
    /// The horizon that was read last in this transaction.
    private var lastHorizon: (caller: String, time: Int64?)?

    init(database: Database, limits: ServerLimits) {
        self.database = database
        self.limits = limits
    }

    mutating func find(_ key: RepeatKey, at now: Int64) throws -> LedgerFinding {
        let statement = try database.prepare(ServerSchema.readLedger)
        defer { statement.reset() }
        statement.bind(1, text: key.requestID)
        statement.bind(2, text: Self.caller(key))
        if try statement.step() {
            guard statement.blob(0) == key.digest else { return .other }
            let outcome = Self.outcome(statement)
            let needsRow = outcome.row == nil && !statement.isNull(3)
            return .known(outcome, stateOfRow: needsRow ? Self.state(statement) : nil)
        }
        if key.isAhead(now: now) { return .ahead }
        let isForgotten = key.mayBeForgotten(
            now: now,
            days: limits.ledgerDays,
            horizon: try horizon(of: Self.caller(key))
        )
        return isForgotten ? .forgotten : .new
    }

    /// Returns the latest time of a dropped entry of the caller; nil for none.
    ///
    /// Entries are dropped at the end of a transaction, after its last write, or in one of their own.
    private mutating func horizon(of caller: String) throws -> Int64? {
        // Compared by bytes, like the database does: two users may have ids that are equal as strings.
        if let lastHorizon, lastHorizon.caller.utf8.elementsEqual(caller.utf8) {
            return lastHorizon.time
        }
        let time = try database.integer(ServerSchema.readLedgerHorizon, [.text(caller)])
        lastHorizon = (caller, time)
        return time
    }

    /// Stores the outcome of a write.
    ///
    /// - Returns: The charged account, and the bytes of the entry.
    func put(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        now: Int64
    ) throws -> (caller: String, bytes: Int) {
        // The answer to a delete has no row.
        let row = operation.kind == .delete ? nil : outcome.row
        let rowBytes = LedgerRules.storedRow(row, of: operation)
        let statement = try database.prepare(ServerSchema.putLedger)
        let size = Self.entryBytes + (rowBytes?.count ?? 0)
        let caller = Self.caller(key)
        statement.bind(1, integer: Int64(size))
        statement.bind(2, text: key.requestID)
        statement.bind(3, text: caller)
        statement.bind(4, integer: max(now, key.firstSent))
        statement.bind(5, blob: key.digest)
        statement.bind(6, text: LedgerRules.word(outcome))
        statement.bind(7, text: operation.id)
        if let row {
            statement.bind(8, integer: row.state.version)
            statement.bind(9, integer: row.state.updatedAt)
            statement.bind(10, integer: row.state.isDeleted ? 1 : 0)
        } else {
            for index in 8...10 { statement.bindNull(Int32(index)) }
        }
        // The row is not copied; the statement must not refer to it after its run.
        defer { statement.bindNull(11) }
        try (rowBytes ?? []).withUnsafeBufferPointer { row in
            if rowBytes == nil { statement.bindNull(11) } else { statement.bind(11, lent: row) }
            try statement.run()
        }
        return (caller, size)
    }

    // MARK: - Accounts

    /// Charges new entries to their callers, and removes entries if there are too many bytes.
    func charge(_ puts: [String: Int], count: Int) throws {
        for (caller, bytes) in puts.sorted(by: { $0.key < $1.key }) {
            try database.prepare(ServerSchema.chargeLedger).run([
                .text(caller), .integer(Int64(bytes)), .integer(0),
            ])
        }
        let bytes = Int64(puts.values.reduce(0, +))
        try database.prepare(ServerSchema.chargeLedger).run([
            .text(LedgerRules.allCallers), .integer(bytes), .integer(0),
        ])
        _ = try trim(atMost: LedgerRules.drops(with: count))
    }

    /// Removes entries of the callers with the most bytes while there are too many.
    ///
    /// - Returns: The number of entries; if it is `count`, there may be more.
    private func trim(atMost count: Int) throws -> Int {
        var dropped = 0
        while dropped < count, let (caller, wanted) = try excess() {
            let (found, bytes, received) = try drop(of: caller, wanted, count - dropped)
            guard found > 0 else {
                // The account has more bytes than the ledger.
                try Self.recount(database)
                break
            }
            dropped += found
            try database.prepare(ServerSchema.chargeLedger).run([
                .text(caller), .integer(-bytes), .integer(received),
            ])
            try database.prepare(ServerSchema.chargeLedger).run([
                .text(LedgerRules.allCallers), .integer(-bytes), .integer(0),
            ])
        }
        return dropped
    }

    /// Returns the caller with the most bytes, and how many bytes to remove; nil within the limit.
    private func excess() throws -> (caller: String, bytes: Int64)? {
        let all = try bytes() - Int64(limits.ledgerBytes)
        guard all > 0 else { return nil }
        let statement = try database.prepare(ServerSchema.heaviestOfLedger)
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        let (caller, most) = (statement.text(0), statement.integer(1))
        guard most > 0 else { return nil }
        let next = try statement.step() ? statement.integer(1) : 0
        return (caller, min(all, max(1, most - next)))
    }

    /// Removes entries of a caller, in the order in which they were received.
    private func drop(
        of caller: String,
        _ wanted: Int64,
        _ most: Int
    ) throws -> (count: Int, bytes: Int64, received: Int64) {
        let statement = try database.prepare(ServerSchema.oldestOfCaller)
        defer { statement.reset() }
        try statement.bind([.text(caller), .integer(Int64(most))])
        var places: [Int64] = []
        var bytes: Int64 = 0
        var received: Int64 = 0
        while bytes < wanted, try statement.step() {
            places.append(statement.integer(0))
            received = max(received, statement.integer(1))
            bytes += statement.integer(2)
        }
        statement.reset()
        for place in places {
            try database.prepare(ServerSchema.dropEntry).run([.integer(place)])
        }
        return (places.count, bytes, received)
    }

    /// Returns the bytes of all entries.
    private func bytes() throws -> Int64 {
        try Self.bytes(database)
    }

    private static func bytes(_ database: Database) throws -> Int64 {
        try database.integer(ServerSchema.readAccount, [.text(LedgerRules.allCallers)]) ?? 0
    }

    /// Recounts the bytes of all callers.
    static func recount(_ database: Database) throws {
        try database.execute(ServerSchema.clearAccounts)
        try database.prepare(ServerSchema.countAccounts).run([])
        try database.prepare(ServerSchema.countAllAccounts).run([.text(LedgerRules.allCallers)])
    }

    /// Creates the tables of the ledger, or upgrades them.
    static func prepare(_ database: Database) throws {
        try database.execute(ServerSchema.ledger)
        if try database.integer(ServerSchema.hasLedgerBytes) == 0 {
            try database.execute(ServerSchema.addLedgerBytes)
            try database.prepare(ServerSchema.fillLedgerBytes).run([.integer(Int64(entryBytes))])
            try database.execute("DROP TABLE IF EXISTS \"tideline_ledger_callers\"")
        }
        try database.execute(ServerSchema.ledgerAccounts)
        let hasAll = try database.integer(
            ServerSchema.hasAccount,
            [.text(LedgerRules.allCallers)]
        )
        let isEmpty = try database.integer(ServerSchema.ledgerEnd) == nil
        if hasAll == 0 || isEmpty { try recount(database) }
    }

    // MARK: - Age

    /// Removes some of the oldest entries that have expired or exceed the limit in bytes.
    ///
    /// - Returns: The number of entries; if it is `count`, there may be more.
    func purge(atMost count: Int, time: RemovalTime) throws -> Int {
        // A horizon in the future would reject every write until then.
        if time.isProven {
            for sql in [ServerSchema.lowerLedgerHorizon, ServerSchema.lowerLedgerHorizons] {
                try database.prepare(sql).run([.integer(time.now + RepeatKey.aheadMax)])
            }
        }
        let trimmed = try trim(atMost: count)
        guard trimmed < count,
            let oldest = time.end(days: limits.ledgerDays).map({ $0 - Self.margin })
        else { return trimmed }
        let place = try ReceiptTimes.place(ClockAhead.ledgerKey, oldest, database)
        let statement = try database.prepare(ServerSchema.oldestOfLedger)
        defer { statement.reset() }
        try statement.bind([.integer(Int64(count - trimmed))])
        var last: Int64?
        var found = 0
        while try statement.step() {
            let entry = statement.integer(0)
            let isOld = statement.integer(1) < oldest || place.map { entry <= $0 } ?? false
            guard isOld else { break }
            last = entry
            found += 1
        }
        statement.reset()
        try database.prepare(ServerSchema.dropAccounts).run([.integer(oldest)])
        guard let last else { return trimmed }
        // Entries of a wrong clock seem to be received later than they were.
        let latest = SQLValue.integer(time.now + RepeatKey.aheadMax)
        try database.prepare(ServerSchema.raiseLedgerHorizon).run([.integer(last), latest])
        try database.prepare(ServerSchema.creditOld).run([.integer(last)])
        try database.prepare(ServerSchema.creditAllOld).run([
            .integer(last), .text(LedgerRules.allCallers),
        ])
        try database.prepare(ServerSchema.dropLedger).run([.integer(last)])
        return trimmed + found
    }

    // MARK: - Size

    /// The number of oldest and of newest entries that are read to estimate the total.
    private static let sample: Int64 = 500

    /// Returns the bytes and the number of the entries.
    ///
    /// If there are many entries, the result is estimated from the oldest and newest ones, because counting
    /// would delay writes.
    static func measure(_ database: Database) throws -> (bytes: Int64, entries: Int64) {
        func total(_ sql: String) throws -> (count: Int64, bytes: Int64) {
            let statement = try database.prepare(sql)
            defer { statement.reset() }
            try statement.bind([.integer(sample)])
            guard try statement.step() else { return (0, 0) }
            return (statement.integer(0), statement.integer(1))
        }
        let old = try total(ServerSchema.sampleLedger("ASC"))
        let bytes = try bytes(database)
        guard old.count == sample else { return (bytes, old.count) }
        let young = try total(ServerSchema.sampleLedger("DESC"))
        let sampled = max(1, old.bytes + young.bytes)
        return (bytes, Int64(Double(bytes) * Double(2 * sample) / Double(sampled)))
    }

    // MARK: - Columns

    private static func caller(_ key: RepeatKey) -> String { key.caller.map { "=" + $0 } ?? "" }

    private static func state(_ statement: Statement) -> RowState {
        RowState(
            version: statement.integer(3),
            updatedAt: statement.integer(4),
            isDeleted: statement.integer(5) != 0
        )
    }

    private static func outcome(_ statement: Statement) -> WriteOutcome {
        var row: StoredRow?
        if !statement.isNull(6) {
            row = StoredRow(json: Array(statement.utf8(6)), state: state(statement))
        }
        return LedgerRules.outcome(
            statement.text(1),
            isDeleted: statement.isNull(5) || statement.integer(5) != 0,
            row: row,
            repeatedID: statement.text(2)
        )
    }
}

extension ServerSchema {
    /// Creates the table of the outcomes of writes with an idempotency key.
    ///
    /// `received` is when the write was received, or first sent if that is later, so that no removed entry was
    /// first sent after the horizon.
    static let ledger = """
        CREATE TABLE IF NOT EXISTS "tideline_ledger" (
            "place"     INTEGER NOT NULL PRIMARY KEY,
            "request"   TEXT    NOT NULL,
            "caller"    TEXT    NOT NULL,
            "received"  INTEGER NOT NULL,
            "digest"    BLOB    NOT NULL,
            "outcome"   TEXT    NOT NULL,
            "id"        TEXT    NOT NULL,
            "version"   INTEGER,
            "updatedAt" INTEGER,
            "deleted"   INTEGER,
            "row"       TEXT,
            "bytes"     INTEGER NOT NULL DEFAULT 0,
            UNIQUE ("request", "caller")
        ) STRICT
        """

    static let readLedger = """
        SELECT "digest", "outcome", "id", "version", "updatedAt", "deleted", "row"
        FROM "tideline_ledger" WHERE "request" = ?1 AND "caller" = ?2
        """

    static let putLedger = """
        INSERT INTO "tideline_ledger" (
            "place", "request", "caller", "received", "digest", "outcome", "id", "version",
            "updatedAt", "deleted", "row", "bytes"
        ) VALUES (
            (SELECT ifnull(max("place"), 0) FROM "tideline_ledger") + ?1,
            ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?1
        )
        """

    static let ledgerEnd = """
        SELECT max("place") FROM "tideline_ledger"
        """

    static let lowerLedgerHorizon = """
        UPDATE "tideline_state" SET "value" = ?1
        WHERE "key" = 'ledgerHorizon' AND CAST("value" AS INTEGER) > ?1
        """

    static let lowerLedgerHorizons = """
        UPDATE "tideline_ledger_callers" SET "horizon" = ?1 WHERE "horizon" > ?1
        """

    /// Returns the number of entries at one end of the ledger, and their bytes.
    static func sampleLedger(_ order: StaticString) -> String {
        """
        SELECT count(*), ifnull(sum("bytes"), 0) FROM (
            SELECT "bytes" FROM "tideline_ledger" ORDER BY "place" \(order) LIMIT ?1
        )
        """
    }

    static let oldestOfLedger = """
        SELECT "place", "received" FROM "tideline_ledger" ORDER BY "place" LIMIT ?1
        """

    static let dropLedger = """
        DELETE FROM "tideline_ledger" WHERE "place" <= ?1
        """

    static let dropEntry = """
        DELETE FROM "tideline_ledger" WHERE "place" = ?1
        """

    /// Reads the latest `received` of the removed entries of a caller; null if none was removed.
    static let readLedgerHorizon = """
        SELECT max("value") FROM (
            SELECT CAST("value" AS INTEGER) AS "value" FROM "tideline_state"
            WHERE "key" = 'ledgerHorizon'
            UNION ALL
            SELECT "horizon" FROM "tideline_ledger_callers" WHERE "caller" = ?1 AND "horizon" > 0
        )
        """

    /// Reads the latest `received` of all removed entries, for a target without accounts; null if none was
    /// removed.
    static let latestLedgerHorizon = """
        SELECT max("value") FROM (
            SELECT CAST("value" AS INTEGER) AS "value" FROM "tideline_state"
            WHERE "key" = 'ledgerHorizon'
            UNION ALL
            SELECT "horizon" FROM "tideline_ledger_callers" WHERE "horizon" > 0
        )
        """

    /// Raises the horizon of all callers for the entries up to a position, but not beyond a time.
    static let raiseLedgerHorizon = """
        INSERT INTO "tideline_state" ("key", "value")
        SELECT 'ledgerHorizon', min(max("received"), ?2) FROM "tideline_ledger" WHERE "place" <= ?1
        HAVING count(*) > 0
        ON CONFLICT ("key") DO UPDATE
        SET "value" = max(CAST("value" AS INTEGER), CAST(excluded."value" AS INTEGER))
        """

    // MARK: - Accounts of the ledger

    static let hasLedgerBytes = """
        SELECT count(*) FROM pragma_table_info('tideline_ledger') WHERE "name" = 'bytes'
        """

    static let addLedgerBytes = """
        ALTER TABLE "tideline_ledger" ADD COLUMN "bytes" INTEGER NOT NULL DEFAULT 0
        """

    static let fillLedgerBytes = """
        UPDATE "tideline_ledger" SET "bytes" = ?1 + ifnull(length(CAST("row" AS BLOB)), 0)
        """

    /// Creates the table with the bytes of each caller's entries, and the horizon of the removed ones.
    static let ledgerAccounts = """
        CREATE TABLE IF NOT EXISTS "tideline_ledger_callers" (
            "caller"  TEXT    NOT NULL PRIMARY KEY,
            "bytes"   INTEGER NOT NULL,
            "horizon" INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS "tideline_ledger_callers_bytes"
        ON "tideline_ledger_callers" ("bytes");
        CREATE INDEX IF NOT EXISTS "tideline_ledger_caller"
        ON "tideline_ledger" ("caller", "received", "place")
        """

    static let chargeLedger = """
        INSERT INTO "tideline_ledger_callers" ("caller", "bytes", "horizon") VALUES (?1, ?2, ?3)
        ON CONFLICT ("caller") DO UPDATE SET
            "bytes" = max(0, "bytes" + excluded."bytes"),
            "horizon" = max("horizon", excluded."horizon")
        """

    static let readAccount = """
        SELECT "bytes" FROM "tideline_ledger_callers" WHERE "caller" = ?1
        """

    static let hasAccount = """
        SELECT count(*) FROM "tideline_ledger_callers" WHERE "caller" = ?1
        """

    static let heaviestOfLedger = """
        SELECT "caller", "bytes" FROM "tideline_ledger_callers"
        WHERE "caller" <> '\(LedgerRules.allCallers)' ORDER BY "bytes" DESC LIMIT 2
        """

    static let oldestOfCaller = """
        SELECT "place", "received", "bytes" FROM "tideline_ledger" WHERE "caller" = ?1
        ORDER BY "received", "place" LIMIT ?2
        """

    static let clearAccounts = """
        UPDATE "tideline_ledger_callers" SET "bytes" = 0
        """

    static let countAccounts = """
        INSERT INTO "tideline_ledger_callers" ("caller", "bytes")
        SELECT "caller", sum("bytes") FROM "tideline_ledger" WHERE true GROUP BY "caller"
        ON CONFLICT ("caller") DO UPDATE SET "bytes" = excluded."bytes"
        """

    static let countAllAccounts = """
        INSERT INTO "tideline_ledger_callers" ("caller", "bytes")
        SELECT ?1, ifnull(sum("bytes"), 0) FROM "tideline_ledger" WHERE true
        ON CONFLICT ("caller") DO UPDATE SET "bytes" = excluded."bytes"
        """

    static let creditOld = """
        INSERT INTO "tideline_ledger_callers" ("caller", "bytes")
        SELECT "caller", -sum("bytes") FROM "tideline_ledger" WHERE "place" <= ?1 GROUP BY "caller"
        ON CONFLICT ("caller") DO UPDATE SET "bytes" = max(0, "bytes" + excluded."bytes")
        """

    static let creditAllOld = """
        UPDATE "tideline_ledger_callers" SET "bytes" = max(0, "bytes" - (
            SELECT ifnull(sum("bytes"), 0) FROM "tideline_ledger" WHERE "place" <= ?1
        )) WHERE "caller" = ?2
        """

    /// Removes the accounts of callers whose entries have all expired.
    static let dropAccounts = """
        DELETE FROM "tideline_ledger_callers" WHERE "caller" IN (
            SELECT "caller" FROM "tideline_ledger_callers"
            WHERE "bytes" <= 0 AND "caller" <> '\(LedgerRules.allCallers)' AND "horizon" < ?1
            LIMIT 200
        )
        """
}

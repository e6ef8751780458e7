// Ledger: the writes that came with a name, and what became of them; in the transaction of the write.
//
// An entry's key is where it ends, in bytes since the ledger began: so the oldest lie first, and how
// much is kept is the distance of the last to the first.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct Ledger {
    /// What an entry has beside its row.
    static let entryBytes = 200
    /// Entries live longer than First-Sent may be old: a repeat on its way is known still.
    private static let margin: Int64 = 86_400_000_000
    /// Younger entries are kept, however many there are: what is sent now was not dropped.
    private static let youngest: Int64 = 60_000_000

    let database: Database
    let limits: ServerLimits

    /// What the ledger says of a key.
    enum Lookup {
        case new
        /// It was done, and this came of it.
        case known(WriteOutcome)
        /// Another request had the name.
        case other
        /// It may have been dropped.
        case forgotten
        /// It says that it was first sent later than now.
        case ahead
    }

    func lookUp(_ key: RepeatKey, now: Int64) throws -> Lookup {
        let statement = try database.prepare(ServerSchema.readLedger)
        defer { statement.reset() }
        statement.bind(1, text: key.requestID)
        statement.bind(2, text: Self.caller(key))
        if try statement.step() {
            return statement.blob(0) == key.digest ? .known(Self.outcome(statement)) : .other
        }
        if key.isAhead(now: now) { return .ahead }
        let horizon = try database.integer(ServerSchema.readLedgerHorizon)
        let isForgotten = key.mayBeForgotten(now: now, days: limits.ledgerDays, horizon: horizon)
        return isForgotten ? .forgotten : .new
    }

    /// Keeps what became of a write.
    ///
    /// - Returns: How many bytes that are.
    func put(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        now: Int64
    ) throws -> Int {
        // The answer to a delete has no row.
        let row = operation.kind == .delete ? nil : outcome.row
        let statement = try database.prepare(ServerSchema.putLedger)
        let size = Self.entryBytes + (row?.json.count ?? 0)
        statement.bind(1, integer: Int64(size))
        statement.bind(2, text: key.requestID)
        statement.bind(3, text: Self.caller(key))
        statement.bind(4, integer: max(now, key.firstSent))
        statement.bind(5, .blob(Data(key.digest)))
        statement.bind(6, text: Self.word(outcome))
        statement.bind(7, text: operation.id)
        if let row {
            statement.bind(8, integer: row.state.version)
            statement.bind(9, integer: row.state.updatedAt)
            statement.bind(10, integer: row.state.isDeleted ? 1 : 0)
            row.json.withUnsafeBufferPointer { statement.bind(11, utf8: $0) }
        } else {
            for index in 8...11 { statement.bindNull(Int32(index)) }
        }
        try statement.run()
        return size
    }

    /// Drops some of the oldest entries that are too old or too many.
    ///
    /// At most `count` entries, and where there are too many for the bound in size, so many `bytes`
    /// beside: twice what came is enough to stay in bounds, however large the new entries are and
    /// however small the old. Those of the last minute stay, though the ledger grows beyond its bound:
    /// else what is sent now could be taken for forgotten.
    ///
    /// - Returns: How many entries went by `count`; when it is `count`, more may be left.
    func purge(atMost count: Int, bytes: Int = 0, now: Int64) throws -> Int {
        let oldest = now - Int64(limits.ledgerDays) * 86_400_000_000 - Self.margin
        guard let end = try database.integer(ServerSchema.ledgerEnd) else { return 0 }
        let boundary = end - Int64(limits.ledgerBytes)
        let young = now - Self.youngest
        let statement = try database.prepare(ServerSchema.oldestOfLedger)
        defer { statement.reset() }
        try statement.bind([.integer(Int64(count))])
        var first: Int64?
        var last: Int64?
        var found = 0
        while try statement.step() {
            let place = statement.integer(0)
            first = first ?? place
            let time = statement.integer(1)
            guard time < oldest || place <= boundary && time < young else { break }
            last = place
            found += 1
        }
        statement.reset()
        if bytes > 0, let first, first < boundary {
            let end = min(boundary, first + Int64(bytes))
            let kept = try database.integer(
                ServerSchema.firstOfLedger,
                [.integer(end), .integer(young)]
            )
            // Places are in bytes: no entry ends between two that follow each other.
            last = max(last ?? 0, kept.map { $0 - 1 } ?? end)
        }
        guard let last else { return 0 }
        try database.prepare(ServerSchema.raiseLedgerHorizon).run([.integer(last)])
        try database.prepare(ServerSchema.dropLedger).run([.integer(last)])
        return found
    }

    // MARK: - Size

    /// How many of the oldest and of the newest entries are looked at to tell how many there are.
    private static let sample: Int64 = 500

    /// Its bytes, which are a subtraction, and its entries: counted where they are few, and else told
    /// from the size of the oldest and the newest ones, as counting would hold up writes.
    static func measure(_ database: Database) throws -> (bytes: Int64, entries: Int64) {
        func look(_ sql: String) throws -> (count: Int64, first: Int64, last: Int64) {
            let statement = try database.prepare(sql)
            defer { statement.reset() }
            try statement.bind([.integer(sample)])
            guard try statement.step() else { return (0, 0, 0) }
            return (statement.integer(0), statement.integer(1), statement.integer(2))
        }
        let old = try look(ServerSchema.sampleLedger("ASC"))
        let young = try look(ServerSchema.sampleLedger("DESC"))
        let bytes = young.last - old.first
        guard old.count == sample else { return (bytes, old.count) }
        let sampled = (old.last - old.first) + (young.last - young.first)
        let pairs = 2 * (sample - 1)
        return (bytes, Int64(Double(bytes) * Double(pairs) / Double(max(1, sampled))) + 1)
    }

    // MARK: - Columns

    private static func caller(_ key: RepeatKey) -> String { key.caller.map { "=" + $0 } ?? "" }

    private static func word(_ outcome: WriteOutcome) -> String {
        switch outcome.decision {
        case .insert: "insert"
        case .remove: "remove"
        case .keepStored: "keepStored"
        default: outcome.isInPlaceOfDelete ? "inPlaceOfDelete" : "update"
        }
    }

    private static func outcome(_ statement: Statement) -> WriteOutcome {
        var row: StoredRow?
        if !statement.isNull(6) {
            row = StoredRow(
                json: Array(statement.utf8(6)),
                state: RowState(
                    version: statement.integer(3),
                    updatedAt: statement.integer(4),
                    isDeleted: statement.integer(5) != 0
                )
            )
        }
        let word = statement.text(1)
        let decision: WriteDecision =
            switch word {
            case "insert": .insert
            case "remove": .remove
            case "keepStored": .keepStored
            default: .update(deleted: row?.state.isDeleted ?? true)
            }
        var outcome = WriteOutcome(decision, row: row)
        outcome.isInPlaceOfDelete = word == "inPlaceOfDelete"
        outcome.repeatedID = statement.text(2)
        return outcome
    }
}

extension ServerSchema {
    /// What became of writes that came with a name.
    ///
    /// `received` is when it came, or was first sent where that is later: nothing that was dropped was
    /// first sent after the youngest of what was dropped.
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
            "updatedAt", "deleted", "row"
        ) VALUES (
            (SELECT ifnull(max("place"), 0) FROM "tideline_ledger") + ?1,
            ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
        )
        """

    static let ledgerEnd = """
        SELECT max("place") FROM "tideline_ledger"
        """

    /// How many entries there are at an end of the ledger, and from where to where they go.
    static func sampleLedger(_ order: StaticString) -> String {
        """
        SELECT count(*), ifnull(min("place"), 0), ifnull(max("place"), 0) FROM (
            SELECT "place" FROM "tideline_ledger" ORDER BY "place" \(order) LIMIT ?1
        )
        """
    }

    static let oldestOfLedger = """
        SELECT "place", "received" FROM "tideline_ledger" ORDER BY "place" LIMIT ?1
        """

    /// The oldest entry up to a place that is not older than a time.
    static let firstOfLedger = """
        SELECT min("place") FROM "tideline_ledger" WHERE "place" <= ?1 AND "received" >= ?2
        """

    static let dropLedger = """
        DELETE FROM "tideline_ledger" WHERE "place" <= ?1
        """

    /// When the youngest entry that was dropped had come, or was first sent where that is later.
    static let readLedgerHorizon = """
        SELECT CAST("value" AS INTEGER) FROM "tideline_state" WHERE "key" = 'ledgerHorizon'
        """

    /// Raises it for the entries up to a place.
    static let raiseLedgerHorizon = """
        INSERT INTO "tideline_state" ("key", "value")
        SELECT 'ledgerHorizon', max("received") FROM "tideline_ledger" WHERE "place" <= ?1
        HAVING count(*) > 0
        ON CONFLICT ("key") DO UPDATE
        SET "value" = max(CAST("value" AS INTEGER), CAST(excluded."value" AS INTEGER))
        """
}

// PostgresLedger: the writes with an idempotency key and their outcomes.
//
// A transaction reads the entries of all its keys first and writes its own last. If two servers execute the same
// request at once, their keys collide, and the later one restarts and finds the stored answer.

import Foundation
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The stored outcome of a write.
struct LedgerEntry: Sendable {
    let digest: [UInt8]
    private let word: String
    private let id: String
    private let row: StoredRow?
    /// The state of a row that is too large for the ledger and is read again for the replayed answer.
    let stateOfRow: RowState?

    /// The size of an entry without its row.
    static let entryBytes = LedgerRules.entryBytes

    /// The size of the entry in the ledger.
    var bytes: Int { Self.entryBytes + (row?.json.count ?? 0) }

    /// The outcome for a repeat of the same write.
    var outcome: WriteOutcome {
        LedgerRules.outcome(word, isDeleted: state?.isDeleted ?? true, row: row, repeatedID: id)
    }

    init(_ key: RepeatKey, _ operation: WriteOperation, _ outcome: WriteOutcome) {
        digest = key.digest
        id = operation.id
        // The answer to a delete has no row.
        let row = operation.kind == .delete ? nil : outcome.row
        let isRowStored = LedgerRules.storedRow(row, of: operation) != nil
        self.row = isRowStored ? row : nil
        stateOfRow = isRowStored ? nil : row?.state
        word = LedgerRules.word(outcome)
    }

    private var state: RowState? { row?.state ?? stateOfRow }

    // MARK: - In the database

    static let cells = """
        "request", "caller", "digest", "outcome", "id", "version", "updatedAt", "deleted", "row"
        """

    init(_ result: PostgresResult, _ place: Int) {
        digest = Array(result.bytes(place, 2))
        word = result.text(place, 3)
        id = result.text(place, 4)
        var state: RowState?
        if !result.isNull(place, 5) {
            state = RowState(
                version: result.integer(place, 5),
                updatedAt: result.integer(place, 6),
                isDeleted: result.boolean(place, 7)
            )
        }
        if let state, !result.isNull(place, 8) {
            row = StoredRow(json: Array(result.bytes(place, 8)), state: state)
            stateOfRow = nil
        } else {
            row = nil
            stateOfRow = state
        }
    }

    /// Writes entries.
    static func put(
        _ entries: [(key: LedgerKey, received: Int64, entry: LedgerEntry)]
    )
        -> PostgresStatement
    {
        func column(_ value: (LedgerEntry) -> SQLValue) -> PostgresParameter {
            .array(entries.map { value($0.entry) })
        }
        return PostgresStatement(
            """
            INSERT INTO tideline.ledger (
                "request", "caller", "received", "size", "digest", "outcome", "id", "version",
                "updatedAt", "deleted", "row"
            )
            SELECT * FROM unnest(
                $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[],
                $7::text[], $8::bigint[], $9::bigint[], $10::boolean[], $11::text[]
            )
            """,
            [
                .array(entries.map { .text($0.key.request) }),
                .array(entries.map { .text($0.key.caller) }),
                .array(entries.map { .integer($0.received) }),
                column { .integer(Int64($0.bytes)) },
                column { .blob(Data($0.digest)) }, column { .text($0.word) },
                column { .text($0.id) },
                column { $0.state.map { .integer($0.version) } ?? .null },
                column { $0.state.map { .integer($0.updatedAt) } ?? .null },
                column { $0.state.map { .text($0.isDeleted ? "t" : "f") } ?? .null },
                column { $0.row.map { .text(String(decoding: $0.json, as: UTF8.self)) } ?? .null },
            ]
        ).prepared
    }
}

/// An idempotency key in its stored form.
struct LedgerKey: Hashable, Sendable {
    let request: String
    let caller: String

    init(_ key: RepeatKey) {
        request = key.requestID
        caller = key.caller.map { "=" + $0 } ?? ""
    }

    init(_ result: PostgresResult, _ row: Int) {
        request = result.text(row, 0)
        caller = result.text(row, 1)
    }

    /// Reads the entries of these keys.
    static func read(_ keys: [LedgerKey]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT \(LedgerEntry.cells) FROM tideline.ledger
            WHERE ("request", "caller") IN (SELECT * FROM unnest($1::text[], $2::text[]))
            """,
            [
                .array(keys.map { .text($0.request) }), .array(keys.map { .text($0.caller) }),
            ]
        ).prepared
    }

    /// Updates entries to the values that they have.
    static func touch(_ keys: [LedgerKey]) -> PostgresStatement {
        PostgresStatement(
            """
            UPDATE tideline.ledger SET "size" = "size"
            WHERE ("request", "caller") IN (SELECT * FROM unnest($1::text[], $2::text[]))
            """,
            [
                .array(keys.map { .text($0.request) }), .array(keys.map { .text($0.caller) }),
            ]
        )
    }

    /// Reads, for each of the callers, when the youngest removed entry was received.
    static func readHorizons(_ callers: Set<String>) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT c.caller, greatest(
                (SELECT "value"::bigint FROM tideline.state WHERE "key" = 'ledgerHorizon'),
                (SELECT max("horizon") FROM tideline.ledger_callers AS a WHERE a."caller" = c.caller)
            )
            FROM unnest($1::text[]) AS c(caller)
            """,
            [.array(callers.sorted().map { .text($0) })]
        ).prepared
    }

    /// Returns the horizons by caller, for callers that have one.
    static func horizons(_ result: PostgresResult) -> [String: Int64] {
        var horizons: [String: Int64] = [:]
        for row in 0..<result.count where !result.isNull(row, 1) && result.integer(row, 1) > 0 {
            horizons[result.text(row, 0)] = result.integer(row, 1)
        }
        return horizons
    }
}

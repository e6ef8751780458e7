// MemoryLedger: the idempotency ledger of the in-memory backend.

import TidelineCore
import TidelineServerCore

/// The writes with an idempotency key, and their outcomes.
struct MemoryLedger: Sendable {
    /// A key by its bytes: two users may have ids that are equal as strings.
    private struct Key: Hashable, Sendable {
        let caller: [UInt8]?
        let requestID: [UInt8]

        init(_ key: RepeatKey) {
            caller = key.caller.map { Array($0.utf8) }
            requestID = Array(key.requestID.utf8)
        }
    }

    private struct Entry: Sendable {
        /// When the write was received, or first sent if that is later.
        var received: Int64
        var digest: [UInt8]
        var outcome: WriteOutcome
        /// The state of a row that the entry does not have.
        var stateOfRow: RowState?
        var bytes: Int
        /// The position among all entries that were added.
        var number: Int
    }

    private var entries: [Key: Entry] = [:]
    /// The latest time of a removed entry of each caller.
    private var horizons: [[UInt8]?: Int64] = [:]
    private(set) var bytes = 0
    private var added = 0

    /// How much longer an entry lives than the oldest accepted First-Sent, so that a delayed repeat is still known.
    private static let margin: Int64 = 86_400_000_000

    var count: Int { entries.count }

    func find(_ key: RepeatKey, at now: Int64, days: Int) -> LedgerFinding {
        let ledgerKey = Key(key)
        if let entry = entries[ledgerKey] {
            guard entry.digest == key.digest else { return .other }
            return .known(entry.outcome, stateOfRow: entry.stateOfRow)
        }
        if key.isAhead(now: now) { return .ahead }
        let horizon = horizons[ledgerKey.caller]
        return key.mayBeForgotten(now: now, days: days, horizon: horizon) ? .forgotten : .new
    }

    /// Adds the outcome of a write.
    mutating func put(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        at now: Int64
    ) {
        // The answer to a delete has no row.
        let row = operation.kind == .delete ? nil : outcome.row
        let json = LedgerRules.storedRow(row, of: operation)
        let known = LedgerRules.outcome(
            LedgerRules.word(outcome),
            isDeleted: row?.state.isDeleted ?? true,
            row: json == nil ? nil : row,
            repeatedID: operation.id
        )
        let entry = Entry(
            received: max(now, key.firstSent),
            digest: key.digest,
            outcome: known,
            stateOfRow: json == nil ? row?.state : nil,
            bytes: LedgerRules.entryBytes + (json?.count ?? 0),
            number: added
        )
        added += 1
        entries[Key(key)] = entry
        bytes += entry.bytes
    }

    /// Removes entries that have expired or exceed the limit in bytes; returns their number.
    mutating func purge(_ time: RemovalTime, _ limits: ServerLimits) -> Int {
        if time.isProven {
            // A horizon in the future would reject every write until then.
            horizons = horizons.mapValues { min($0, time.now + RepeatKey.aheadMax) }
        }
        let trimmed = trim(to: limits.ledgerBytes)
        guard let end = time.end(days: limits.ledgerDays) else { return trimmed }
        let old = entries.filter { $0.value.received < end - Self.margin }.keys
        for key in old { remove(key) }
        return trimmed + old.count
    }

    /// Removes the oldest entries of the callers with the most bytes, until the rest fits; returns their number.
    @discardableResult
    mutating func trim(to bytesMax: Int) -> Int {
        let before = entries.count
        while bytes > bytesMax, let caller = heaviestCaller,
            let oldest = entries.filter({ $0.key.caller == caller })
                .min(by: {
                    ($0.value.received, $0.value.number) < ($1.value.received, $1.value.number)
                })?.key
        {
            remove(oldest)
        }
        return before - entries.count
    }

    /// The caller with the most bytes; the inner nil is the caller without a token.
    private var heaviestCaller: [UInt8]?? {
        let accounts = entries.map { ($0.key.caller, $0.value.bytes) }
        return Dictionary(accounts, uniquingKeysWith: +).max { one, other in
            guard one.value == other.value else { return one.value < other.value }
            return (one.key ?? []).lexicographicallyPrecedes(other.key ?? [])
        }?.key
    }

    private mutating func remove(_ key: Key) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        bytes -= entry.bytes
        horizons[key.caller] = max(horizons[key.caller] ?? 0, entry.received)
    }
}

// ReplicaReads: pages from a replica, a copy of the database that PostgreSQL keeps and that may lag behind.
//
// Nobody is shown less than what was acknowledged before he asked: the clock of what he reads is looked up at the
// primary first, and the replica has to have come as far, in the same epoch. Where it has not, it is waited for, for
// moments; then the primary is read. So is whatever else a replica cannot answer: it is never a reason for a refusal.

import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// What a replica has to have for a page, and what it had.
final class ReplicaReach: Sendable {
    private let wanted: TableClock
    private let found = Mutex<TableClock?>(nil)

    init(_ wanted: TableClock) { self.wanted = wanted }

    /// How far the replica is beyond what was wanted; nil where it is not.
    var ahead: Int64? {
        found.withLock { found in found.flatMap { $0.stamp > wanted.stamp ? $0.stamp : nil } }
    }

    /// Why a statement failed for want of a table or a column; nil where it did not.
    func lack(_ error: PostgresError) -> ReplicaIsBehind? {
        ["42P01", "42703"].contains(error.state) ? ReplicaIsBehind(isOfAnotherEpoch: false) : nil
    }

    /// - Throws: ``ReplicaIsBehind``
    func check(_ clock: TableClock) throws {
        guard clock.epoch == wanted.epoch else { throw ReplicaIsBehind(isOfAnotherEpoch: true) }
        guard clock.stamp >= wanted.stamp else { throw ReplicaIsBehind(isOfAnotherEpoch: false) }
        found.withLock { $0 = clock }
    }
}

/// A replica does not have what was wanted.
struct ReplicaIsBehind: Error {
    /// It was not told yet that the database was restored, or is a copy of another one.
    let isOfAnotherEpoch: Bool
}

final class ReplicaReads: Sendable {
    /// Why it is left aside for now.
    private enum Reason: String {
        case behind = "it is behind"
        case otherEpoch = "it has another epoch: it is behind, or a copy of another database"
        case failed = "it does not answer"
    }

    private struct State {
        var reason: Reason?
        /// Until when it is not asked.
        var rest: UInt64 = 0
    }

    private let reads: PostgresReads
    private let stamps: ReportedStamps
    private let log: ServerLog
    private let metrics: StoreMetrics
    /// The same in all, where readers are busy.
    private static let patience: Duration = .milliseconds(150)
    /// For how long a replica is left aside that did not come so far meanwhile.
    private let rest: Duration
    private let state = Mutex(State())

    /// How long a page waits for what the replica does not have yet, in steps of milliseconds.
    private static let waits = [2, 4, 8, 16, 32, 64]
    /// What is left of the time of a query that has ended because of it, in nanoseconds.
    private static let lastMoment: UInt64 = 50_000_000

    init(_ reads: PostgresReads, _ stamps: ReportedStamps, _ options: PostgresTableStore.Options) {
        self.reads = reads
        self.stamps = stamps
        log = options.log
        metrics = options.metrics
        rest = options.replicaRest
    }

    /// Whether it may be asked now.
    var isUsable: Bool { state.withLock { Uptime.now() >= $0.rest } }

    /// A page that has all that a clock says.
    ///
    /// - Parameters:
    ///   - wanted: The clock at the primary.
    ///   - key: Whose it is.
    ///   - caller: Whose turn it takes.
    ///   - end: An uptime in nanoseconds.
    ///   - body: May run several times.
    /// - Returns: Nil where the primary has to be asked.
    /// - Throws: `CancellationError`, and what the page was refused with where the time of the query is over.
    func page<Page: Sendable>(
        _ wanted: TableClock,
        _ key: ClockKey,
        of caller: ReadCaller,
        until end: UInt64,
        _ body: @escaping @Sendable (PostgresRead) throws -> Page
    ) async throws -> Page? {
        var waits = Self.waits[...]
        let patience = Uptime.after(Self.patience)
        while true {
            let reach = ReplicaReach(wanted)
            do {
                let page = try await reads.run(of: caller, until: end, reach: reach, body)
                if let stamp = reach.ahead {
                    // What the replica shows and a promotion of another one loses must be noticed.
                    stamps.report([ClockStamp(key: key, stamp: stamp)])
                }
                metrics.replicaPages.add()
                use()
                return page
            } catch let error as CancellationError {
                throw error
            } catch  where Uptime.now() + Self.lastMoment > end {
                // The primary has no time for it either.
                throw error
            } catch {
                guard let reason = Self.lack(error) else {
                    metrics.replicaFailures.add()
                    leave(.failed)
                    return nil
                }
                guard let wait = waits.popFirst(), Uptime.now() < patience else {
                    metrics.replicaBehind.add()
                    leave(reason)
                    return nil
                }
                try await Uptime.pass(milliseconds: wait)
            }
        }
    }

    /// What it lacks by now; nil for what no waiting mends.
    private static func lack(_ error: any Error) -> Reason? {
        if let error = error as? ReplicaIsBehind {
            return error.isOfAnotherEpoch ? .otherEpoch : .behind
        }
        return error is OutdatedTable ? .behind : nil
    }

    /// Ends when the reads have ended that were queued already.
    func stop() async { await reads.stop() }

    private func use() {
        let wasAside = state.withLock { state in
            defer { state = State() }
            return state.reason != nil
        }
        if wasAside { log.write(.info, "the replica is read again") }
    }

    private func leave(_ reason: Reason) {
        let before = state.withLock { state in
            defer { state = State(reason: reason, rest: Uptime.after(rest)) }
            return state.reason
        }
        guard before != reason else { return }
        log.write(
            .warning,
            "the primary is read in place of the replica",
            ["cause": reason.rawValue]
        )
    }
}

extension PostgresTable {
    /// Whether one clock tells all that a reader may see.
    func hasOneClock(for owner: ClockOwner) -> Bool {
        !hasOwnerClocks || clockKey(of: owner).owner != nil
    }
}

// ReplicaReads: pages from a replica, a copy of the database that PostgreSQL keeps and that may lag behind.
//
// A caller never sees less than was acknowledged before the request: the clock of the read is looked up at the
// primary first, and the replica must have reached it, in the same epoch. If it has not, the read waits for it
// briefly and then uses the primary. The primary also answers everything else that a replica cannot answer: a
// replica is never a reason for a rejection.

import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The position that a replica must have for a page, and its actual position.
final class ReplicaReach: Sendable {
    private let wanted: TableClock
    private let found = Mutex<TableClock?>(nil)

    init(_ wanted: TableClock) { self.wanted = wanted }

    /// How far the replica is beyond the wanted position; nil if it is not.
    var ahead: Int64? {
        found.withLock { found in found.flatMap { $0.stamp > wanted.stamp ? $0.stamp : nil } }
    }

    /// Returns the meaning of a failure because of a missing table or column; nil for another failure.
    func isBehind(_ error: PostgresError) -> ReplicaIsBehind? {
        ["42P01", "42703"].contains(error.state) ? ReplicaIsBehind(isOfAnotherEpoch: false) : nil
    }

    /// - Throws: ``ReplicaIsBehind``
    func check(_ clock: TableClock) throws {
        // It may not have the table yet.
        guard clock.epoch != nil else { throw ReplicaIsBehind(isOfAnotherEpoch: false) }
        guard clock.epoch == wanted.epoch else { throw ReplicaIsBehind(isOfAnotherEpoch: true) }
        guard clock.stamp >= wanted.stamp else { throw ReplicaIsBehind(isOfAnotherEpoch: false) }
        found.withLock { $0 = clock }
    }
}

/// The error of a replica that lacks the wanted commits.
struct ReplicaIsBehind: Error {
    /// It was not told yet that the database was restored, or is a copy of another one.
    let isOfAnotherEpoch: Bool
}

/// A replica has not answered in its time.
private struct ReplicaStandsStill: Error {}

/// The first of several answers.
private final class FirstAnswer<Value: Sendable>: Sendable {
    private struct State {
        var answer: Result<Value, any Error>?
        var waiting: CheckedContinuation<Value, any Error>?
    }

    private let state = Mutex(State())

    func take(_ answer: Result<Value, any Error>) {
        let waiting = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            guard state.answer == nil else { return nil }
            state.answer = answer
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume(with: answer)
    }

    /// To be asked once.
    func answer() async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let answer = state.withLock { state in
                if state.answer == nil { state.waiting = continuation }
                return state.answer
            }
            if let answer { continuation.resume(with: answer) }
        }
    }
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
    /// How long a page waits in all for commits that the replica does not have yet.
    private let patience: Duration
    /// For how long a replica is left aside that did not come so far meanwhile.
    private let rest: Duration
    private let state = Mutex(State())

    /// How long a page waits from look to look, in milliseconds.
    private static let waitMin = 2
    private static let waitMax = 64
    /// How long, in nanoseconds, a query may miss its time limit and its answer may be late.
    private static let lastMoment: UInt64 = 100_000_000
    /// How long other readers avoid it while one tries it.
    private static let trialTime: Duration = .seconds(5)

    init(_ reads: PostgresReads, _ stamps: ReportedStamps, _ options: PostgresTableStore.Options) {
        self.reads = reads
        self.stamps = stamps
        log = options.log
        metrics = options.metrics
        rest = options.replicaRest
        patience = options.replicaPatience
    }

    /// Whether it may be asked now: after its rest, one reader at a time tries it.
    var isUsable: Bool {
        state.withLock { state in
            guard state.reason != nil else { return true }
            guard Uptime.now() >= state.rest else { return false }
            state.rest = Uptime.after(Self.trialTime)
            return true
        }
    }

    /// A page that has all that a clock says.
    ///
    /// - Parameters:
    ///   - wanted: The clock at the primary.
    ///   - name: The name of the clock.
    ///   - caller: Whose turn it takes.
    ///   - end: An uptime in nanoseconds.
    ///   - body: May run several times.
    /// - Returns: Nil if the primary has to be asked.
    /// - Throws: `CancellationError`.
    func page<Page: Sendable>(
        _ wanted: TableClock,
        _ name: String,
        of caller: ReadCaller,
        until end: UInt64,
        _ body: @escaping @Sendable (PostgresRead) throws -> Page
    ) async throws -> Page? {
        var wait = Self.waitMin
        let patience = Uptime.after(patience)
        // The rest of the time is for the primary.
        let half = Uptime.half(until: end)
        while true {
            let reach = ReplicaReach(wanted)
            do {
                let page = try await read(of: caller, until: half, reach, body)
                if let stamp = reach.ahead {
                    // Commits that this replica shows and that a promotion of another one loses must be noticed.
                    stamps.report([TableStamp(table: name, stamp: stamp)])
                }
                metrics.replicaPages.add()
                use()
                return page
            } catch let error as CancellationError {
                throw error
            } catch let error where Self.lack(error) != nil {
                guard Uptime.now() < patience else {
                    metrics.replicaBehind.add()
                    leave(Self.lack(error) ?? .behind)
                    return nil
                }
                try await Uptime.pass(milliseconds: wait)
                wait = min(2 * wait, Self.waitMax)
            } catch is ServerError where Uptime.now() + Self.lastMoment > half {
                // It answers, and the query is long.
                use()
                return nil
            } catch {
                metrics.replicaFailures.add()
                leave(.failed)
                return nil
            }
        }
    }

    /// Runs a read that is given up a moment after its end, whatever the replica does: a stalled replica stops nothing.
    private func read<Page: Sendable>(
        of caller: ReadCaller,
        until end: UInt64,
        _ reach: ReplicaReach,
        _ body: @escaping @Sendable (PostgresRead) throws -> Page
    ) async throws -> Page {
        let first = FirstAnswer<Page>()
        let reading = Task { [reads] in
            do {
                let page = try await reads.run(of: caller, until: end, reach: reach, body)
                first.take(.success(page))
            } catch {
                first.take(.failure(error))
            }
        }
        let giving = Task {
            try await Uptime.pass(until: end, Self.lastMoment)
            first.take(.failure(ReplicaStandsStill()))
            reading.cancel()
        }
        defer { giving.cancel() }
        return try await withTaskCancellationHandler {
            try await first.answer()
        } onCancel: {
            reading.cancel()
            first.take(.failure(CancellationError()))
        }
    }

    /// Returns why the replica is not ready yet; nil for errors that waiting does not fix.
    private static func lack(_ error: any Error) -> Reason? {
        if let error = error as? ReplicaIsBehind {
            return error.isOfAnotherEpoch ? .otherEpoch : .behind
        }
        return error is OutdatedTable ? .behind : nil
    }

    /// Closes its connections without waiting for them: one may be stalled.
    func stop() { Task { [reads] in await reads.stop() } }

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

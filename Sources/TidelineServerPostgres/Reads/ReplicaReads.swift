// ReplicaReads: when a replica is used.
//
// A caller never sees less than was acknowledged before the request: the clock of the table is first read at the
// primary, and the replica must have reached it, in the same epoch. If it has not, the read waits briefly and then
// uses the primary. The primary also answers everything else that a replica cannot answer: a replica never causes a
// rejection.

import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The table clock that a replica must have reached to serve a page, and the clock that it has.
final class ReplicaReach: Sendable {
    private let wanted: TableClock
    private let found = Mutex<TableClock?>(nil)

    init(_ wanted: TableClock) { self.wanted = wanted }

    /// The timestamp of the replica if it is later than the wanted one; otherwise nil.
    var ahead: Int64? {
        found.withLock { found in
            found.flatMap { $0.timestamp > wanted.timestamp ? $0.timestamp : nil }
        }
    }

    /// Converts a failure because of a missing table or column; nil for another failure.
    func isBehind(_ error: PostgresError) -> ReplicaIsBehind? {
        ["42P01", "42703"].contains(error.state) ? ReplicaIsBehind(isOfAnotherEpoch: false) : nil
    }

    /// - Throws: ``ReplicaIsBehind``.
    func check(_ clock: TableClock) throws {
        // The replica may not have the table yet.
        guard clock.epoch != nil else { throw ReplicaIsBehind(isOfAnotherEpoch: false) }
        guard clock.epoch == wanted.epoch else { throw ReplicaIsBehind(isOfAnotherEpoch: true) }
        guard clock.timestamp >= wanted.timestamp else {
            throw ReplicaIsBehind(isOfAnotherEpoch: false)
        }
        found.withLock { $0 = clock }
    }
}

/// The error of a replica that lacks the wanted commits.
struct ReplicaIsBehind: Error {
    /// Whether the replica does not know of a restore yet, or belongs to another database.
    let isOfAnotherEpoch: Bool
}

/// The error of a replica that does not answer within its time limit.
private struct ReplicaStandsStill: Error {}

/// The first of several answers to a read, for one waiting task.
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

    /// Returns the first answer; may be called only once.
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

/// A reader of pages from a replica of the database, which may lag behind.
final class ReplicaReads: Sendable {
    /// The reason why the replica is not used.
    private enum Reason: String {
        case behind = "it is behind"
        case otherEpoch = "its epoch differs: it is behind, or a copy of another database"
        case failed = "it does not respond"
    }

    private struct State {
        var reason: Reason?
        /// The uptime until which the replica is not used.
        var rest: UInt64 = 0
    }

    private let reads: PostgresReads
    private let timestamps: ReportedTimestamps
    private let log: ServerLog
    private let metrics: StoreMetrics
    /// The maximum time that a page waits for commits that the replica does not have yet.
    private let patience: Duration
    /// The time for which a replica is not used after it exceeded `patience`.
    private let rest: Duration
    private let state = Mutex(State())

    /// The pause between two checks of the replica, in milliseconds.
    private static let waitMin = 2
    private static let waitMax = 64
    /// The time in nanoseconds by which a query's answer may arrive after its time limit.
    private static let lastMoment: UInt64 = 100_000_000
    /// The time for which other readers avoid the replica while one tries it.
    private static let trialTime: Duration = .seconds(5)

    init(
        _ reads: PostgresReads,
        _ timestamps: ReportedTimestamps,
        _ options: PostgresTableStore.Options
    ) {
        self.reads = reads
        self.timestamps = timestamps
        log = options.log
        metrics = options.metrics
        rest = options.replicaRest
        patience = options.replicaPatience
    }

    /// Whether the replica may be used; after its rest, one reader at a time tries it.
    var isUsable: Bool {
        state.withLock { state in
            guard state.reason != nil else { return true }
            guard Uptime.now() >= state.rest else { return false }
            state.rest = Uptime.after(Self.trialTime)
            return true
        }
    }

    /// Returns a page that includes all commits up to a clock.
    ///
    /// - Parameters:
    ///   - wanted: The clock at the primary.
    ///   - name: The name of the clock.
    ///   - caller: The caller for which the read takes its turn.
    ///   - end: An uptime in nanoseconds.
    ///   - body: The read, which may run several times.
    /// - Returns: Nil if the primary must be used.
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
        // The rest of the time is reserved for the primary.
        let half = Uptime.half(until: end)
        while true {
            let reach = ReplicaReach(wanted)
            do {
                let page = try await read(of: caller, until: half, reach, body)
                if let timestamp = reach.ahead {
                    // This replica may show commits that are lost if another replica is promoted; such a loss must be
                    // noticed.
                    timestamps.report([TableTimestamp(table: name, timestamp: timestamp)])
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
                // The replica answers, but the query is long.
                use()
                return nil
            } catch {
                metrics.replicaFailures.add()
                leave(.failed)
                return nil
            }
        }
    }

    /// Performs a read that is abandoned shortly after its time limit, so that a stalled replica does not block the
    /// caller.
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

    /// Closes its connections without waiting for them, because one may be stalled.
    func stop() { Task { [reads] in await reads.stop() } }

    private func use() {
        let wasAside = state.withLock { state in
            defer { state = State() }
            return state.reason != nil
        }
        if wasAside { log.write(.info, "reads use the replica again") }
    }

    private func leave(_ reason: Reason) {
        let before = state.withLock { state in
            defer { state = State(reason: reason, rest: Uptime.after(rest)) }
            return state.reason
        }
        guard before != reason else { return }
        log.write(
            .warning,
            "reads use the primary instead of the replica",
            ["cause": reason.rawValue]
        )
    }
}

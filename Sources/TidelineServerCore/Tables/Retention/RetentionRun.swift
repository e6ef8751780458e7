// RetentionRun: runs the steps of the purge on any database; while its clock is doubted, nothing is removed by age.

import Synchronization

/// The steps of the purge, as a backend runs them.
package protocol RetentionSteps: Sendable {
    associatedtype Connection

    /// Returns the wall clock, and the time record of the database.
    func readTime(_ connection: Connection) throws -> (wall: Int64, memory: TrustedTime.Memory?)

    func store(_ memory: TrustedTime.Memory, _ connection: Connection) throws

    /// Returns the clocks of all tables.
    func timestamps(_ connection: Connection) throws -> [TableTimestamp]

    /// Removes some of the rows or entries of a step; without `time`, none that expire because of their age.
    func run(
        _ step: PurgeStep,
        of round: PurgeRound,
        _ connection: Connection,
        time: RemovalTime?
    ) throws -> RemovedData
}

/// The amount that a step of the purge removed.
package struct RemovedData: Sendable {
    /// The number of rows or entries; if it is `PurgeSchedule.rowsMax`, there may be more.
    package var count: Int
    /// The size of the ledger, if the step read it.
    package var ledgerBytes: Int?
    package var ledgerEntries: Int?

    package init(_ count: Int) { self.count = count }
}

/// A runner of the purge on a writer's thread.
///
/// It counts the removed rows, and reports when the wall clock becomes implausible and when it is trusted
/// again.
package final class RetentionRun<Steps: RetentionSteps>: Sendable {
    private struct State {
        var time = TrustedTime()
        var isDoubting = false
    }

    private let steps: Steps
    private let state = Mutex(State())
    /// A monotonic clock, in microseconds.
    private let steady: @Sendable () -> Int64
    private let log: ServerLog
    private let metrics: StoreMetrics

    package init(
        _ steps: Steps,
        steady: @escaping @Sendable () -> Int64,
        log: ServerLog,
        metrics: StoreMetrics
    ) {
        self.steps = steps
        self.steady = steady
        self.log = log
        self.metrics = metrics
    }

    /// Reads the clocks before this process has written anything.
    ///
    /// `newest` is the newest commit timestamp in the database.
    package func begin(_ newest: Int64?, _ connection: Steps.Connection) throws {
        let (reading, memory) = try readTime(connection)
        _ = try removalTime(reading, memory, newest, connection)
        ClockAhead.report(try steps.timestamps(connection), now: reading.wall, to: log, metrics)
    }

    /// Runs a step; returns the number of removed rows.
    func run(
        _ step: PurgeStep,
        of round: PurgeRound,
        _ connection: Steps.Connection
    ) throws -> Int {
        let (reading, memory) = try readTime(connection)
        if step == .clocks {
            let ahead = try steps.timestamps(connection).map {
                ClockAhead.seconds($0.timestamp, now: reading.wall)
            }
            metrics.clockAhead.set(Int(clamping: ahead.max() ?? 0))
        }
        let time = try removalTime(reading, memory, nil, connection)
        let removed = try steps.run(step, of: round, connection, time: time)
        metrics.purged(step, removed.count)
        if let bytes = removed.ledgerBytes { metrics.ledgerBytes.set(bytes) }
        if let entries = removed.ledgerEntries { metrics.ledgerEntries.set(entries) }
        return removed.count
    }

    /// Reads both clocks and the time record of the database.
    private func readTime(
        _ connection: Steps.Connection
    ) throws -> (TrustedTime.Reading, TrustedTime.Memory?) {
        let (wall, memory) = try steps.readTime(connection)
        return (TrustedTime.Reading(wall: wall, steady: steady()), memory)
    }

    /// Returns the time that determines which rows have expired; nil if the wall clock is doubted.
    private func removalTime(
        _ reading: TrustedTime.Reading,
        _ memory: TrustedTime.Memory?,
        _ newest: Int64?,
        _ connection: Steps.Connection
    ) throws -> RemovalTime? {
        try state.withLock { state in
            switch state.time.take(reading, memory: memory, newest: newest) {
            case .trusted(let time, let memory):
                if let memory { try steps.store(memory, connection) }
                if state.isDoubting {
                    log.write(.warning, "the wall clock is trusted again; expired rows are removed")
                }
                state.isDoubting = false
                metrics.clockDoubted.set(0)
                return time
            case .doubted(let ahead, let memory):
                if let memory { try steps.store(memory, connection) }
                if !state.isDoubting {
                    log.write(
                        .warning,
                        """
                        the wall clock is not trusted; expired rows are not removed until it is right or has run \
                        steadily for an hour
                        """,
                        ["aheadSeconds": "\(ahead / 1_000_000)"]
                    )
                }
                state.isDoubting = true
                metrics.clockDoubted.set(1)
                return nil
            }
        }
    }
}

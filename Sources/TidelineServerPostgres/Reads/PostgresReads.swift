// PostgresReads: each read has a time limit, and ends when its caller disconnects.

import Synchronization
import TidelinePostgres
import TidelineServerCore

/// A runner of reads on the connections to one PostgreSQL server.
struct PostgresReads: Sendable {
    private let threads: PostgresThreads

    /// The maximum number of reads that wait.
    private static let queueMax = 10_000

    init(
        _ address: PostgresAddress,
        _ keeping: StatementKeeping,
        _ options: PostgresTableStore.Options
    ) {
        threads = PostgresThreads(
            address,
            count: max(2, options.readers),
            queueMax: Self.queueMax,
            keeping: keeping,
            log: options.log,
            metrics: options.metrics
        )
    }

    /// Performs a read until `end` at the latest, including the wait for a connection.
    ///
    /// - Parameters:
    ///   - caller: The caller for which the read takes its turn.
    ///   - table: The table of the read; nil if its schema version does not matter.
    ///   - end: An uptime in nanoseconds.
    ///   - reach: The state that the database must have reached, if it is a replica.
    ///   - body: The read, which may run twice if the connection breaks.
    /// - Returns: The result of `body`.
    /// - Throws: The errors of `body`, with ``ServerError`` instead of ``PostgresError``.
    func run<Result: Sendable>(
        of caller: ReadCaller = .unknown,
        in table: PostgresTable? = nil,
        until end: UInt64,
        reach: ReplicaReach? = nil,
        _ body: @escaping @Sendable (PostgresRead) throws -> Result
    ) async throws -> Result {
        let ticket = QueryTicket()
        let clock = ReadEnd(end)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { answer in
                let job = PostgresThreads.Job(
                    perform: { connection, isLastTry in
                        let end = clock.end
                        guard Uptime.now() < end else {
                            answer.resume(throwing: ServerError.queryTooSlow)
                            return true
                        }
                        guard ticket.begin(connection.cancellation) else {
                            answer.resume(throwing: CancellationError())
                            return true
                        }
                        let read = PostgresRead(
                            connection: connection,
                            ticket: ticket,
                            end: end,
                            reach: reach
                        )
                        let result = Swift.Result { try body(read) }
                        ticket.end()
                        if case .failure = result, ticket.isInterrupted, !ticket.isCancelled,
                            !isLastTry
                        {
                            return false
                        }
                        if case .failure(let error as PostgresError) = result {
                            let lack = reach?.isBehind(error)
                            let outdated = table.flatMap { $0.outdated(error, connection) }
                            let rejection =
                                lack ?? outdated ?? Self.rejection(error, connection, ticket, end)
                            if let rejection {
                                answer.resume(throwing: rejection)
                            } else if isLastTry {
                                answer.resume(throwing: ServerError.databaseAway)
                            } else {
                                return false
                            }
                        } else {
                            answer.resume(with: result)
                        }
                        return true
                    },
                    reject: { answer.resume(throwing: $0) },
                    interrupt: { ticket.interrupt() },
                    giveTime: { clock.give($0) }
                )
                threads.submit(job, of: caller)
            }
        } onCancel: {
            ticket.cancel()
        }
    }

    /// Stops after the queued reads have ended.
    func stop() async { await threads.stop() }

    /// Returns the rejection of a read that failed; nil if it may be retried.
    private static func rejection(
        _ error: PostgresError,
        _ connection: PostgresConnection,
        _ ticket: QueryTicket,
        _ end: UInt64
    ) -> (any Error)? {
        if ticket.isCancelled { return CancellationError() }
        if error.isConnectionLost || connection.isBroken || connection.fault != nil { return nil }
        guard error.isCanceled else { return PostgresRejection.ofRead(error) }
        // A cancellation near its end was the time limit; an earlier one was meant for the previous read.
        let margin: UInt64 = 50_000_000
        return Uptime.now() + margin > end
            ? ServerError.queryTooExpensive : nil
    }
}

/// The uptime in nanoseconds at which a read has to end.
private final class ReadEnd: Sendable {
    private let nanoseconds: Atomic<UInt64>

    init(_ end: UInt64) { nanoseconds = Atomic(end) }

    var end: UInt64 { nanoseconds.load(ordering: .relaxed) }

    /// Extends the end by the time of an attempt that was discarded.
    func give(_ lost: UInt64) {
        let end = end
        let sum = end.addingReportingOverflow(lost)
        nanoseconds.store(sum.overflow ? .max : sum.partialValue, ordering: .relaxed)
    }
}

// WriterQueue: the work that waits for the thread of a writer.

import Dispatch
import Synchronization

/// A queue between the callers of a writer and its thread.
///
/// - Parameters:
///   - Backend: The type that a backend derives from a table.
///   - Connection: The writing connection.
package final class WriterQueue<Backend: Sendable, Connection>: Sendable {
    package enum Work: Sendable {
        case batch(QueuedBatch<Backend>)
        /// A task that needs exclusive use of the connection; it gets an error if the database cannot be
        /// reached.
        case task(@Sendable (Result<Connection, any Error>) -> Void)
    }

    /// The work of one turn of the thread.
    package struct Turn {
        package var work: [Work]
        /// Whether no more work will arrive.
        package var isLast: Bool
        /// Whether a round of the purge must begin immediately.
        package var beginsPurge: Bool
        /// Whether pending cascades must be continued.
        package var beginsCascades: Bool
    }

    private struct State {
        /// The waiting work, in which a task counts as one write.
        var queue = WriteQueue<Work>()
        var isStopped = false
        var beginsPurge = false
        var beginsCascades = false
        var purge = PurgeRound()
        var hasEnded = false
        var ended: [CheckedContinuation<Void, Never>] = []
        /// The number of writes that were taken from the queue but are still waiting.
        var setAside = 0
        var setAsideCallers: [String: Int] = [:]

        /// The number of waiting writes.
        var writes: Int { queue.writes + setAside }

        /// Returns whether a caller has half of the maximum number of waiting writes, while other callers wait
        /// as well.
        func exceedsShare(_ caller: String?, of most: Int) -> Bool {
            guard let caller else { return false }
            let own = queue.writes(of: caller) + (setAsideCallers[caller] ?? 0)
            return own >= max(1, most / 2) && writes > own
        }
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let limits: ServerLimits

    package init(_ limits: ServerLimits) { self.limits = limits }

    // MARK: - Callers

    /// Executes the writes; returns after the commit.
    ///
    /// If the task is cancelled before the batch is begun, the batch is removed from the queue. `isDone` may
    /// execute the batch on the caller's thread, and then returns true.
    package func write(
        _ batch: WriteBatch,
        _ tables: [[Backend]],
        related: [Backend] = [],
        isDone: (Work) -> Bool = { _ in false }
    ) async throws -> [GroupOutcome] {
        let position = QueuePosition()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { answer in
                let work = Work.batch(
                    QueuedBatch(
                        batch: batch,
                        tables: tables,
                        related: related,
                        answer: answer,
                        position: position
                    )
                )
                if isDone(work) { return }
                let rejection = append(work, count: batch.count, of: batch.caller, position)
                if let rejection { answer.resume(throwing: rejection) }
            }
        } onCancel: {
            position.cancel()
            let work = state.withLock { $0.queue.remove(position.inQueue) }
            if case .batch(let job) = work { job.answer.resume(throwing: CancellationError()) }
        }
    }

    /// Runs `body` with exclusive use of the writing connection.
    package func run<Success: Sendable>(
        isDone: (Work) -> Bool = { _ in false },
        _ body: @escaping @Sendable (Connection) throws -> Success
    ) async throws -> Success {
        try await withCheckedThrowingContinuation { answer in
            let work = Work.task { connection in
                answer.resume(with: Result { try body(connection.get()) })
            }
            if !isDone(work), let rejection = append(work, count: 1) {
                answer.resume(throwing: rejection)
            }
        }
    }

    /// Appends work; returns the error if the work is rejected.
    private func append(
        _ work: Work,
        count: Int,
        of caller: String? = nil,
        _ position: QueuePosition? = nil
    ) -> (any Error)? {
        var isFirst = false
        let rejection: (any Error)? = state.withLock { state in
            if state.isStopped { return ServerError.stopping }
            // A caller that cancels later finds the batch in the queue.
            if position?.isCancelled == true { return CancellationError() }
            if state.writes >= limits.writeQueue { return ServerError.tooManyWrites }
            if state.exceedsShare(caller, of: limits.writeQueue) {
                return ServerError.tooManyOwnWrites
            }
            isFirst = state.queue.isEmpty
            let index = state.queue.append(work, count: count, of: caller)
            position?.inQueue = index
            return nil
        }
        if isFirst { wake.signal() }
        return rejection
    }

    /// The number of waiting writes.
    package var length: Int { state.withLock(\.writes) }

    /// Starts to purge expired data of these tables.
    package func watch(_ tables: [TableDefinition], beginsAtOnce: Bool) {
        state.withLock { state in
            state.purge.watch(tables, changeDays: limits.changeDays)
            if beginsAtOnce { state.beginsPurge = true }
        }
        if beginsAtOnce { wake.signal() }
    }

    /// Lets the thread continue pending cascades.
    func beginCascades() {
        state.withLock { $0.beginsCascades = true }
        wake.signal()
    }

    /// Accepts no more work; the thread ends after the queued work.
    package func stop() {
        state.withLock { $0.isStopped = true }
        wake.signal()
    }

    /// Waits until the thread has ended.
    package func waitUntilEnded() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.hasEnded { state.ended.append(continuation) }
                return state.hasEnded
            }
            if isOver { continuation.resume() }
        }
    }

    // MARK: - The thread

    /// Takes all waiting work; waits for work until an uptime in nanoseconds.
    package func take(until due: UInt64) -> Turn {
        _ = wake.wait(timeout: DispatchTime(uptimeNanoseconds: due))
        return state.withLock { state in
            defer { (state.beginsPurge, state.beginsCascades) = (false, false) }
            return Turn(
                work: state.queue.takeAll(),
                isLast: state.isStopped,
                beginsPurge: state.beginsPurge,
                beginsCascades: state.beginsCascades
            )
        }
    }

    /// Counts writes that were taken but still wait, in total and by caller.
    package func setAside(_ writes: Int, of callers: [String: Int]) {
        state.withLock { ($0.setAside, $0.setAsideCallers) = (writes, callers) }
    }

    /// The tables whose data is purged.
    package var purge: PurgeRound { state.withLock(\.purge) }

    /// Reports that the thread has ended.
    package func end() {
        let ended = state.withLock { state in
            state.hasEnded = true
            defer { state.ended = [] }
            return state.ended
        }
        for continuation in ended { continuation.resume() }
    }
}

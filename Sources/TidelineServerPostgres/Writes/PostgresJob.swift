// PostgresJob: a batch that waits for the writer.

import Synchronization
import TidelineServerCore

struct PostgresJob: Sendable {
    struct Write: Sendable {
        let operation: WriteOperation
        let table: PostgresTable
        let repeatKey: RepeatKey?
        let isRepeatOnly: Bool

        /// Whether it may make a row that this clock stamps: a change of a row names no owner.
        func makesRow(of clock: ClockKey) -> Bool {
            clock.owner != "" || operation.kind == .insert
        }
    }

    let batch: WriteBatch
    /// The writes of the batch's groups.
    let groups: [[Write]]
    let answer: CheckedContinuation<[GroupOutcome], any Error>
    let place: JobPlace
    /// Until when it waits for what somebody else has, by the uptime; nil where it has not waited yet.
    var waitsUntil: UInt64?

    /// Its outcome where nothing of it was done.
    func refused(_ error: any Error) -> [GroupOutcome] {
        batch.groups.map { _ in .failed(at: nil, error) }
    }
}

/// Where a job waits, for the time when its caller leaves.
final class JobPlace: Sendable {
    private struct State {
        var isLeft = false
        var place: Int?
    }

    private let state = Mutex(State())

    var isLeft: Bool { state.withLock { $0.isLeft } }

    /// False when its caller has left already.
    func wait(at place: Int) -> Bool {
        state.withLock { state in
            state.place = place
            return !state.isLeft
        }
    }

    /// Nobody waits any more; returns where it is in the queue.
    func leave() -> Int? {
        state.withLock { state in
            state.isLeft = true
            return state.place
        }
    }
}

// PostgresJob: a batch that waits for the writer.

import Synchronization
import TidelinePostgres
import TidelineServerCore

struct PostgresJob: Sendable {
    struct Write: Sendable {
        let operation: WriteOperation
        let table: PostgresTable
        let repeatKey: RepeatKey?
        let isRepeatOnly: Bool
    }

    let batch: WriteBatch
    /// The writes of the batch's groups.
    let groups: [[Write]]
    let answer: CheckedContinuation<[GroupOutcome], any Error>
    let place: JobPlace
    /// The uptime until which it waits for another transaction's locks; nil if it has not waited yet.
    var waitsUntil: UInt64?
    /// How often it was to wait in line.
    var linesUp = 0

    /// The tables of its writes, by the names of their clocks.
    var tables: Set<String> { Set(groups.lazy.joined().map(\.table.clock)) }

    /// Whether a dynamic schema makes tables or columns for it.
    var changesTables: Bool {
        groups.lazy.joined().contains { $0.table.table.needsGrowth }
    }

    /// Whether it came with another form of a table than this one, by the name of its clock.
    func isOutdated(by form: Int64?, of clock: String) -> Bool {
        groups.lazy.joined().contains { write in
            let own = write.table.table.definition.form
            return write.table.clock == clock && own != nil && own != form
        }
    }

    /// Its outcome where nothing of it was done.
    func refused(_ error: any Error) -> [GroupOutcome] {
        batch.groups.map { _ in .failed(at: nil, error) }
    }
}

extension [PostgresJob] {
    /// Returns the cause of a statement's failure if a table has lost columns that some jobs need, and the other jobs.
    func outdated(
        _ error: any Error,
        _ link: inout PostgresLink
    ) -> (error: OutdatedTable, jobs: [PostgresJob], others: [PostgresJob])? {
        guard let error = error as? PostgresError, let connection = try? link.connection() else {
            return nil
        }
        for table in lazy.flatMap(\.groups).joined().map(\.table) {
            guard let outdated = table.outdated(error, connection) else { continue }
            let form = outdated.definition.form
            let jobs = filter { $0.isOutdated(by: form, of: table.clock) }
            return (outdated, jobs, filter { !$0.isOutdated(by: form, of: table.clock) })
        }
        return nil
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

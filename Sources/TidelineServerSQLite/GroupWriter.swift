// GroupWriter: one thread that owns the writing connection, and commits in groups.
//
// It takes all writes that wait, runs them in one transaction, commits, and only then answers. What
// came meanwhile is the next group: no timer, and a lone write waits for nobody. With
// `synchronous=FULL` one flush of the disk serves the whole group.
//
// A write is one statement, which SQLite undoes by itself, so most groups need no savepoints: they
// copy every page they touch. When a write throws, which refusals do not, its group is undone and
// runs again with a savepoint for each, so that the others are stored.

import Dispatch
import Foundation
import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

final class GroupWriter: Sendable {
    typealias Answer = CheckedContinuation<WriteOutcome, any Error>

    struct Write: Sendable {
        let operation: WriteOperation
        let table: SQLiteTable
        let answer: Answer
    }

    private enum Work: Sendable {
        case write(Write)
        /// Something that needs the connection for itself.
        case task(@Sendable (Database) -> Void)
    }

    private struct State {
        var queue: [Work] = []
        /// Whether tables were named whose tombstones nobody has looked at yet.
        var isPurgeNew = false
        var isStopped = false
        var purge = TombstonePurge()
    }

    /// The most writes of one transaction, so that the first of a long queue is answered soon.
    private static let groupMax = 1000

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let limits: ServerLimits
    private let tombstoneInterval: Duration
    private let now: @Sendable () -> Int64
    private let log: ServerLog
    /// The connection of the inline mode.
    private let inlineDatabase: Mutex<Database?>

    init(
        _ database: Database,
        inline: Bool,
        limits: ServerLimits,
        tombstoneInterval: Duration,
        now: @escaping @Sendable () -> Int64,
        log: ServerLog
    ) {
        self.limits = limits
        self.tombstoneInterval = tombstoneInterval
        self.now = now
        self.log = log
        inlineDatabase = Mutex(inline ? database : nil)
        guard !inline else { return }
        let thread = Thread { [self] in run(database) }
        thread.name = "tideline-writer"
        thread.start()
    }

    /// Writes; returns after the commit.
    func write(_ operation: WriteOperation, to table: SQLiteTable) async throws -> WriteOutcome {
        try await withCheckedThrowingContinuation { answer in
            enqueue(.write(Write(operation: operation, table: table, answer: answer)), answer)
        }
    }

    /// Runs `body` alone on the writing connection.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { answer in
            let work = Work.task { database in
                answer.resume(with: Swift.Result { try body(database) })
            }
            enqueue(work, answer)
        }
    }

    private func enqueue<Result>(_ work: Work, _ answer: CheckedContinuation<Result, any Error>) {
        let wasRunInline = inlineDatabase.withLock { database -> Bool in
            guard let database else { return false }
            perform([work], database)
            return true
        }
        if wasRunInline { return }
        var refusal: ServerError?
        var isFirst = false
        state.withLock { state in
            if state.isStopped {
                refusal = .stopping
            } else if state.queue.count >= limits.writeQueue {
                refusal = .tooManyWrites
            } else {
                isFirst = state.queue.isEmpty
                state.queue.append(work)
            }
        }
        if let refusal { answer.resume(throwing: refusal) }
        if isFirst { wake.signal() }
    }

    /// How many writes wait.
    var queueLength: Int { state.withLock { $0.queue.count } }

    /// Ends the thread after what is queued already.
    func stop() {
        state.withLock { $0.isStopped = true }
        wake.signal()
    }

    private func run(_ database: Database) {
        // The uptime from which on tombstones are looked for, whatever else there is to do.
        var purgeDue: UInt64 = 0
        while true {
            waitForWork(until: purgeDue)
            let (queue, isStopped, isPurgeNew) = state.withLock { state in
                defer {
                    state.queue = []
                    state.isPurgeNew = false
                }
                return (state.queue, state.isStopped, state.isPurgeNew)
            }
            perform(queue, database)
            if isStopped { return }
            if isPurgeNew || DispatchTime.now().uptimeNanoseconds >= purgeDue {
                // What is left comes behind the writes that wait.
                let isMoreLeft = purge(database)
                purgeDue = QueryStart().adding(isMoreLeft ? .zero : tombstoneInterval)
            }
        }
    }

    /// Returns when there is work, or when it is time to look for tombstones.
    private func waitForWork(until purgeDue: UInt64) {
        let hasTombstones = state.withLock { !$0.purge.days.isEmpty }
        guard hasTombstones else { return wake.wait() }
        _ = wake.wait(timeout: DispatchTime(uptimeNanoseconds: purgeDue))
    }

    // MARK: - Tombstones

    /// From now on looks for old tombstones of these tables.
    func purge(tombstonesOf tables: [TableDefinition], ties: (String) -> TieCounts) {
        let hasTombstones = state.withLock { state in
            state.purge.take(tables, ties: ties)
            state.isPurgeNew = true
            return !state.purge.days.isEmpty
        }
        if hasTombstones { wake.signal() }
    }

    /// One run, and whether another one should follow soon.
    func purgeTombstones(_ database: Database) throws -> Bool {
        try state.withLock { $0.purge }.run(database, now: now())
    }

    private func purge(_ database: Database) -> Bool {
        do {
            return try purgeTombstones(database)
        } catch {
            log.write(.warning, "tombstones could not be removed", ["cause": "\(error)"])
            return false
        }
    }

    private func perform(_ queue: [Work], _ database: Database) {
        var group: [Write] = []
        for work in queue {
            switch work {
            case .write(let write):
                group.append(write)
                if group.count == Self.groupMax { commit(&group, database) }
            case .task(let body):
                commit(&group, database)
                body(database)
            }
        }
        commit(&group, database)
    }

    private func commit(_ group: inout [Write], _ database: Database) {
        guard !group.isEmpty else { return }
        defer { group.removeAll(keepingCapacity: true) }
        let ended = Result { try outcomes(of: group, database) }
        for write in group { write.table.head.ties.settle() }
        do {
            let results = try ended.get()
            for (write, result) in zip(group, results) { write.answer.resume(with: result) }
        } catch {
            log.write(.error, "commit failed", ["cause": "\(error)"])
            for write in group { write.answer.resume(throwing: ServerError.notCommitted) }
        }
    }

    /// What became of each write, when all of them are committed.
    private func outcomes(
        of group: [Write],
        _ database: Database
    ) throws -> [Result<WriteOutcome, any Error>] {
        do {
            return try run(group, database) { body in .success(try body()) }
        } catch {
            // The marks are gone, but not the stamps that they were for.
            for write in group {
                write.table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
            }
            return try run(group, database) { body in
                let result = Result { try database.savepoint(body) }
                // A full disk ends the whole transaction, not the savepoint alone.
                guard database.isInTransaction else { throw ServerError.notCommitted }
                return result
            }
        }
    }

    private func run(
        _ group: [Write],
        _ database: Database,
        each: (() throws -> WriteOutcome) throws -> Result<WriteOutcome, any Error>
    ) throws -> [Result<WriteOutcome, any Error>] {
        try database.transaction {
            var writes = RowWrites(database, limits: limits, now: now)
            var results: [Result<WriteOutcome, any Error>] = []
            results.reserveCapacity(group.count)
            for write in group {
                results.append(try each { try writes.apply(write.operation, to: write.table) })
            }
            try writes.storeStamps()
            return results
        }
    }
}

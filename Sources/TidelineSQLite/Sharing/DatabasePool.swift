// DatabasePool: a pool of connections that callers use on their own threads.
//
// A lookup takes a few microseconds, and a thread switch 25. Only one caller uses a connection at a
// time, and there are never more connections than concurrent callers.

import Synchronization

/// A connection pool in which one caller uses a connection at a time.
package final class DatabasePool: Sendable {
    private struct State {
        /// The free connections; nil after the pool is closed.
        var free: [Database]?
        var lent: [ObjectIdentifier: Database] = [:]
        /// Whether connections are closed when they are returned.
        var isReleasing = false
        /// The callers that are waiting until no connection is open.
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>
    private let open: @Sendable () throws -> Database

    /// Creates a pool; the connections in `ready` are already open, because files are not
    /// accessible at all times.
    package init(ready: [Database] = [], open: @escaping @Sendable () throws -> Database) {
        self.open = open
        state = Mutex(State(free: ready))
    }

    /// Lends a connection to `body`; `isUnusable` returns whether the connection must be closed
    /// after an error.
    package func lend<Result>(
        isUnusable: (any Error) -> Bool = { _ in false },
        _ body: (Database) throws -> Result
    ) throws -> Result {
        let kept = try state.withLock { state in
            guard state.free != nil else { throw SQLiteError.closed }
            return state.free?.popLast()
        }
        let database = try kept ?? open()
        state.withLock { $0.lent[ObjectIdentifier(database)] = database }
        var isToClose = false
        defer { takeBack(database, isToClose) }
        do {
            return try body(database)
        } catch {
            isToClose = isUnusable(error)
            throw error
        }
    }

    private func takeBack(_ database: Database, _ isToClose: Bool) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.lent[ObjectIdentifier(database)] = nil
            if state.isReleasing { database.keepLog() }
            if isToClose || state.isReleasing || state.free == nil {
                database.close()
            } else {
                state.free?.append(database)
            }
            guard state.isReleasing, state.lent.isEmpty else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Closes the free connections now, and each connection in use when it is returned.
    package func close() {
        state.withLock { $0.free = nil }
    }

    /// Closes the free connections now, and from then on each connection when it is returned.
    ///
    /// This method returns after all connections are closed.
    package func release() async {
        await withCheckedContinuation { continuation in
            let isClosed = state.withLock { state in
                state.isReleasing = true
                for database in state.free ?? [] {
                    database.keepLog()
                    database.close()
                }
                if state.free != nil { state.free = [] }
                if !state.lent.isEmpty { state.waiting.append(continuation) }
                return state.lent.isEmpty
            }
            if isClosed { continuation.resume() }
        }
    }

    /// Keeps returned connections open again.
    package func keepOpen() {
        let waiting = state.withLock { state in
            state.isReleasing = false
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Interrupts the running statements of connections in use.
    package func interrupt() {
        state.withLock { state in
            for database in state.lent.values { database.interrupt() }
        }
    }
}

// WritableLook: a probe for whether a database takes writes, run at most once a second.

import Synchronization

package final class WritableLook: Sendable {
    /// Whether the database could be written when it was last tried.
    private struct State {
        /// Microseconds since 1970.
        var time = Int64.min / 2
        var refusal: ServerError?
        /// Whether a try is under way.
        var isUnderWay = false
    }

    /// How long a caller waits for a try.
    private static let waitMax: Duration = .seconds(1)

    /// How many microseconds a try counts.
    private static let lasts: Int64 = 1_000_000

    private let state = Mutex(State())
    private let now: @Sendable () -> Int64
    private let log: ServerLog

    package init(now: @escaping @Sendable () -> Int64, log: ServerLog) {
        self.now = now
        self.log = log
    }

    /// Throws the result of the last try; tries again if that is too old.
    ///
    /// - Parameter write: Writes a row that is never read.
    /// - Throws: The error that prevents a write.
    package func check(_ write: @escaping @Sendable () async throws -> Void) async throws {
        let time = now()
        // Anybody may ask, and each try is a flush of the disk.
        let isOld = state.withLock { state in
            guard !state.isUnderWay, time < state.time || time - state.time >= Self.lasts else {
                return false
            }
            state.time = time
            state.isUnderWay = true
            return true
        }
        if isOld { await tryForAWhile(write) }
        if let refusal = state.withLock({ $0.refusal }) { throw refusal }
    }

    /// Waits for a try, but not for as long as the writer may wait for a lock.
    private func tryForAWhile(_ write: @escaping @Sendable () async throws -> Void) async {
        let (ends, ended) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        Task {
            await tryOnce(write)
            ended.finish()
        }
        let timer = Task {
            try await Task.sleep(for: Self.waitMax)
            state.withLock { if $0.isUnderWay { $0.refusal = .writesWait } }
            ended.finish()
        }
        for await _ in ends {}
        timer.cancel()
    }

    /// Writes, and remembers how it went.
    private func tryOnce(_ write: @Sendable () async throws -> Void) async {
        var refusal: ServerError?
        do {
            try await write()
        } catch let error as ServerError {
            refusal = error
        } catch {
            log.write(.error, "the database cannot be written", ["cause": "\(error)"])
            refusal = .notWritable
        }
        state.withLock { state in
            state.refusal = refusal
            state.isUnderWay = false
        }
    }
}

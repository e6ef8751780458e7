// WriteProbe: readiness for writes.

import Synchronization

/// A probe of whether a database accepts writes, which runs at most once a second.
package final class WriteProbe: Sendable {
    /// The state of the probes.
    private struct State {
        /// The time of the probe, in microseconds since 1970.
        var time = Int64.min / 2
        var rejection: ServerError?
        /// Whether a probe is running.
        var isUnderWay = false
    }

    /// How long a caller waits for a probe.
    private static let waitMax: Duration = .seconds(1)

    /// The number of microseconds for which a result is valid.
    private static let lasts: Int64 = 1_000_000

    private let state = Mutex(State())
    private let now: @Sendable () -> Int64
    private let log: ServerLog

    package init(now: @escaping @Sendable () -> Int64, log: ServerLog) {
        self.now = now
        self.log = log
    }

    /// Throws the error of the last probe, or of a new one if the last one is too old.
    ///
    /// - Parameter write: Writes a row that is never read.
    /// - Throws: The error that prevents a write.
    package func check(_ write: @escaping @Sendable () async throws -> Void) async throws {
        let time = now()
        // Every caller may request this, and each probe flushes the disk.
        let isOld = state.withLock { state in
            guard !state.isUnderWay, time < state.time || time - state.time >= Self.lasts else {
                return false
            }
            state.time = time
            state.isUnderWay = true
            return true
        }
        if isOld { await tryForAWhile(write) }
        if let rejection = state.withLock({ $0.rejection }) { throw rejection }
    }

    /// Runs a probe and waits for it, but at most `waitMax`, because the writer may wait longer for a lock.
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
            state.withLock { if $0.isUnderWay { $0.rejection = .writesWait } }
            ended.finish()
        }
        for await _ in ends {}
        timer.cancel()
    }

    /// Writes, and records the result.
    private func tryOnce(_ write: @Sendable () async throws -> Void) async {
        var rejection: ServerError?
        do {
            try await write()
        } catch let error as ServerError {
            rejection = error
        } catch {
            log.write(.error, "the database is not writable", ["cause": "\(error)"])
            rejection = .notWritable
        }
        state.withLock { state in
            state.rejection = rejection
            state.isUnderWay = false
        }
    }
}

// ExternalChangeDetector: detects commits that other processes make to a store's file.

import Synchronization
import TidelineSQLite

/// A detector of changes that other connections make to the file.
///
/// The detector runs only while there are listeners.
final class ExternalChangeDetector: Sendable {
    /// The state of the file that the writer's connection sees.
    private struct Version: Equatable {
        /// The number of times that the connection was opened, because each connection counts
        /// commits separately.
        var opens: Int
        /// The number that SQLite changes after each commit of another connection.
        var number: Int64

        init(of writer: Database, opens: Int) throws {
            self.opens = opens
            number = try writer.integer("PRAGMA data_version") ?? 0
        }
    }

    private struct State {
        var version: Version
        var task: Task<Void, Never>?
        var isEnded = false
        /// Whether detection is paused, because a query would open the file.
        var isSuspended = false
    }

    private let state: Mutex<State>

    /// The time between two checks for changes of other processes.
    private static let interval = Duration.milliseconds(250)

    init(of writer: Database, opens: Int) throws {
        state = Mutex(State(version: try Version(of: writer, opens: opens)))
    }

    /// Polls the file until `isWatched` returns false, and calls `notify` after each change.
    ///
    /// Also calls `notify` if the connection was reopened, because other processes may have changed
    /// the file in the meantime.
    func watch(
        _ writer: DatabaseThreads,
        _ connection: WriterConnection,
        while isWatched: @escaping @Sendable () -> Bool,
        notify: @escaping @Sendable () -> Void
    ) {
        state.withLock { state in
            guard state.task == nil, !state.isEnded else { return }
            state.task = Task { [weak self] in
                while isWatched(), (try? await Task.sleep(for: Self.interval)) != nil {
                    guard let self else { break }
                    if self.state.withLock({ $0.isSuspended }) { continue }
                    do {
                        let now = try await writer.run {
                            try Version(of: $0, opens: connection.opens)
                        }
                        if self.isNews(now) { notify() }
                    } catch let error as SQLiteError where error.isClosed {
                        break
                    } catch {
                        // If the file cannot be read right now, the next round retries.
                        continue
                    }
                }
                self?.pause()
                // A listener may have registered after the last check. At that point, `watch` did
                // nothing because this task existed.
                if isWatched() { self?.watch(writer, connection, while: isWatched, notify: notify) }
            }
        }
    }

    private func pause() { state.withLock { $0.task = nil } }

    private func isNews(_ version: Version) -> Bool {
        state.withLock { state in
            defer { state.version = version }
            return state.version != version
        }
    }

    func suspend() { state.withLock { $0.isSuspended = true } }

    func resume() { state.withLock { $0.isSuspended = false } }

    func end() {
        state.withLock { state in
            state.isEnded = true
            state.task?.cancel()
        }
    }

    deinit { state.withLock { $0.task?.cancel() } }
}

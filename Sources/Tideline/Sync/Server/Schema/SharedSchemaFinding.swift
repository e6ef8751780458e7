// SharedSchemaFinding: the last comparison of schemas, and the time of the next attempt if one failed.

import Foundation
import Synchronization
import TidelineCore

/// The last comparison of the app's tables with those of the server, shared by a client's runners and views.
final class SharedSchemaFinding: Sendable {
    private struct State {
        var finding: SchemaFinding?
        /// Whether a comparison is running in the background.
        var isComparing = false
        /// The number of failed attempts in a row.
        var failures = 0
        /// When the last attempt failed.
        var failedAt: Date?
        /// The fingerprint of the app's document; nil until it is needed.
        var app: String?
    }

    private let state = Mutex(State())
    private let hub = ChangeHub<Set<String>>()

    /// The result of the last comparison, of this run of the app or an earlier one.
    var finding: SchemaFinding? { state.withLock { $0.finding } }

    /// The known differences between the app and the server.
    var differences: [SchemaDifference] { finding?.differences ?? [] }

    /// Emits a value at each change of the result.
    func changes() -> AsyncStream<Set<String>> { hub.stream() }

    /// Returns the fingerprint of the app's document, which is computed once.
    func fingerprint(of catalog: TableCatalog) -> String {
        if let known = state.withLock({ $0.app }) { return known }
        let found = catalog.document.fingerprint
        state.withLock { $0.app = found }
        return found
    }

    /// Sets the result that was read from the store.
    func recall(_ finding: SchemaFinding?) {
        guard let finding else { return }
        state.withLock { $0.finding = $0.finding ?? finding }
        hub.publish([])
    }

    /// Returns whether a comparison in the background starts now: the conditions have changed since the last one, none
    /// is running, and the wait after a failed one is over.
    ///
    /// The caller ends it with ``end(with:)``, ``fail(at:)`` or ``cancel()``.
    func begin(_ basis: SchemaFinding.Basis, at now: Date) -> Bool {
        state.withLock { state in
            guard state.finding?.basis != basis, !state.isComparing else { return false }
            if let failedAt = state.failedAt {
                let elapsed = now.timeIntervalSince(failedAt)
                // After the wall clock was set back, the wait must not become longer.
                guard elapsed < 0 || elapsed >= Self.wait(after: state.failures) else {
                    return false
                }
            }
            state.isComparing = true
            return true
        }
    }

    /// Ends a comparison in the background with its result.
    func end(with finding: SchemaFinding) {
        state.withLock { $0.isComparing = false }
        set(finding)
    }

    /// Sets the result of a comparison.
    func set(_ finding: SchemaFinding) {
        state.withLock { state in
            (state.failures, state.failedAt) = (0, nil)
            state.finding = finding
        }
        hub.publish([])
    }

    /// Ends a comparison that had no result; the next one waits.
    func fail(at now: Date) {
        state.withLock { state in
            state.isComparing = false
            state.failures += 1
            state.failedAt = now
        }
    }

    /// Ends a comparison that was cancelled; the next one may start at once.
    func cancel() { state.withLock { $0.isComparing = false } }

    private static let waitFirst: TimeInterval = 60
    private static let waitMax: TimeInterval = 6 * 3600

    private static func wait(after failures: Int) -> TimeInterval {
        min(waitFirst * pow(2, TimeInterval(min(failures - 1, 20))), waitMax)
    }
}

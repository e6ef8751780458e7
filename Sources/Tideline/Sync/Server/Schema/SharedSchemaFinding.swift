// SharedSchemaFinding: the last comparison of schemas, and the wait after comparisons that failed.

import Foundation
import Synchronization
import TidelineCore

/// The last comparison of the app's tables with the server's, shared by a client's runners and
/// views.
final class SharedSchemaFinding: Sendable {
    private struct State {
        var finding: SchemaFinding?
        /// Whether a comparison is running in the background.
        var isComparing = false
        /// The number of consecutive failures.
        var failures = 0
        /// The time of the last failure.
        var failedAt: Date?
        /// The fingerprint of the app's schema document; nil until it is needed.
        var app: String?
    }

    private let state = Mutex(State())
    private let hub = ChangeHub<Set<String>>()

    /// The result of the last comparison, in this run of the app or an earlier one.
    var finding: SchemaFinding? { state.withLock { $0.finding } }

    /// The known differences between the app and the server.
    var differences: [SchemaDifference] { finding?.differences ?? [] }

    /// Returns a stream that emits a value each time the result changes.
    func changes() -> AsyncStream<Set<String>> { hub.stream() }

    /// Returns the fingerprint of the app's schema document, which is computed only once.
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

    /// Returns whether a background comparison starts now.
    ///
    /// It starts if the facts have changed since the last comparison, no comparison is running, and
    /// the wait after a failure is over. The caller ends it with ``end(with:)``, ``fail(at:)`` or
    /// ``cancel()``.
    func begin(_ basis: SchemaFinding.Basis, at now: Date) -> Bool {
        state.withLock { state in
            guard state.finding?.basis != basis, !state.isComparing else { return false }
            if let failedAt = state.failedAt {
                let elapsed = now.timeIntervalSince(failedAt)
                // If the wall clock was set back, the wait must not become longer.
                guard elapsed < 0 || elapsed >= Self.wait(after: state.failures) else {
                    return false
                }
            }
            state.isComparing = true
            return true
        }
    }

    /// Ends a background comparison with its result.
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

    /// Ends a comparison without a result; the next comparison has to wait.
    func fail(at now: Date) {
        state.withLock { state in
            state.isComparing = false
            state.failures += 1
            state.failedAt = now
        }
    }

    /// Ends a comparison that was cancelled; the next comparison may start immediately.
    func cancel() { state.withLock { $0.isComparing = false } }

    private static let waitFirst: TimeInterval = 60
    private static let waitMax: TimeInterval = 6 * 3600

    private static func wait(after failures: Int) -> TimeInterval {
        min(waitFirst * pow(2, TimeInterval(min(failures - 1, 20))), waitMax)
    }
}

// ConflictHandler: an app's closure that resolves conflicts, and the flag of the task that runs it.

import Synchronization

/// A closure that is equal only to itself.
package final class ConflictHandler: Sendable, Hashable {
    private let decide: @Sendable (Conflict) async throws -> Resolution

    init(_ decide: @escaping @Sendable (Conflict) async throws -> Resolution) {
        self.decide = decide
    }

    package static func == (left: ConflictHandler, right: ConflictHandler) -> Bool {
        left === right
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Calls the closure; a push or pull that the closure starts at `gate` throws an error.
    func decide(_ conflict: Conflict, at gate: SyncGate) async throws -> Resolution {
        let call = Call(gate)
        defer { call.end() }
        return try await Self.$call.withValue(call) { try await decide(conflict) }
    }

    /// A single call of the handler; tasks that the handler starts may outlive the call.
    private final class Call: Sendable {
        private let gate: SyncGate
        private let isRunning = Mutex(true)

        init(_ gate: SyncGate) { self.gate = gate }

        func end() { isRunning.withLock { $0 = false } }

        func blocks(_ gate: SyncGate) -> Bool {
            self.gate === gate && isRunning.withLock { $0 }
        }
    }

    @TaskLocal private static var call: Call?

    /// Throws an error if the caller would wait for the push that waits for the handler, which
    /// would be a deadlock.
    static func checkMayWait(at gate: SyncGate) throws {
        guard call?.blocks(gate) == true else { return }
        throw SyncError(
            .conflict,
            """
            A conflict handler called a push, pull, purge or verification, which would deadlock with \
            the push that waits for the handler. Return a resolution, and sync afterwards.
            """
        )
    }
}

// ConflictHandler: an app's closure that resolves conflicts, and the flag of the task that runs it.

import Synchronization

/// A closure, which is equal to itself only.
package final class ConflictHandler: Sendable, Hashable {
    private let decide: @Sendable (Conflict) async throws -> Resolution

    init(_ decide: @escaping @Sendable (Conflict) async throws -> Resolution) {
        self.decide = decide
    }

    package static func == (left: ConflictHandler, right: ConflictHandler) -> Bool {
        left === right
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Calls the closure; pushes and pulls that it starts at `gate` throw an error.
    func decide(_ conflict: Conflict, at gate: SyncGate) async throws -> Resolution {
        let call = Call(gate)
        defer { call.end() }
        return try await Self.$call.withValue(call) { try await decide(conflict) }
    }

    /// A call that is running; tasks that it starts may outlive it.
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

    /// Throws an error instead of waiting for the push that waits for the handler: neither would ever end.
    static func checkMayWait(at gate: SyncGate) throws {
        guard call?.blocks(gate) == true else { return }
        throw SyncError(
            .conflict,
            """
            A conflict handler asked for a push, pull, purge or verification, which would wait for \
            the push that waits for the handler. Return a resolution, and sync afterwards.
            """
        )
    }
}

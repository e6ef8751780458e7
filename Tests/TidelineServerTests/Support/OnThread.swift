// OnThread: what blocks, on a thread of its own; those of tasks are few, and others need them.

import Foundation

func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
}

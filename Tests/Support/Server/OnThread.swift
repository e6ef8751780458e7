// OnThread: runs blocking code on a separate thread; the threads for tasks are few, and other tasks need them.

import Foundation

package func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
}

// GzipThreads: compresses on other threads.

import Dispatch
import Foundation
import Synchronization

/// The threads that compress large responses, so that no event loop waits for that.
package final class GzipThreads: Sendable {
    /// The minimum size of a response that is compressed on another thread.
    ///
    /// Compressing a smaller one takes less than a millisecond, which does not justify two thread switches.
    static let bytesMin = 32 << 10

    /// One queue for every second core; the other cores build responses in the meantime.
    private let queues = (0..<max(1, ProcessInfo.processInfo.activeProcessorCount / 2)).map {
        DispatchQueue(label: "tideline-gzip-\($0)")
    }
    private let next = Atomic<Int>(0)
    private let code: @Sendable ([UInt8]) -> [UInt8]?

    package init(code: @escaping @Sendable ([UInt8]) -> [UInt8]? = ContentCoding.gzip) {
        self.code = code
    }

    /// Returns the bytes as one gzip member.
    ///
    /// Nil if that would not be smaller, or if the caller was cancelled before its turn.
    package func gzip(_ bytes: [UInt8]) async -> [UInt8]? {
        let turn = next.wrappingAdd(1, ordering: .relaxed).oldValue
        let queue = queues[Int(UInt(bitPattern: turn) % UInt(queues.count))]
        let isCancelled = CancellationFlag()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                queue.async { [code] in
                    let small = isCancelled.value.load(ordering: .relaxed) ? nil : code(bytes)
                    continuation.resume(returning: small)
                }
            }
        } onCancel: {
            isCancelled.value.store(true, ordering: .relaxed)
        }
    }

    private final class CancellationFlag: Sendable {
        let value = Atomic(false)
    }
}

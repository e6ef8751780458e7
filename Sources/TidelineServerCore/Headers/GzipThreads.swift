// GzipThreads: where large answers are compressed, so that no event loop waits for it.

import Dispatch
import Foundation
import Synchronization

final class GzipThreads: Sendable {
    /// Up to this size an answer is compressed on its event loop: that takes less than a
    /// millisecond, and a change of threads and back is not worth it.
    static let bytesMin = 32 << 10

    /// Half of the cores: the others make answers meanwhile.
    private let queues = (0..<max(1, ProcessInfo.processInfo.activeProcessorCount / 2)).map {
        DispatchQueue(label: "tideline-gzip-\($0)")
    }
    private let next = Atomic<Int>(0)

    /// The bytes as one gzip member, or nil when it would be no smaller.
    func gzip(_ bytes: [UInt8]) async -> [UInt8]? {
        let turn = next.wrappingAdd(1, ordering: .relaxed).oldValue
        let queue = queues[Int(UInt(bitPattern: turn) % UInt(queues.count))]
        return await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: ContentCoding.gzip(bytes)) }
        }
    }
}

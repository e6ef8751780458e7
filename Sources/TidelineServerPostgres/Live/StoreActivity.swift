// StoreActivity: whether a server has anything to do, so that it may let its database sleep.

import Synchronization

/// When a store was last asked for something, and whether a caller listens.
final class StoreActivity: Sendable {
    /// In nanoseconds of ``Uptime``; 0 before the first request.
    private let last = Atomic<UInt64>(0)
    private let isListenedTo: @Sendable () -> Bool

    /// How long after a request a server is not idle, in nanoseconds.
    private static let quietTime: UInt64 = 60_000_000_000

    init(isListenedTo: @escaping @Sendable () -> Bool) {
        self.isListenedTo = isListenedTo
    }

    /// Notes a request on a table; a question about the readiness is none.
    func touch() { last.store(Uptime.now(), ordering: .relaxed) }

    var isIdle: Bool {
        let last = last.load(ordering: .relaxed)
        return !isListenedTo() && (last == 0 || Uptime.now() &- last > Self.quietTime)
    }
}

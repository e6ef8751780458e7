// StoreActivity: whether a server is in use, because an idle server may let its database be suspended.

import Synchronization

/// The time of the last request to a store, and whether a caller listens.
final class StoreActivity: Sendable {
    /// The time of the last request, in nanoseconds of ``Uptime``; 0 before the first one.
    private let last = Atomic<UInt64>(0)
    private let isListenedTo: @Sendable () -> Bool

    /// The time after a request during which a server counts as busy, in nanoseconds.
    private static let quietTime: UInt64 = 60_000_000_000

    init(isListenedTo: @escaping @Sendable () -> Bool) {
        self.isListenedTo = isListenedTo
    }

    /// Records a request on a table; readiness probes do not count.
    func touch() { last.store(Uptime.now(), ordering: .relaxed) }

    var isIdle: Bool {
        let last = last.load(ordering: .relaxed)
        return !isListenedTo() && (last == 0 || Uptime.now() &- last > Self.quietTime)
    }
}

// QueryDeadline: when the statement that runs on a connection has to end.

import Dispatch

/// Belongs to one connection and lives as long; only the thread that has the connection uses it.
final class QueryDeadline {
    /// How many steps of SQLite's machine pass between two looks at the clock: about 1 ms.
    static let stepsBetweenLooks: Int32 = 20_000

    private var end = UInt64.max

    func set(_ limit: Duration) {
        let (seconds, attoseconds) = limit.components
        let nanoseconds =
            UInt64(clamping: seconds) &* 1_000_000_000
            &+ UInt64(clamping: attoseconds / 1_000_000_000)
        end = DispatchTime.now().uptimeNanoseconds &+ nanoseconds
    }

    func clear() { end = .max }

    var isOver: Bool { end != .max && DispatchTime.now().uptimeNanoseconds > end }
}

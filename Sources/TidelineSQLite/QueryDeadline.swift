// QueryDeadline: when the statement that runs on a connection has to end.

import Dispatch

/// Looked at between steps of SQLite's machine and, as one step may be a function with much text
/// to read, by the functions too.
///
/// Belongs to one connection and lives as long; only the thread that has the connection uses it.
final class QueryDeadline {
    /// How many steps of SQLite's machine pass between two looks at the clock: about 1 ms.
    static let stepsBetweenLooks: Int32 = 20_000
    /// How many bytes functions read between two looks.
    static let bytesBetweenLooks = 1 << 18

    private var end = UInt64.max
    private var bytesLeft = bytesBetweenLooks

    func set(_ limit: Duration) {
        let (seconds, attoseconds) = limit.components
        let nanoseconds =
            UInt64(clamping: seconds) &* 1_000_000_000
            &+ UInt64(clamping: attoseconds / 1_000_000_000)
        end = DispatchTime.now().uptimeNanoseconds &+ nanoseconds
    }

    func clear() { end = .max }

    /// Whether it is over, asked by a function that is about to read so many bytes.
    func isOver(beforeReading bytes: Int) -> Bool {
        bytesLeft -= bytes
        guard bytesLeft < 0 else { return false }
        bytesLeft = Self.bytesBetweenLooks
        return isOver
    }

    var isOver: Bool { end != .max && DispatchTime.now().uptimeNanoseconds > end }
}

// QueryDeadline: the time at which a connection's running statement must end.

import Dispatch
import Foundation
import Synchronization

/// The deadline of the running statement.
///
/// SQLite checks the deadline between the steps of its virtual machine. Functions check it too,
/// because a function that reads a long string is a single step.
///
/// The object belongs to one connection, and only the thread that uses the connection accesses the
/// object.
final class QueryDeadline {
    /// The number of virtual machine steps between checks of the time: about 1 ms.
    static let stepsBetweenChecks: Int32 = 20_000
    /// The number of bytes that functions read between checks.
    static let bytesBetweenChecks = 1 << 18

    private var end = UInt64.max
    private var limit: UInt64 = 0
    private var workedBefore: UInt64 = 0
    private var bytesLeft = bytesBetweenChecks
    private var stop: QueryStop?
    /// Returns whether the statement has used up its time slice and must restart later.
    private var hasHadShare: (() -> Bool)?
    /// Whether the last statement was interrupted because it had used up its time slice.
    private(set) var hasYielded = false

    /// Sets the function that ends a statement's time slice; nil disables the check.
    func beginShare(_ hasHadShare: (() -> Bool)?) {
        self.hasHadShare = hasHadShare
        hasYielded = false
    }

    func endShare() { hasHadShare = nil }

    func set(_ limit: Duration, since start: QueryStart?, stop: QueryStop?) {
        self.stop = stop
        self.limit = limit.nanoseconds
        bytesLeft = Self.bytesBetweenChecks
        workedBefore = Self.threadWork
        end = (start ?? QueryStart()).nanoseconds &+ self.limit
    }

    /// Whether the thread was actually running for most of the last time limit, instead of waiting
    /// for a processor or the disk.
    var wasWork: Bool { (Self.threadWork &- workedBefore) > limit / 2 }

    /// The processor time that the thread has used, in nanoseconds.
    private static var threadWork: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
    }

    func clear() {
        end = .max
        stop = nil
    }

    /// Runs `body` without a limit.
    func suspend(_ body: () -> Void) {
        let end = end
        self.end = .max
        body()
        self.end = end
    }

    /// Returns whether the deadline has passed; functions call this method before they read the
    /// given number of bytes.
    func isOver(beforeReading bytes: Int) -> Bool {
        bytesLeft -= bytes
        guard bytesLeft < 0 else { return false }
        bytesLeft = Self.bytesBetweenChecks
        return isOver
    }

    var isOver: Bool {
        guard end != .max else { return false }
        if stop?.isSet == true || DispatchTime.now().uptimeNanoseconds > end { return true }
        guard let hasHadShare, hasHadShare() else { return false }
        hasYielded = true
        return true
    }
}

/// The time at which the wait for a query began.
package struct QueryStart: Sendable {
    package let nanoseconds: UInt64

    /// Creates a start at the current time.
    package init() { nanoseconds = DispatchTime.now().uptimeNanoseconds }

    /// Creates a start at an uptime in nanoseconds.
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// Returns the uptime at the end of this duration, in nanoseconds.
    package func adding(_ time: Duration) -> UInt64 { nanoseconds &+ time.nanoseconds }
}

extension Duration {
    /// The duration in nanoseconds; zero if it is negative.
    fileprivate var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        return UInt64(clamping: seconds) &* 1_000_000_000
            &+ UInt64(clamping: attoseconds / 1_000_000_000)
    }
}

/// A flag that stops work whose caller no longer waits for it.
///
/// Work on the database thread checks the flag. Interrupting the connection instead could interrupt
/// the next query.
package final class QueryStop: Sendable {
    private let flag = Atomic<Bool>(false)

    /// Creates a flag that is not set.
    package init() {}

    package var isSet: Bool { flag.load(ordering: .relaxed) }

    package func set() { flag.store(true, ordering: .relaxed) }

    /// Throws if the flag is set.
    package func check() throws {
        if isSet { throw CancellationError() }
    }
}

/// Runs `body` with a flag that is set if the task is cancelled.
package func untilCancelled<Result: Sendable>(
    _ body: (QueryStop) async throws -> Result
) async throws -> Result {
    let stop = QueryStop()
    return try await withTaskCancellationHandler {
        try await body(stop)
    } onCancel: {
        stop.set()
    }
}

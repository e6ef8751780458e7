// Uptime: the clock that bounds statements and waits; it says nothing about the time of a row.

import Dispatch
import Foundation

enum Uptime {
    /// Nanoseconds since some moment.
    static func now() -> UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// When so long has passed.
    static func after(_ time: Duration) -> UInt64 {
        let (seconds, attoseconds) = time.components
        let rest = UInt64(clamping: attoseconds / 1_000_000_000)
        let whole = UInt64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !whole.overflow else { return .max }
        let sum = now().addingReportingOverflow(whole.partialValue)
        guard !sum.overflow else { return .max }
        let end = sum.partialValue.addingReportingOverflow(rest)
        return end.overflow ? .max : end.partialValue
    }

    /// The middle of the time that is left until an end.
    static func half(until end: UInt64) -> UInt64 {
        let now = now()
        return end > now ? now + (end - now) / 2 : end
    }

    /// Sleeps until a time plus so many nanoseconds, without blocking a thread.
    static func pass(until end: UInt64, _ more: UInt64) async throws {
        let now = now()
        let left = end > now ? end - now : 0
        try await Task.sleep(for: .nanoseconds(Int64(clamping: left) + Int64(clamping: more)))
    }

    /// Sleeps without blocking a thread.
    static func pass(milliseconds: Int) async throws {
        try await Task.sleep(for: .milliseconds(milliseconds))
    }

    /// Holds up the thread.
    static func sleep(seconds: Double) { Thread.sleep(forTimeInterval: seconds) }
}

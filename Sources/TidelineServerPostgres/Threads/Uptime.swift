// Uptime: time since an arbitrary moment.

import Dispatch
import Foundation

/// The clock for timeouts of statements and waits, which is unrelated to the times of rows.
enum Uptime {
    /// Returns nanoseconds since an arbitrary moment.
    static func now() -> UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// Returns the uptime after a duration from now.
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

    /// Returns the time halfway between now and an end.
    static func half(until end: UInt64) -> UInt64 {
        let now = now()
        return end > now ? now + (end - now) / 2 : end
    }

    /// Sleeps until a number of nanoseconds after a time, without blocking the thread.
    static func pass(until end: UInt64, _ more: UInt64) async throws {
        let now = now()
        let left = end > now ? end - now : 0
        try await Task.sleep(for: .nanoseconds(Int64(clamping: left) + Int64(clamping: more)))
    }

    /// Sleeps without blocking the thread.
    static func pass(milliseconds: Int) async throws {
        try await Task.sleep(for: .milliseconds(milliseconds))
    }

    /// Sleeps and blocks the thread.
    static func sleep(seconds: Double) { Thread.sleep(forTimeInterval: seconds) }
}

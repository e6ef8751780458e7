// BusyPeriod: a wait that a server asked for (`Retry-After`). Pure; the rules are in
// docs/sync.md.

package import Foundation
import TidelineCore

/// A wait that a server asked for, as its length and the time when the response arrived.
///
/// The end of the wait is not stored. If the wall clock was wrong when the response arrived, the
/// end could be years away.
package struct BusyPeriod: Sendable, Hashable {
    /// The device's wall clock when the response arrived.
    package let received: Date
    package let length: Duration
    /// The uptime when the response arrived, which changes of the wall clock do not affect.
    package let uptime: Duration?

    /// Creates a period; `length` is limited to `lengthMax`.
    package init(received: Date, length: Duration, lengthMax: Duration, uptime: Duration? = nil) {
        self.received = received
        self.length = min(max(length, .zero), lengthMax)
        self.uptime = uptime
    }

    /// Returns the remaining time of the wait.
    ///
    /// If the wall clock was set back to a time before the response, the wait is over, because it
    /// would otherwise become longer. If the wall clock and the uptime differ, the shorter
    /// remaining time is used.
    package func remaining(at now: Date, uptime: Duration? = nil) -> Duration {
        let elapsed = now.timeIntervalSince(received)
        guard elapsed >= 0, elapsed < Self.seconds(length) else { return .zero }
        var left = length - .seconds(elapsed)
        if let start = self.uptime, let uptime { left = min(left, length - (uptime - start)) }
        return max(left, .zero)
    }

    private static func seconds(_ duration: Duration) -> TimeInterval {
        let (seconds, attoseconds) = duration.components
        return TimeInterval(seconds) + TimeInterval(attoseconds) / 1e18
    }
}

extension BusyPeriod {
    /// The stored form of the period: its start in milliseconds since 1970, and its length in
    /// milliseconds.
    package var text: String {
        let milliseconds = length.components.seconds * 1000
        return "\(Timestamp(received).milliseconds) \(milliseconds)"
    }

    /// Parses the stored form of a period; nil if the text is not valid.
    package init?(text: String, lengthMax: Duration, now: Date, uptime: Duration?) {
        let numbers = text.split(separator: " ").map { Int64($0) }
        guard numbers.count == 2, let start = numbers[0], let length = numbers[1], length > 0 else {
            return nil
        }
        let received = Date(timeIntervalSince1970: Double(start) / 1000)
        let elapsed = now.timeIntervalSince(received)
        guard elapsed >= 0, elapsed < Double(length) / 1000 else { return nil }
        self.init(
            received: received,
            length: .milliseconds(length),
            lengthMax: lengthMax,
            uptime: uptime.map { $0 - .seconds(elapsed) }
        )
    }
}

/// A parser for the header field `Retry-After` (RFC 9110 section 10.2.3).
package enum RetryAfter {
    /// Returns the wait that a field asks for; nil if the field is invalid.
    ///
    /// A date is relative to `date`, the `Date` field of the same response. If that field is
    /// missing, the date is relative to `serverTime`, the estimated time of the server.
    package static func wait(_ field: String, date: String?, serverTime: Date) -> Duration? {
        let text = field.trimmingCharacters(in: .whitespaces)
        let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
        if !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            let seconds = Int64(text) ?? (text.hasPrefix("-") ? 0 : secondsMax)
            return .seconds(min(max(0, seconds), secondsMax))
        }
        guard let then = HTTPDate.seconds(text) else { return nil }
        let now = date.flatMap(HTTPDate.seconds) ?? Int64(clamping: serverTime)
        let (distance, isTooLarge) = then.subtractingReportingOverflow(now)
        return .seconds(min(max(0, isTooLarge ? 0 : distance), secondsMax))
    }

    /// The maximum wait, which is one year.
    private static let secondsMax: Int64 = 365 * 86_400
}

extension Int64 {
    /// Creates the whole seconds since 1970 of a date, limited to the range of the integer type.
    fileprivate init(clamping date: Date) {
        let seconds = date.timeIntervalSince1970.rounded(.down)
        self = Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max)
    }
}

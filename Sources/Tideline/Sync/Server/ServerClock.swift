// ServerClock: estimates the server's wall clock from the `Date` field of its responses.
//
// A server accepts the idempotency key of a request only if the time of the first attempt is
// neither too long ago nor in the future (docs/protocol.md), and the wall clock of a device may be
// wrong.

import Foundation
import Synchronization
import TidelineCore

/// The difference between the device's wall clock and the server's.
final class ServerClock: Sendable {
    /// The smallest difference that is corrected, because responses take time and their dates are
    /// in whole seconds.
    private static let least: TimeInterval = 60

    /// The number of seconds to add to the device's time.
    private let distance = Mutex<TimeInterval>(0)

    /// Records the `Date` of a response that arrived at `now` on the device's wall clock.
    func note(_ date: String?, at now: Date) {
        guard let date, let seconds = HTTPDate.seconds(date) else { return }
        let found = TimeInterval(seconds) - now.timeIntervalSince1970
        distance.withLock { $0 = abs(found) < Self.least ? 0 : found }
    }

    /// Returns the server's time that corresponds to a time of the device.
    func time(at now: Date) -> Date { now.addingTimeInterval(distance.withLock { $0 }) }
}

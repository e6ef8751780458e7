// ServerClock: how far the clock of the device is from the server's, by the `Date` of its answers.
//
// A server takes the name of a request only when it was first sent neither too long ago nor in the
// future (docs/PROTOCOL.md), and the clock of a device may say anything.

import Foundation
import Synchronization
import TidelineCore

final class ServerClock: Sendable {
    /// Answers travel, and their dates have whole seconds: smaller distances say nothing.
    private static let least: TimeInterval = 60

    /// What is to be added to the device's time.
    private let distance = Mutex<TimeInterval>(0)

    /// Takes note of an answer that came at a time of the device.
    func hear(_ date: String?, at now: Date) {
        guard let date, let seconds = HTTPDate.seconds(date) else { return }
        let found = TimeInterval(seconds) - now.timeIntervalSince1970
        distance.withLock { $0 = abs(found) < Self.least ? 0 : found }
    }

    /// The server's time at a time of the device.
    func time(at now: Date) -> Date { now.addingTimeInterval(distance.withLock { $0 }) }
}

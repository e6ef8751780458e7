// ParkedConditions: the conditions that determine when a parked operation is retried.

import Foundation
import TidelineCore

/// The schema, rights and app version at the time of a temporary rejection.
struct ParkedConditions: Hashable, Sendable {
    /// The server's `Tideline-Schema` when it rejected the operation; nil if the server does not
    /// send one.
    var schema: String?
    /// A string that changes with the claims of the token; nil if the client has no token.
    var rights: String?
    /// The version of the app.
    var app: String

    /// Returns whether a rejection with this status may be temporary, because a table, a column or
    /// a right is missing.
    static func mayPass(_ status: Int?) -> Bool {
        status.map { [400, 403, 404, 405].contains($0) } ?? false
    }

    /// Returns whether an operation that was rejected under these conditions may be accepted under
    /// the conditions `now`.
    ///
    /// A condition that is not known yet counts as unchanged, for example if no token has been
    /// requested.
    func differ(from now: ParkedConditions, status: Int?) -> Bool {
        if app != now.app { return true }
        if let schema = now.schema, schema != self.schema { return true }
        guard status == 403, let rights = now.rights else { return false }
        return rights != self.rights
    }

    /// Returns whether responses do not reveal changes of the server's schema, so that operations
    /// are retried on schedule.
    func haveNoSchema(now: ParkedConditions) -> Bool { schema == nil && now.schema == nil }
}

extension StoredError {
    /// Returns whether another attempt may succeed.
    func mayPass(now: ParkedConditions, isDue: Bool, hasNewRights: Bool) -> Bool {
        guard let conditions else {
            return isOfEarlierVersion && (statusCode == 400 || statusCode == 403)
        }
        if hasNewRights, statusCode == 403 { return true }
        return conditions.differ(from: now, status: statusCode)
            || isDue && conditions.haveNoSchema(now: now)
    }
}

/// The times at which operations are retried if the server does not send `Tideline-Schema`.
struct ParkedSchedule: Hashable, Sendable {
    /// The number of times that the operations were resent.
    var attempts: Int
    var next: Date

    private static let waitFirst: TimeInterval = 15 * 60
    private static let waitMax: TimeInterval = 6 * 3600

    private static func wait(_ attempts: Int) -> TimeInterval {
        min(waitFirst * pow(2, TimeInterval(min(attempts, 10))), waitMax)
    }

    init(attempts: Int, next: Date) {
        self.attempts = attempts
        self.next = next
    }

    /// Creates the schedule for operations that have just been rejected.
    init(from now: Date) { self.init(attempts: 0, next: now.addingTimeInterval(Self.wait(0))) }

    /// Parses a stored schedule.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let attempts = Int(parts[0]), attempts >= 0,
            let seconds = Int64(parts[1])
        else { return nil }
        self.init(attempts: attempts, next: Date(timeIntervalSince1970: TimeInterval(seconds)))
    }

    var text: String { "\(attempts) \(Int64(next.timeIntervalSince1970))" }

    /// Returns whether the next attempt is due; also true if the wall clock was set back.
    func isDue(at now: Date) -> Bool {
        now >= next || next > now.addingTimeInterval(Self.waitMax)
    }

    /// Returns the schedule after an attempt.
    ///
    /// If the schedule was due long ago, it belongs to an earlier rejection and starts over.
    func after(_ now: Date) -> ParkedSchedule {
        let isOld = now > next.addingTimeInterval(Self.waitMax)
        let attempts = isOld ? 0 : attempts + 1
        return ParkedSchedule(
            attempts: attempts,
            next: now.addingTimeInterval(Self.wait(attempts))
        )
    }
}

/// The version of the app, combined with Tideline's.
enum AppVersion {
    /// Returns the version of the app and that of Tideline.
    ///
    /// - Parameter version: The version; nil for the one in the app's bundle.
    /// - Returns: Both versions, with a word between them.
    static func text(_ version: String?) -> String {
        let info = Bundle.main.infoDictionary ?? [:]
        let own = ["CFBundleShortVersionString", "CFBundleVersion"].compactMap {
            info[$0] as? String
        }
        return (version ?? own.joined(separator: " ")) + " Tideline " + ReleaseVersion.text
    }
}

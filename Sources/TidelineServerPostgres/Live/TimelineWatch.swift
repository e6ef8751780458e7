// TimelineWatch: notices that commits are gone: a standby without the last ones was promoted, or a backup
// put in the place of the database while servers ran.
//
// PostgreSQL counts its histories, the timelines. Whoever writes looks at the number on each new
// connection, before anything else: so the first server to come to a new timeline keeps how far the
// tables had come when it began. Each server compares that with what it has told: what was told and is
// not there was lost, and all devices have to pull anew.

import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

final class TimelineWatch: Sendable {
    private let stamps: ReportedStamps
    private let log: ServerLog
    /// The timeline that was seen last.
    private let known = Mutex<String?>(nil)

    init(_ stamps: ReportedStamps, log: ServerLog) {
        self.stamps = stamps
        self.log = log
    }

    /// Looks at the timeline of a new connection.
    ///
    /// Under the lock, so that nothing of a new timeline is told before it was compared.
    ///
    /// - Throws: ``PostgresError`` when the connection is of no use.
    func greet(_ connection: PostgresConnection) throws {
        try known.withLock { known in
            do {
                let found = try connection.run(PostgresSchema.readTimeline).text(0, 0)
                guard found != known else { return }
                let before = known
                // A database that nobody has prepared has no place for it yet.
                if before == nil { known = found }
                let hasOwners = try !OwnerClocks.isMissing(connection)
                let last =
                    try hasOwners
                    ? connection.run(PostgresSchema.readLastWritten).integer(0, 0) : 0
                try connection.run(
                    PostgresSchema.putTimeline(ofOwners: hasOwners),
                    [.text(found), .integer(max(last - OwnerClocks.toldTime, 0))]
                )
                guard let before else { return }
                try compare(before, found, connection)
                known = found
            } catch let error as PostgresError {
                // Not every database that speaks this protocol has timelines.
                if error.isConnectionLost || connection.isBroken { throw error }
            }
        }
    }

    /// What a clock is called in a timeline's beginning: no name of a table has a slash.
    private static func name(of key: ClockKey) -> String {
        guard let owner = key.owner else { return key.table }
        let digits = SHA256.hash(owner.utf8).prefix(16)
            .map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        return "\(key.table)/\(digits.joined())"
    }

    private func compare(
        _ before: String,
        _ found: String,
        _ connection: PostgresConnection
    ) throws {
        let result = try connection.run(PostgresSchema.readTimelineStamps, [.text(found)])
        let pairs = (0..<result.count).map { (result.text($0, 0), result.integer($0, 1)) }
        let begin = Dictionary(pairs, uniquingKeysWith: max)
        let told = stamps.told.filter { key, stamp in
            let name = Self.name(of: key)
            guard stamp > begin[name] ?? 0 else { return false }
            if key.owner == nil || begin[name] != nil { return true }
            // Of owners those stand there that moved of late: what is lost is later than what is not.
            // None do where a server of before came first.
            guard let window = begin["/"] else { return false }
            return stamp > window + OwnerClocks.toldMargin
        }
        let lost = Set(told.keys.map(\.table)).sorted()
        guard !lost.isEmpty else {
            log.write(
                .warning,
                "the database has another timeline, and nothing is lost",
                ["before": before, "timeline": found]
            )
            return
        }
        try connection.run(PostgresSchema.renewEpochOfTimeline, [.text(found)])
        stamps.forget()
        log.write(
            .error,
            "the database has lost commits; all clients pull anew",
            ["before": before, "timeline": found, "tables": lost.joined(separator: ",")]
        )
    }
}

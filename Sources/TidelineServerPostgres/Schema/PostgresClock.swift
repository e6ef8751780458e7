// PostgresClock: table clocks.
//
// A server locks the clock's row before it plans, and holds it until its commit is visible, because PostgreSQL makes
// a transaction visible to others before it releases its locks. So a timestamp is assigned only after all earlier
// ones are visible or rolled back, however many servers write.

/// The commit timestamps of a table, which strictly increase in the order of commits.
enum PostgresClock {
    /// The minimum distance between two commit timestamps of a table, as in every database.
    static let spacing: Int64 = 25

    /// How far timestamps may run ahead of the wall clock to leave a counted millisecond.
    static let aheadMax: Int64 = 1_000_000

    /// How long after a list a reader may still count the rows of its last millisecond.
    static let countedTime: Int64 = 86_400_000_000

    /// The maximum number of rows that can be committed in a millisecond.
    static let all = 1000 / spacing

    /// The position of the entry that a copy adds to the counted departures.
    ///
    /// For milliseconds up to that entry, the number of departed rows is unknown, and all rows count as
    /// departed.
    static let unknown: Int64 = -1

    /// The SQL for the time of the database in microseconds, because the clocks of servers may differ.
    static let microseconds = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

    static let now = "SELECT \(microseconds)"

    /// The SQL condition on a row of a table clock that a reader may count the rows of the last millisecond.
    static let isCounted = "\"counted\" > \(microseconds) - \(countedTime)"

    /// Returns the timestamp after the last one.
    ///
    /// - Parameters:
    ///   - last: The last timestamp.
    ///   - now: The time in microseconds since 1970.
    ///   - isCounted: Whether a reader may count the rows of the millisecond of `last`, so that later rows must belong
    ///     to a later millisecond.
    /// - Returns: A timestamp that is not assigned yet.
    static func next(after last: Int64, now: Int64, isCounted: Bool) -> Int64 {
        let timestamp = max(last + spacing, now)
        guard isCounted, timestamp / 1000 == last / 1000, timestamp - now < aheadMax else {
            return timestamp
        }
        return (last / 1000 + 1) * 1000
    }
}

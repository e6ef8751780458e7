// ClockStamp: the position of a clock, as read from the database or reported by a commit.

import TidelinePostgres

/// How far a clock has come.
struct ClockStamp: Sendable {
    var key: ClockKey
    var stamp: Int64
    /// For a table's own clock: whether its rows get timestamps from the clocks of their owners; nil if that was not
    /// read.
    var isOfOwners: Bool?
}

extension ClockStamp {
    /// The clocks of ``PostgresSchema/readStamps(_:)``.
    static func read(_ result: PostgresResult) -> [ClockStamp] {
        (0..<result.count).map { row in
            ClockStamp(
                key: ClockKey(
                    table: result.text(row, 0),
                    owner: result.isNull(row, 1) ? nil : result.text(row, 1)
                ),
                stamp: result.integer(row, 2),
                isOfOwners: result.boolean(row, 3)
            )
        }
    }
}

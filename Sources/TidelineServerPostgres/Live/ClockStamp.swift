// ClockStamp: how far clocks have come, as a look at all of them and a commit tell it.

import TidelinePostgres

/// How far a clock has come.
struct ClockStamp: Sendable {
    var key: ClockKey
    var stamp: Int64
    /// Of a table's own: whether its rows are stamped by the clocks of their owners; nil where that was not
    /// looked at.
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

// BriefRead: a read may be interrupted by its time limit, by its caller, or by a restart of the log, which cancels all
// reads.

package import TidelineSQLite

/// The result of a read that should be brief.
package enum BriefRead<Result> {
    case ended(Result)
    /// The read exceeded its time limit.
    case tooLong
    /// Each attempt was interrupted for another reason, so that its duration is not known.
    case interrupted

    /// Reads within a time limit, and retries once if another interruption ended the read.
    package init(
        _ database: Database,
        within limit: Duration,
        stop: QueryStop,
        _ body: (Database) throws -> Result
    ) throws {
        for _ in 0..<2 {
            let end = QueryStart().adding(limit)
            do {
                self = .ended(try database.limitTime(limit, stop: stop) { try body(database) })
                return
            } catch let error as SQLiteError where error.isInterrupt {
                try stop.check()
                guard QueryStart().nanoseconds < end else {
                    self = .tooLong
                    return
                }
            }
        }
        self = .interrupted
    }
}

// BriefRead: the result of a read that should be brief, and may be interrupted: by its time limit, its
// caller, or the log, which cancels all reads so that it can restart.

package import TidelineSQLite

package enum BriefRead<Result> {
    case ended(Result)
    /// It took longer than it may.
    case tooLong
    /// Something else interrupted it each time, and its duration is not known.
    case interrupted

    /// Reads within a time limit, and tries a second time if another interruption ended the read.
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

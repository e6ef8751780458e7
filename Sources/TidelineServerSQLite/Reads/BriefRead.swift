// BriefRead: what becomes of a read that should be brief, when something interrupts it: its time, its
// caller, or the log, which ends all reads to begin anew.

package import TidelineSQLite

package enum BriefRead<Result> {
    case ended(Result)
    /// It took longer than it may.
    case tooLong
    /// Others interrupted it each time, and nothing is known of how long it takes.
    case interrupted

    /// Reads within a time, once more where it was not the time that ended it.
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

// IndexFill: adds the rows of a table to an index in batches, so that a long task can be cancelled
// between batches.

import TidelineCore
import TidelineSQLite

extension Database {
    /// The number of rows that are added before the next check for cancellation.
    static let indexBatchRows = 2000

    /// Adds all rows of a table to an index.
    ///
    /// - Parameters:
    ///   - end: A query that reads at most ``indexBatchRows`` rows after the key `?1`, and returns
    ///     the last key and the number of rows.
    ///   - fill: A statement that adds the rows with keys after `?1` and up to `?2`.
    ///   - progress: Receives the number of rows that have been added so far.
    /// - Throws: An error of SQLite or of `progress`.
    func fillIndex(end: String, fill: String, _ progress: (Int) throws -> Void) throws {
        var (last, count) = (Int64.min, 0)
        while true {
            let statement = try prepare(end)
            try statement.bind([.integer(last)])
            guard try statement.step(), !statement.isNull(0) else { return statement.reset() }
            let (next, added) = (statement.integer(0), Int(statement.integer(1)))
            statement.reset()
            try prepare(fill).run([.integer(last), .integer(next)])
            last = next
            count += added
            guard added == Self.indexBatchRows else { return }
            try progress(count)
        }
    }
}

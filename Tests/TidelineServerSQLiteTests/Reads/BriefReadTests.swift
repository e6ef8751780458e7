// BriefReadTests: reads that are interrupted by their time limit, and for other reasons.

import Testing
import TidelineSQLite
import TidelineServerSQLite

@Suite struct BriefReadTests {
    private static let long = """
        WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000000)
        SELECT count(*) FROM numbers
        """

    /// Fails like a statement that is interrupted for a WAL checkpoint.
    private static func interrupted(_ database: Database) throws -> Int64? {
        try database.limitTime(.zero) { try database.integer(long) }
    }

    @Test("A brief read that is interrupted from outside is retried once")
    func aReadInterruptedFromOutsideIsRetriedOnce() throws {
        let database = try Database(path: ":memory:")
        var tries = 0
        let read = try BriefRead(database, within: .seconds(60), stop: QueryStop()) { database in
            tries += 1
            return tries == 1 ? try Self.interrupted(database) : 5
        }
        guard case .ended(5) = read else {
            Issue.record("\(read)")
            return
        }
        #expect(tries == 2)
    }

    @Test("A brief read that is interrupted twice does not count as too long")
    func aReadInterruptedEachTimeIsNotTakenForLong() throws {
        let database = try Database(path: ":memory:")
        var tries = 0
        let read = try BriefRead(database, within: .seconds(60), stop: QueryStop()) { database in
            tries += 1
            return try Self.interrupted(database)
        }
        guard case .interrupted = read else {
            Issue.record("\(read)")
            return
        }
        #expect(tries == 2)
    }

    @Test("A brief read that takes too long is not retried")
    func aReadThatTakesTooLongIsNotRetried() throws {
        let database = try Database(path: ":memory:")
        var tries = 0
        let read = try BriefRead(database, within: .milliseconds(1), stop: QueryStop()) {
            database in
            tries += 1
            return try database.integer(Self.long)
        }
        guard case .tooLong = read else {
            Issue.record("\(read)")
            return
        }
        #expect(tries == 1)
    }

    @Test("A brief read of a cancelled caller ends with a cancellation error")
    func aReadOfACancelledCallerEnds() throws {
        let database = try Database(path: ":memory:")
        let stop = QueryStop()
        stop.set()
        #expect(throws: CancellationError.self) {
            _ = try BriefRead(database, within: .seconds(60), stop: stop, Self.interrupted)
        }
    }
}

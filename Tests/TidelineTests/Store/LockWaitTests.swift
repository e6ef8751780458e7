// LockWait: how long a connection waits for a lock that another connection holds.

import Testing
import TidelineSQLite
import TidelineTestSupport

@Suite struct LockWaitTests {
    @Test("A connection retries in short steps until its lock timeout")
    func aConnectionTriesAgainInShortStepsUntilItsLimit() {
        let attempts = (0...10_000).prefix { LockWait.mayWait(after: $0, limit: 5000) }.count
        #expect(attempts == 1000)
    }

    @Test("A connection without a lock timeout does not wait")
    func aConnectionWithoutALimitDoesNotWait() {
        #expect(!LockWait.mayWait(after: 0, limit: 0))
    }

    @Test("A lock that is not released before the lock timeout is an error")
    func aLockThatIsHeldLongerThanTheLimitIsAnError() async throws {
        try await withTemporaryFile { path in
            let first = try Database(path: path)
            let second = try Database(path: path, busyMilliseconds: 20)
            try first.execute("BEGIN IMMEDIATE")
            let error = #expect(throws: SQLiteError.self) { try second.execute("BEGIN IMMEDIATE") }
            #expect(error?.isBusy == true)
            try first.execute("ROLLBACK")
            try second.execute("BEGIN IMMEDIATE")
            try second.execute("ROLLBACK")
        }
    }
}

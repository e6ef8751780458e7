// A transaction that SQLite rolls back before its end stores nothing, even if its body goes on.

import Foundation
import Testing
import Tideline
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

struct RolledBackTests {
    private func isFull(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch let error as SQLiteError {
            return error.isFull
        } catch {
            return false
        }
    }

    @Test("A transaction that a full disk rolled back commits none of its later statements")
    func fullDisk() async throws {
        try await withTemporaryFile { path in
            let database = try Database(path: path)
            try database.execute("CREATE TABLE t (a); PRAGMA max_page_count = 20")
            let isRejected = isFull {
                try database.transaction {
                    try database.execute("INSERT INTO t VALUES ('first')")
                    let fill = try database.prepare("INSERT INTO t VALUES (randomblob(5000))")
                    #expect(isFull { for _ in 0..<20 { try fill.run() } })
                    #expect(!database.isInTransaction)
                    let second = "INSERT INTO t VALUES ('second')"
                    #expect(isFull { try database.prepare(second).run() })
                    #expect(isFull { try database.execute("INSERT INTO t VALUES ('third')") })
                    #expect(isFull { try database.savepoint {} })
                }
            }
            #expect(isRejected)
            #expect(try database.integer("SELECT count(*) FROM t") == 0)
            // The next transaction is a new one.
            try database.transaction { try database.execute("INSERT INTO t VALUES ('fourth')") }
            #expect(try database.integer("SELECT count(*) FROM t") == 1)
        }
    }
}

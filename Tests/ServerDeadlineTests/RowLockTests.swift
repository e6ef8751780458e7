// Goal: a transaction that holds a row delays only the writes that need that row.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit
import TidelineTestSupport

@Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct RowLockTests {
    /// Another transaction that holds the row `ann`.
    private static let hold = "SELECT 1 FROM \"TodoItem\" WHERE \"id\" = 'ann' FOR UPDATE"

    private static func expectBusy(_ batch: Task<[GroupOutcome], any Error>) async {
        let error = await #expect(throws: ServerError.self) {
            _ = try await OwnedTable.isDone(batch)
        }
        #expect(error?.status == 503)
    }

    @Test(
        "Other rows are written while another transaction holds the lock of a row",
        arguments: [true, false]
    )
    func otherRowsAreWrittenWhileARowIsLocked(isChanged: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        let store = try await OwnedTable.store(url, table) { $0.times.lock = 4000 }
        for id in ["ann", "bob"] { _ = try await OwnedTable.put(id, of: id, store, table) }
        let hold =
            isChanged
            ? "UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'ann'"
            : "SELECT 1 FROM \"TodoItem\" WHERE \"id\" = 'ann' FOR UPDATE"
        try await OwnedTable.holding(url, hold) { _ in
            let (hers, his) = try await OwnedTable.together(
                url,
                store,
                OwnedTable.write("ann", of: "ann", by: .merge, table),
                OwnedTable.write("b2", of: "bob", table),
                table
            )
            let isAnswered = Flag()
            let answer = Task {
                await Self.expectBusy(hers)
                isAnswered.set()
            }
            #expect(try await OwnedTable.isDone(his))
            _ = try await OwnedTable.put("bob", of: "bob", by: .merge, store, table)
            #expect(!isAnswered.isSet)
            await answer.value
            // The lock is recorded, and no write waits for it again. The caller's other rows are free.
            let begin = ContinuousClock.now
            await #expect(throws: ServerError.self) {
                _ = try await OwnedTable.put("ann", of: "ann", by: .merge, store, table)
            }
            _ = try await OwnedTable.put("a2", of: "ann", store, table)
            #expect(ContinuousClock.now - begin < .seconds(3))
        }
        await store.stop()
    }

    @Test(
        "A batch is executed when its locked row is released, even if the row is removed",
        arguments: [true, false]
    )
    func aWriteThatWaitedForARowIsExecuted(isRemoved: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        // Long enough for the first wait to be observed.
        let store = try await OwnedTable.store(url, table) { options in
            options.times.lock = 20_000
            options.times.briefLock = 1500
            options.times.statement = 30_000
        }
        for id in ["ann", "bob"] { _ = try await OwnedTable.put(id, of: id, store, table) }
        let hold =
            isRemoved
            ? "DELETE FROM \"TodoItem\" WHERE \"id\" = 'ann'"
            : "UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'ann'"
        let writes = [
            OwnedTable.write("a2", of: "ann", table),
            OwnedTable.write("ann", of: "ann", by: .merge, table),
        ]
        let isAnswered = Flag()
        let hers = try await OwnedTable.holding(url, hold) { _ in
            let hers = Task {
                defer { isAnswered.set() }
                return try await store.write(WriteBatch(writes.map { WriteBatch.Group([$0]) }))
            }
            try await OwnedTable.waiting(url)
            _ = try await OwnedTable.put("b2", of: "bob", store, table)
            #expect(!isAnswered.isSet)
            return hers
        }
        let outcomes = try await hers.value
        #expect(outcomes.map(\.isDone) == [true, !isRemoved])
        await store.stop()
    }

    @Test("A restarted transaction does not wait for the locked row again")
    func aTransactionWaitsForALockedRowOnce() async throws {
        let url = try PostgresCluster.shared().database()
        // Long enough to be observed.
        let store = try await OwnedTable.store(url) { options in
            options.times.lock = 6000
            options.times.briefLock = 1500
        }
        var notes = TestServer.todo
        notes.schema.name = "Notes"
        let tables = [OwnedTable.definition(), notes]
        _ = try await store.prepare(tables, filtered: [], isComplete: true)
        var note = WriteOperation(.insert, id: "n")
        note.values = [.text("x"), .integer(0), nil]
        let created = WriteBatch.Write(note, in: Table(notes))
        _ = try await store.write(WriteBatch([WriteBatch.Group([created])]))
        note.kind = .merge
        let batch = WriteBatch([
            WriteBatch.Group([OwnedTable.write("a", of: "ann")]),
            WriteBatch.Group([WriteBatch.Write(note, in: Table(notes))]),
        ])
        let hold = "SELECT 1 FROM \"Notes\" FOR UPDATE"
        try await OwnedTable.holding(url, hold) { holder in
            let number = try OwnedTable.number(of: holder)
            let isAnswered = Flag()
            let write = Task {
                defer { isAnswered.set() }
                return try await store.write(batch)
            }
            var transactions: Set<String> = []
            try await until {
                transactions.formUnion(try OwnedTable.waits(url, for: number))
                return isAnswered.isSet
            }
            #expect(transactions.count == 1)
            let outcomes = try await write.value
            #expect(outcomes.count == 2 && !outcomes.contains(where: \.isDone))
        }
        await store.stop()
    }

    /// At every moment a transaction references the row.
    ///
    /// A row that does not become free while a write is in the queue counts as locked.
    @Test("A row that is always locked by some of many transactions counts as locked")
    func aRowThatManyTransactionsReferenceCountsAsLocked() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        let store = try await OwnedTable.store(url, table)
        for id in ["ann", "bob"] { _ = try await OwnedTable.put(id, of: id, store, table) }
        let share = "SELECT 1 FROM \"TodoItem\" WHERE \"id\" = 'ann' FOR KEY SHARE"
        let isOver = Flag()
        try await OwnedTable.holding(url, share) { _ in
            let sharers = (0..<4).map { _ in
                Task {
                    try await onThread {
                        let connection = try PostgresConnection(PostgresAddress(url))
                        while !isOver.isSet {
                            try connection.execute(
                                "BEGIN; \(share); SELECT pg_sleep(0.005); COMMIT"
                            )
                        }
                    }
                }
            }
            let first = Task {
                try await store.write(
                    WriteBatch([.init([OwnedTable.write("ann", of: "ann", by: .merge, table)])])
                )
            }
            await Self.expectBusy(first)
            let begin = ContinuousClock.now
            await #expect(throws: ServerError.self) {
                _ = try await OwnedTable.put("ann", of: "ann", by: .merge, store, table)
            }
            #expect(ContinuousClock.now - begin < .seconds(1.5))
            _ = try await OwnedTable.put("bob", of: "bob", by: .merge, store, table)
            isOver.set()
            for sharer in sharers { try await sharer.value }
        }
        await store.stop()
    }

    /// Each lock is free in time, but all of them together take too long.
    @Test("A batch that waits for many short locks does not delay another write too long")
    func rowsThatTakeTooLongTogetherCountAsLocked() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        let store = try await OwnedTable.store(url, table) { options in
            options.times.lock = 30_000
            options.times.briefLock = 400
        }
        let ids = (10..<30).map { "a\($0)" }
        for id in ids + ["bob"] { _ = try await OwnedTable.put(id, of: "ann", store, table) }
        var holders = try ids.map { id in
            let holder = try PostgresConnection(PostgresAddress(url))
            try holder.execute(
                "BEGIN; SELECT 1 FROM \"TodoItem\" WHERE \"id\" = '\(id)' FOR UPDATE"
            )
            return holder
        }
        let batch = WriteBatch(
            ids.map { .init([OwnedTable.write($0, of: "ann", by: .merge, table)]) }
        )
        let hers = Task { try await store.write(batch) }
        try await OwnedTable.waiting(url)
        let isDone = Flag()
        let his = Task {
            defer { isDone.set() }
            return try await OwnedTable.put("bob", of: "ann", by: .merge, store, table)
        }
        for _ in 0..<holders.count where !isDone.isSet {
            // Three quarters of the time that PostgreSQL waits for each lock.
            try await Task.sleep(for: .milliseconds(300))
            try holders.removeFirst().execute("COMMIT")
        }
        #expect(!holders.isEmpty)
        #expect(try await his.value.decision.isSuccess)
        for holder in holders { try holder.execute("COMMIT") }
        let outcomes = try await hers.value
        #expect(outcomes.count == 20)
        #expect(!outcomes.contains { !$0.isDone })
        await store.stop()
    }

    @Test("A server that stops waits for a locked row no longer than for any lock")
    func aServerStopsWhileARowIsLocked() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url) { $0.times.lock = 6000 }
        for id in ["ann", "bob"] { _ = try await OwnedTable.put(id, of: id, store) }
        try await OwnedTable.holding(url, Self.hold) { _ in
            let hers = Task { try await OwnedTable.put("ann", of: "ann", by: .merge, store) }
            _ = try await OwnedTable.put("bob", of: "bob", by: .merge, store)
            await store.stop()
            let error = await #expect(throws: ServerError.self) { _ = try await hers.value }
            #expect(error?.status == 503)
        }
    }

    @Test("A locked row that the caller may not see is reported as missing without a wait")
    func aLockedRowOfAnotherUserIsMissing() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        let store = try await OwnedTable.store(url, table)
        for id in ["ann", "bob"] { _ = try await OwnedTable.put(id, of: id, store, table) }
        var hers = OwnedTable.write("ann", of: "bob", by: .merge, table)
        hers.operation.view = QueryExpression(
            .compare(
                .eq,
                QueryExpression(.field("userId")),
                QueryExpression(.value(.string("bob")))
            )
        )
        let batch = WriteBatch([WriteBatch.Group([hers])])
        let hold = "UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'ann'"
        try await OwnedTable.holding(url, hold) { _ in
            let begin = ContinuousClock.now
            let outcome = try #require(try await store.write(batch).first)
            guard case .rejected(_, let rejected) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(rejected.decision == .missing)
            #expect(ContinuousClock.now - begin < .seconds(2))
        }
        await store.stop()
    }

    // MARK: - Schema versions

    @Test("A table change that waits for another program's open change is rejected soon")
    func aTableChangeThatMustWaitIsRejectedSoon() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url)
        _ = try await OwnedTable.put("bob", of: "bob", store)
        var grows = WriteOperation(.merge, id: "bob")
        grows.values = [.text("x"), nil, nil, nil, .text("more")]
        let batch = WriteBatch([
            WriteBatch.Group([
                WriteBatch.Write(grows, in: OwnedTable.grown(OwnedTable.definition()))
            ])
        ])
        try await OwnedTable.holding(url, "SELECT pg_advisory_xact_lock(6072326741)") { _ in
            let begin = ContinuousClock.now
            await Self.expectBusy(Task { try await store.write(batch) })
            #expect(ContinuousClock.now - begin < .seconds(6))
        }
        await store.stop()
    }

    /// Rows are read with the latest columns, whether or not locked rows are skipped.
    @Test(
        "A write with an outdated schema version is rejected in a shared transaction",
        arguments: [false, true],
        [false, true]
    )
    func twoSchemaVersionsInOneTransaction(olderIsLast: Bool, isLocked: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url)
        for id in ["ann", "bob"] { _ = try await OwnedTable.put(id, of: id, store) }
        var old = OwnedTable.definition()
        old.form = try await store.stored("todoitem")?.form
        var grows = WriteOperation(.merge, id: "bob")
        grows.values = [.text("x"), nil, nil, nil, .text("more")]
        let write = WriteBatch.Write(grows, in: OwnedTable.grown(old))
        _ = try await store.write(WriteBatch([WriteBatch.Group([write])]))
        let new = try #require(try await store.stored("todoitem"))
        #expect(new.form != old.form)
        var held = WriteOperation(.merge, id: "ann")
        held.values = grows.values
        let changes = [
            WriteBatch.Write(grows, in: Table(new)),
            OwnedTable.write("bob", of: "bob", by: .merge, old),
        ]
        let order = olderIsLast ? [0, 1] : [1, 0]
        let hold = isLocked ? Self.hold : "SELECT 1"
        try await OwnedTable.holding(url, hold) { [held] _ in
            if isLocked {
                // From now on, other transactions skip the locked row.
                await Self.expectBusy(
                    Task {
                        let hers = WriteBatch.Write(held, in: Table(new))
                        return try await store.write(WriteBatch([WriteBatch.Group([hers])]))
                    }
                )
            }
            let (first, second) = try await OwnedTable.together(
                url,
                store,
                changes[order[0]],
                changes[order[1]]
            )
            let (newer, older) = olderIsLast ? (first, second) : (second, first)
            #expect(try await OwnedTable.isDone(newer))
            await #expect(throws: OutdatedTable.self) { _ = try await OwnedTable.isDone(older) }
        }
        await store.stop()
    }
}

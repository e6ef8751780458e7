// Goal: while another transaction has locked a table or its clock, only writes to that table wait. They continue as soon
// as the lock is free, or are rejected.

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
struct TableLockTests {
    private static let todo = OwnedTable.definition()
    private static let notes = OwnedTable.definition { $0.schema.name = "Notes" }

    private static let holdsClock = """
        SELECT 1 FROM tideline.clocks WHERE "table" = 'todoitem' FOR UPDATE
        """

    /// Locks as taken by a long commit, a migration, a new index, and a change of a column.
    private static let holds = [
        holdsClock,
        "LOCK TABLE \"TodoItem\" IN EXCLUSIVE MODE",
        "LOCK TABLE \"TodoItem\" IN SHARE MODE",
        "LOCK TABLE \"TodoItem\" IN ACCESS EXCLUSIVE MODE",
    ]

    private static func store(
        _ url: String,
        _ tables: [TableDefinition] = [todo, notes],
        _ change: (inout PostgresTableStore.Options) -> Void = { _ in }
    ) async throws -> PostgresTableStore {
        let store = try await OwnedTable.store(url, prepares: false, change)
        _ = try await store.prepare(tables, filtered: [], isComplete: true)
        return store
    }

    private static func expectBusy(_ batch: Task<[GroupOutcome], any Error>) async {
        let error = await #expect(throws: ServerError.self) {
            _ = try await OwnedTable.isDone(batch)
        }
        #expect(error?.status == 503)
    }

    @Test(
        "Other tables are written while another transaction holds the lock of a table",
        arguments: holds
    )
    func otherTablesAreWrittenWhileATableIsLocked(hold: String) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url) { $0.times.lock = 4000 }
        try await OwnedTable.holding(url, hold) { _ in
            let (hers, his) = try await OwnedTable.together(
                url,
                store,
                OwnedTable.write("a", of: "ann", Self.todo),
                OwnedTable.write("b", of: "bob", Self.notes),
                Self.notes
            )
            let isAnswered = Flag()
            let answer = Task {
                await Self.expectBusy(hers)
                isAnswered.set()
            }
            #expect(try await OwnedTable.isDone(his))
            for number in 0..<5 {
                _ = try await OwnedTable.put("b\(number)", of: "bob", store, Self.notes)
            }
            #expect(!isAnswered.isSet)
            await answer.value
            // A retried write waits for the lock again, but alone.
            let again = Task {
                try await store.write(
                    WriteBatch([.init([OwnedTable.write("a", of: "ann", Self.todo)])])
                )
            }
            for number in 5..<10 {
                _ = try await OwnedTable.put("b\(number)", of: "bob", store, Self.notes)
            }
            await Self.expectBusy(again)
        }
        // Nothing of the rejected write was stored, and writes to free tables are not rejected.
        #expect(try await OwnedTable.put("a", of: "ann", store, Self.todo).decision == .insert)
        await store.stop()
    }

    @Test(
        "A batch that waited for a locked table is executed when the lock is released",
        arguments: holds
    )
    func aWriteThatWaitedForATableIsExecuted(hold: String) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url) { $0.times.lock = 30_000 }
        _ = try await OwnedTable.put("ann", of: "ann", store, Self.todo)
        let writes = [
            OwnedTable.write("n", of: "ann", Self.notes),
            OwnedTable.write("a", of: "ann", Self.todo),
            OwnedTable.write("ann", of: "ann", by: .merge, Self.todo),
        ]
        let isAnswered = Flag()
        let hers = try await OwnedTable.holding(url, hold) { _ in
            let hers = Task {
                defer { isAnswered.set() }
                return try await store.write(WriteBatch(writes.map { WriteBatch.Group([$0]) }))
            }
            for number in 0..<20 {
                _ = try await OwnedTable.put("b\(number)", of: "bob", store, Self.notes)
            }
            // Nothing of its batch was stored.
            #expect(try await store.read("n", view: nil, in: Table(Self.notes)) == nil)
            #expect(!isAnswered.isSet)
            return hers
        }
        let outcomes = try await hers.value
        #expect(outcomes.map(\.isDone) == [true, true, true])
        await store.stop()
    }

    @Test("A third table is written while a table clock and another table are locked")
    func severalTablesAreLocked() async throws {
        let url = try PostgresCluster.shared().database()
        let other = OwnedTable.definition { $0.schema.name = "Other" }
        let store = try await Self.store(url, [Self.todo, Self.notes, other])
        let hold = Self.holdsClock + "; LOCK TABLE \"Notes\" IN EXCLUSIVE MODE"
        try await OwnedTable.holding(url, hold) { _ in
            let held = [Self.todo, Self.notes].map { table in
                Task {
                    try await store.write(
                        WriteBatch([.init([OwnedTable.write("a", of: "ann", table)])])
                    )
                }
            }
            let (hers, his) = try await OwnedTable.together(
                url,
                store,
                OwnedTable.write("a2", of: "ann", Self.todo),
                OwnedTable.write("b", of: "bob", other),
                other
            )
            #expect(try await OwnedTable.isDone(his))
            for batch in held + [hers] { await Self.expectBusy(batch) }
        }
        for table in [Self.todo, Self.notes] {
            #expect(try await OwnedTable.put("a", of: "ann", store, table).decision == .insert)
        }
        await store.stop()
    }

    /// Several transactions write to one table, each for a short time, while another table is locked.
    @Test("A contended table clock does not count as locked")
    func aContendedClockDoesNotCountAsLocked() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url)
        let isOver = Flag()
        try await OwnedTable.holding(url, "LOCK TABLE \"Notes\" IN EXCLUSIVE MODE") { _ in
            let writers = (0..<6).map { _ in
                Task {
                    try await onThread {
                        let connection = try PostgresConnection(PostgresAddress(url))
                        while !isOver.isSet {
                            try connection.execute(
                                "BEGIN; \(Self.holdsClock); SELECT pg_sleep(0.008); COMMIT"
                            )
                        }
                    }
                }
            }
            let held = Task {
                try await store.write(
                    WriteBatch([.init([OwnedTable.write("n", of: "ann", Self.notes)])])
                )
            }
            for number in 0..<10 {
                _ = try await OwnedTable.put("a\(number)", of: "bob", store, Self.todo)
            }
            await Self.expectBusy(held)
            _ = try await OwnedTable.put("a", of: "bob", store, Self.todo)
            isOver.set()
            for writer in writers { try await writer.value }
        }
        await store.stop()
    }

    @Test("A server stops in time while a write waits for a locked table", arguments: holds)
    func aServerStopsWhileATableIsLocked(hold: String) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url) { $0.times.lock = 30_000 }
        try await OwnedTable.holding(url, hold) { _ in
            let hers = Task {
                try await store.write(
                    WriteBatch([.init([OwnedTable.write("a", of: "ann", Self.todo)])])
                )
            }
            for number in 0..<5 {
                _ = try await OwnedTable.put("b\(number)", of: "bob", store, Self.notes)
            }
            let begin = ContinuousClock.now
            await store.stop()
            await Self.expectBusy(hers)
            #expect(ContinuousClock.now - begin < .seconds(15))
        }
    }

    // MARK: - Schema versions

    /// The transaction adds a column to another table first, and so reads its rows again.
    ///
    /// A write that needs a locked row waits all the same.
    @Test("A write that needs a locked row waits after a table change in its transaction")
    func aWriteAfterATableChangeWaits() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url) { $0.times.lock = 30_000 }
        _ = try await OwnedTable.put("ann", of: "ann", store, Self.todo)
        var grows = WriteOperation(.insert, id: "n")
        grows.values = [.text("x"), .integer(0), nil, .text("bob"), .text("more")]
        let write = WriteBatch.Write(grows, in: OwnedTable.grown(Self.notes))
        let hold = "SELECT 1 FROM \"TodoItem\" WHERE \"id\" = 'ann' FOR UPDATE"
        let isAnswered = Flag()
        let (hers, answer) = try await OwnedTable.holding(url, hold) { _ in
            let (wider, hers) = try await OwnedTable.together(
                url,
                store,
                write,
                OwnedTable.write("ann", of: "ann", by: .merge, Self.todo),
                Self.notes
            )
            let answer = Task {
                _ = await hers.result
                isAnswered.set()
            }
            #expect(try await OwnedTable.isDone(wider))
            #expect(!isAnswered.isSet)
            return (hers, answer)
        }
        await answer.value
        #expect(try await OwnedTable.isDone(hers))
        await store.stop()
    }

    @Test("Only the write that names a removed column is rejected")
    func onlyWritesOfARemovedColumnAreRejected() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url)
        let form = try #require(try await store.stored("todoitem")?.form)
        let old = OwnedTable.definition { $0.form = form }
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            ALTER TABLE "TodoItem" RENAME COLUMN "rank" TO "place";
            UPDATE tideline.tables SET "schema" = "schema" + 1 WHERE "name" = 'todoitem'
            """
        )
        let (hers, his) = try await OwnedTable.together(
            url,
            store,
            OwnedTable.write("a", of: "ann", old),
            OwnedTable.write("b", of: "bob", Self.notes),
            Self.notes
        )
        await #expect(throws: OutdatedTable.self) { _ = try await OwnedTable.isDone(hers) }
        #expect(try await OwnedTable.isDone(his))
        await store.stop()
    }
}

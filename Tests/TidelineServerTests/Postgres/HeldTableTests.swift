// Goal: who has a whole table, or its clock, holds up those who write to that table and nobody else; they are done as
// soon as it is free, or refused.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct HeldTableTests {
    private static let todo = OwnedTable.definition()
    private static let notes = OwnedTable.definition { $0.schema.name = "Notes" }

    private static let holdsClock = """
        SELECT 1 FROM tideline.clocks WHERE "table" = 'todoitem' FOR UPDATE
        """

    /// As a long commit of others, a migration, an index that is made, and a change of a column.
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

    @Test(arguments: holds) func othersAreWrittenWhileSomebodyHasATable(hold: String) async throws {
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
            // Who comes again waits for it anew, and nobody with him.
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
        // Nothing of what was refused was done, and nobody is refused for what is free.
        #expect(try await OwnedTable.put("a", of: "ann", store, Self.todo).decision == .insert)
        await store.stop()
    }

    @Test(arguments: holds) func aWriteThatWaitedForATableIsDone(hold: String) async throws {
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
            // Nothing of its batch was done.
            #expect(try await store.read("n", view: nil, in: Table(Self.notes)) == nil)
            #expect(!isAnswered.isSet)
            return hers
        }
        let outcomes = try await hers.value
        #expect(outcomes.map(\.isDone) == [true, true, true])
        await store.stop()
    }

    /// The clock of one and the whole of the other; others are done with both of them.
    @Test func severalTablesAreHeld() async throws {
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

    /// Several others write to a table, each for a moment, while somebody has another one.
    @Test func aBusyClockIsNoHeldOne() async throws {
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

    @Test(arguments: holds) func aServerStopsMeanwhile(hold: String) async throws {
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

    // MARK: - Forms

    /// A column that is added to another table before it makes rows be read again; a write that needs a held row waits
    /// all the same.
    @Test func aWriteBehindATableThatGrowsWaits() async throws {
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

    /// A column is gone; only who asked for it learns that the table has another form.
    @Test func aColumnThatIsGoneIsToldToThoseWhoAskedForIt() async throws {
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

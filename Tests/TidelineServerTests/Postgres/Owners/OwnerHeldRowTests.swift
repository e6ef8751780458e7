// Goal: who has a row, or a clock that nothing names, holds up those who need it and nobody else; who has a
// clock for moments is no holder of it.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerHeldRowTests {
    private static func expectBusy(_ batch: Task<[GroupOutcome], any Error>) async {
        let error = await #expect(throws: ServerError.self) {
            _ = try await OwnerTable.isDone(batch)
        }
        #expect(error?.status == 503)
    }

    // MARK: - Rows

    /// A lock, and a change; with it the clock of its owner, as a server has it that stands still.
    @Test(arguments: [ClockRule.table, .owner], [true, false])
    func othersAreWrittenWhileSomebodyHasARow(clock: ClockRule, isChanged: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(clock)
        let store = try await OwnerTable.store(url, table) { $0.times.lock = 4000 }
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store, table) }
        let hasClock = isChanged && clock == .owner
        let hold =
            isChanged
            ? "UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'ann'"
                + (hasClock ? "; SET CONSTRAINTS ALL IMMEDIATE" : "")
            : "SELECT 1 FROM \"TodoItem\" WHERE \"id\" = 'ann' FOR UPDATE"
        try await OwnerTable.holding(url, hold) { _ in
            let (hers, his) = try await OwnerTable.together(
                url,
                store,
                OwnerTable.write("ann", of: "ann", by: .merge, table),
                OwnerTable.write("b2", of: "bob", table),
                table
            )
            let isAnswered = Flag()
            let answer = Task {
                await Self.expectBusy(hers)
                isAnswered.set()
            }
            #expect(try await OwnerTable.isDone(his))
            _ = try await OwnerTable.put("bob", of: "bob", by: .merge, store, table)
            #expect(!isAnswered.isSet)
            await answer.value
            // It is remembered, and nobody waits for it again. Her other rows are free.
            let begin = ContinuousClock.now
            await #expect(throws: ServerError.self) {
                _ = try await OwnerTable.put("ann", of: "ann", by: .merge, store, table)
            }
            if !hasClock { _ = try await OwnerTable.put("a2", of: "ann", store, table) }
            #expect(ContinuousClock.now - begin < .seconds(3))
        }
        await store.stop()
    }

    /// With all of its batch; a row that goes meanwhile is free, too.
    @Test(arguments: [ClockRule.table, .owner], [true, false])
    func aWriteThatWaitedForARowIsDone(clock: ClockRule, isRemoved: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(clock)
        // Long enough for the first wait to be seen.
        let store = try await OwnerTable.store(url, table) { options in
            options.times.lock = 20_000
            options.times.heldLock = 1500
            options.times.statement = 30_000
        }
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store, table) }
        let hold =
            isRemoved
            ? "DELETE FROM \"TodoItem\" WHERE \"id\" = 'ann'"
            : "UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'ann'"
        let writes = [
            OwnerTable.write("a2", of: "ann", table),
            OwnerTable.write("ann", of: "ann", by: .merge, table),
        ]
        let isAnswered = Flag()
        let hers = try await OwnerTable.holding(url, hold) { _ in
            let hers = Task {
                defer { isAnswered.set() }
                return try await store.write(WriteBatch(writes.map { WriteBatch.Group([$0]) }))
            }
            try await OwnerTable.waiting(url)
            _ = try await OwnerTable.put("b2", of: "bob", store, table)
            #expect(!isAnswered.isSet)
            return hers
        }
        let outcomes = try await hers.value
        #expect(outcomes.map(\.isDone) == [true, !isRemoved])
        await store.stop()
    }

    /// Others refer to a row, and there is always one of them: what does not come free in line is held.
    @Test func aRowWhoseSharersChangeIsHeld() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(.table)
        let store = try await OwnerTable.store(url, table)
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store, table) }
        let share = "SELECT 1 FROM \"TodoItem\" WHERE \"id\" = 'ann' FOR KEY SHARE"
        let isOver = Flag()
        try await OwnerTable.holding(url, share) { _ in
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
                    WriteBatch([.init([OwnerTable.write("ann", of: "ann", by: .merge, table)])])
                )
            }
            await Self.expectBusy(first)
            let begin = ContinuousClock.now
            await #expect(throws: ServerError.self) {
                _ = try await OwnerTable.put("ann", of: "ann", by: .merge, store, table)
            }
            #expect(ContinuousClock.now - begin < .seconds(1.5))
            _ = try await OwnerTable.put("bob", of: "bob", by: .merge, store, table)
            isOver.set()
            for sharer in sharers { try await sharer.value }
        }
        await store.stop()
    }

    /// Each of them comes in time, and all together do not.
    @Test func rowsThatTakeTooLongTogetherAreHeld() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(.table)
        let store = try await OwnerTable.store(url, table) { options in
            options.times.lock = 30_000
            options.times.heldLock = 400
        }
        let ids = (10..<30).map { "a\($0)" }
        for id in ids + ["bob"] { _ = try await OwnerTable.put(id, of: "ann", store, table) }
        var holders = try ids.map { id in
            let holder = try PostgresConnection(PostgresAddress(url))
            try holder.execute(
                "BEGIN; SELECT 1 FROM \"TodoItem\" WHERE \"id\" = '\(id)' FOR UPDATE"
            )
            return holder
        }
        let batch = WriteBatch(
            ids.map { .init([OwnerTable.write($0, of: "ann", by: .merge, table)]) }
        )
        let hers = Task { try await store.write(batch) }
        try await OwnerTable.waiting(url)
        let isDone = Flag()
        let his = Task {
            defer { isDone.set() }
            return try await OwnerTable.put("bob", of: "ann", by: .merge, store, table)
        }
        while !isDone.isSet, !holders.isEmpty {
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

    // MARK: - Clocks

    /// Several others write for bob, each for a moment, and there is always one of them.
    @Test func aBusyClockIsNoHeldOne() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store) }
        let isOver = Flag()
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let writers = (0..<6).map { _ in
                Task {
                    try await onThread {
                        let connection = try PostgresConnection(PostgresAddress(url))
                        while !isOver.isSet {
                            try connection.execute(
                                """
                                BEGIN; \(OwnerTable.hold("bob")); SELECT pg_sleep(0.008); COMMIT
                                """
                            )
                        }
                    }
                }
            }
            let (hers, his) = try await OwnerTable.together(
                url,
                store,
                OwnerTable.write("a2", of: "ann"),
                OwnerTable.write("b2", of: "bob")
            )
            #expect(try await OwnerTable.isDone(his))
            await Self.expectBusy(hers)
            isOver.set()
            for writer in writers { try await writer.value }
        }
        await store.stop()
    }

    /// The time of a statement is over before that of a lock.
    @Test func clocksThatTakeTooLongTogetherAreHeld() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url) { options in
            options.times.lock = 3500
            options.times.heldLock = 9000
            options.times.statement = 2500
        }
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store) }
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let (hers, his) = try await OwnerTable.together(
                url,
                store,
                OwnerTable.write("a2", of: "ann"),
                OwnerTable.write("b2", of: "bob")
            )
            #expect(try await OwnerTable.isDone(his))
            await Self.expectBusy(hers)
        }
        await store.stop()
    }

    // MARK: - Clocks that nothing names

    /// Those of nobody, and those that their column gives an owner when they are made.
    @Test(arguments: ["", "ann"])
    func rowsWithoutAnOwnerHoldUpNobody(owner: String) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition { table in
            if !owner.isEmpty { table.schema.columns[3].defaultValue = .string(owner) }
        }
        let store = try await OwnerTable.store(url, table)
        func ownerless(_ id: String) -> WriteBatch.Write {
            var operation = WriteOperation(.insert, id: id)
            operation.values = [.text(id), .integer(0), nil, nil]
            return WriteBatch.Write(operation, in: Table(table))
        }
        let first = Task { try await store.write(WriteBatch([.init([ownerless("n")])])) }
        #expect(try await OwnerTable.isDone(first))
        _ = try await OwnerTable.put("b", of: "bob", store, table)
        try await OwnerTable.holding(url, OwnerTable.hold(owner)) { _ in
            let (nobodys, his) = try await OwnerTable.together(
                url,
                store,
                ownerless("n2"),
                OwnerTable.write("b2", of: "bob", table),
                table
            )
            #expect(try await OwnerTable.isDone(his))
            await Self.expectBusy(nobodys)
        }
        await store.stop()
    }

    // MARK: - Forms

    /// Another column needs all the clocks of its table: who asked for it is refused, and who waits with it is not.
    @Test func aTableThatCannotGrowHoldsUpNobodyForLong() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url) { $0.times.statement = 20_000 }
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store) }
        var grows = WriteOperation(.merge, id: "bob")
        grows.values = [.text("x"), nil, nil, nil, .text("more")]
        let table = OwnerTable.grown(OwnerTable.definition())
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let (wider, other) = try await OwnerTable.together(
                url,
                store,
                WriteBatch.Write(grows, in: table),
                OwnerTable.write("b2", of: "bob")
            )
            let begin = ContinuousClock.now
            #expect(try await OwnerTable.isDone(other))
            #expect(ContinuousClock.now - begin < .seconds(6))
            await Self.expectBusy(wider)
        }
        await store.stop()
    }

    /// So it is while somebody else changes tables, for however long.
    @Test func aTableThatWaitsForAnotherChangeHoldsUpNobodyForLong() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        _ = try await OwnerTable.put("bob", of: "bob", store)
        var grows = WriteOperation(.merge, id: "bob")
        grows.values = [.text("x"), nil, nil, nil, .text("more")]
        let batch = WriteBatch([
            WriteBatch.Group([
                WriteBatch.Write(grows, in: OwnerTable.grown(OwnerTable.definition()))
            ])
        ])
        try await OwnerTable.holding(url, "SELECT pg_advisory_xact_lock(6072326741)") { _ in
            let begin = ContinuousClock.now
            await Self.expectBusy(Task { try await store.write(batch) })
            #expect(ContinuousClock.now - begin < .seconds(6))
        }
        await store.stop()
    }

    /// Who does not see a row learns nothing of it from who has it, or its owner's clock.
    @Test(arguments: ClockRule.allCases)
    func aRowOfAnotherUserIsMissingWhileSomebodyHasIt(clock: ClockRule) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(clock)
        let store = try await OwnerTable.store(url, table)
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store, table) }
        var hers = OwnerTable.write("ann", of: "bob", by: .merge, table)
        hers.operation.view = QueryExpression(
            .compare(
                .eq,
                QueryExpression(.field("userId")),
                QueryExpression(.value(.string("bob")))
            )
        )
        let batch = WriteBatch([WriteBatch.Group([hers])])
        let hold =
            "UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'ann'"
            + (clock == .owner ? "; SET CONSTRAINTS ALL IMMEDIATE" : "")
        try await OwnerTable.holding(url, hold) { _ in
            let begin = ContinuousClock.now
            let outcome = try #require(try await store.write(batch).first)
            guard case .refused(_, let refused) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(refused.decision == .missing)
            #expect(ContinuousClock.now - begin < .seconds(2))
        }
        await store.stop()
    }

    /// Whoever comes last: rows are read in the latest form, with what somebody has left out or not.
    @Test(arguments: [false, true], [false, true])
    func twoFormsInOneTransaction(olderIsLast: Bool, isHeld: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store) }
        var old = OwnerTable.definition()
        old.form = try await store.stored("todoitem")?.form
        var grows = WriteOperation(.merge, id: "bob")
        grows.values = [.text("x"), nil, nil, nil, .text("more")]
        let write = WriteBatch.Write(grows, in: OwnerTable.grown(old))
        _ = try await store.write(WriteBatch([WriteBatch.Group([write])]))
        let new = try #require(try await store.stored("todoitem"))
        #expect(new.form != old.form)
        let changes = [
            WriteBatch.Write(grows, in: Table(new)),
            OwnerTable.write("bob", of: "bob", by: .merge, old),
        ]
        let order = olderIsLast ? [0, 1] : [1, 0]
        let hold = isHeld ? OwnerTable.hold("ann") : "SELECT 1"
        try await OwnerTable.holding(url, hold) { _ in
            if isHeld {
                // From now on others leave out what somebody has.
                await Self.expectBusy(
                    Task {
                        try await store.write(
                            WriteBatch([WriteBatch.Group([OwnerTable.write("a2", of: "ann")])])
                        )
                    }
                )
            }
            let (first, second) = try await OwnerTable.together(
                url,
                store,
                changes[order[0]],
                changes[order[1]]
            )
            let (newer, older) = olderIsLast ? (first, second) : (second, first)
            #expect(try await OwnerTable.isDone(newer))
            await #expect(throws: OutdatedTable.self) { _ = try await OwnerTable.isDone(older) }
        }
        await store.stop()
    }

    /// Only who named the table learns that it has another form.
    @Test func anotherFormIsToldToThoseWhoNamedTheTable() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let outdated = OwnerTable.grown(OwnerTable.definition(.table))
        var operation = WriteOperation(.insert, id: "a")
        operation.values = [.text("a"), .integer(0), nil, .text("ann"), .text("more")]
        let (hers, his) = try await OwnerTable.together(
            url,
            store,
            WriteBatch.Write(operation, in: outdated),
            OwnerTable.write("b2", of: "bob")
        )
        await #expect(throws: OutdatedTable.self) { _ = try await OwnerTable.isDone(hers) }
        #expect(try await OwnerTable.isDone(his))
        await store.stop()
    }
}

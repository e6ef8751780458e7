// Goal: what comes between the locks of a transaction, or between two batches of it, makes nothing of an
// acknowledged write undone. What must come between is held there by locks of others.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerRaceTests {
    /// Rows are locked, and the row is not there; it comes while the transaction waits for a clock, is read,
    /// and is changed by somebody who has its clock.
    @Test func aRowThatComesBehindTheLocksIsReadAnew() async throws {
        let url = try PostgresCluster.shared().database()
        let one = try await OwnerTable.store(url) { options in
            options.times.lock = 20_000
            // It is to wait for the clock with the others' writes.
            options.times.heldLock = 20_000
            options.times.statement = 30_000
        }
        let other = try await OwnerTable.store(url)
        _ = try await OwnerTable.put("w", of: "will", one)
        var merge = WriteOperation(.merge, id: "r")
        merge.values = [nil, .integer(1), nil, nil]
        let table = Table(OwnerTable.definition())
        let batch = WriteBatch([
            WriteBatch.Group([OwnerTable.write("w2", of: "will")]),
            WriteBatch.Group([WriteBatch.Write(merge, in: table)]),
        ])
        let later = try PostgresConnection(PostgresAddress(url))
        let job = try await OwnerTable.holding(url, OwnerTable.hold("will")) { _ in
            let job = Task { try await one.write(batch) }
            try await OwnerTable.waiting(url)
            _ = try await OwnerTable.put("r", of: "vera", other)
            try later.execute(
                """
                BEGIN; UPDATE "TodoItem" SET "text" = 'later' WHERE "id" = 'r';
                SET CONSTRAINTS ALL IMMEDIATE
                """
            )
            return job
        }
        try await OwnerTable.waiting(url, for: try OwnerTable.number(of: later))
        try later.execute("COMMIT")
        let outcomes = try await job.value
        #expect(outcomes.count == 2 && outcomes.allSatisfy(\.isDone))
        let row = try #require(try await one.image("r", view: nil, in: table))
        #expect(Array(row.values[0..<2]) == [.text("later"), .integer(1)])
        #expect(try await OwnerTable.stamp(of: "vera", one) == row.version)
        for store in [one, other] { await store.stop() }
    }

    /// A change of columns is a transaction of its own, after the writes that wait with it.
    @Test("a write with the former columns is done before another one makes columns")
    func aWriteBesideAGrowth() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for id in ["a", "b"] { _ = try await OwnerTable.put(id, of: "ann", store) }
        let form = try #require(try await store.stored("todoitem")?.form)
        let old = OwnerTable.definition { $0.form = form }
        let grown = OwnerTable.grown(old)
        let growth = WriteBatch.Group(
            ["a", "b"].map { Self.change($0, to: "grown", in: grown, 5) }
        )
        let change = WriteBatch.Group([Self.change("b", to: "changed", in: Table(old), 4)])
        let gate = try PostgresConnection(PostgresAddress(url))
        try gate.execute("BEGIN; LOCK TABLE tideline.ledger IN ACCESS EXCLUSIVE MODE")
        let before = Task { try await OwnerTable.put("before", of: "zoe", store) }
        try await OwnerTable.waiting(url, for: try OwnerTable.number(of: gate))
        let first = Task { try await store.write(WriteBatch([growth])) }
        try await OwnerTable.queued(2, store)
        let second = Task { try await store.write(WriteBatch([change])) }
        try await OwnerTable.queued(3, store)
        try gate.execute("COMMIT")
        _ = await before.result
        #expect(try await first.value.allSatisfy(\.isDone))
        #expect(try await second.value.allSatisfy(\.isDone))
        let rows = try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT count(*) FROM "TodoItem"
            WHERE "id" IN ('a', 'b') AND "text" = 'grown' AND "more" = 'more'
            """
        )
        #expect(rows.integer(0, 0) == 2)
        await store.stop()
    }

    /// The same within one batch: its rows are read anew in the form that a group has.
    @Test func aGroupBehindAGrowthReadsItsRowsAnew() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for id in ["a", "b"] { _ = try await OwnerTable.put(id, of: "ann", store) }
        let old = OwnerTable.definition()
        let grown = OwnerTable.grown(old)
        let batch = WriteBatch([
            WriteBatch.Group(["a", "b"].map { Self.change($0, to: "grown", in: grown, 5) }),
            WriteBatch.Group([Self.change("b", to: "changed", in: Table(old), 4)]),
        ])
        let outcomes = try await store.write(batch)
        #expect(outcomes.count == 2 && outcomes.allSatisfy(\.isDone))
        let rows = try PostgresConnection(PostgresAddress(url)).run(
            "SELECT \"text\", \"more\" FROM \"TodoItem\" ORDER BY \"id\""
        )
        #expect((0..<2).map { rows.text($0, 0) } == ["grown", "changed"])
        #expect((0..<2).map { rows.text($0, 1) } == ["more", "more"])
        await store.stop()
    }

    /// What a write without an owner makes belongs to whom the column says.
    @Test func aRowOfTheDefaultOwnerHasHisStamp() async throws {
        let table = OwnerTable.definition { $0.schema.columns[3].defaultValue = .string("ann") }
        let store = try await OwnerTable.store(try PostgresCluster.shared().database(), table)
        var insert = WriteOperation(.insert, id: "a")
        insert.values = [.text("a"), .integer(0), nil, nil]
        let write = WriteBatch.Write(insert, in: Table(table))
        let outcomes = try await store.write(WriteBatch([WriteBatch.Group([write])]))
        guard case .done(let done)? = outcomes.first else {
            Issue.record("the row was not made")
            return
        }
        let stamp = try await store.clock(.user("ann"), of: Table(table)).stamp
        #expect(done.first?.row?.state.version == stamp)
        #expect(try await store.clock(.user(""), of: Table(table)).stamp == 0)
        await store.stop()
    }

    // MARK: - Growth

    private static func change(
        _ id: String,
        to text: String,
        in table: Table,
        _ columns: Int
    ) -> WriteBatch.Write {
        var merge = WriteOperation(.merge, id: id)
        merge.values = [.text(text)] + Array(repeating: nil, count: columns - 1)
        if columns > 4 { merge.values[4] = .text("more") }
        return WriteBatch.Write(merge, in: table)
    }
}

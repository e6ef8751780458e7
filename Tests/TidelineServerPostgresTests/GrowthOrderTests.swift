// Goal: a write that adds columns undoes no acknowledged write of the same batch. Locks of other transactions make the
// batches wait together.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct GrowthOrderTests {
    /// Adding columns uses a separate transaction, after the writes that wait with it.
    @Test("A write with the former columns is executed before another write adds columns")
    func aWriteQueuedWithOneThatAddsColumns() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url)
        for id in ["a", "b"] { _ = try await OwnedTable.put(id, of: "ann", store) }
        let form = try #require(try await store.stored("todoitem")?.form)
        let old = OwnedTable.definition { $0.form = form }
        let grown = OwnedTable.grown(old)
        let growth = WriteBatch.Group(
            ["a", "b"].map { Self.change($0, to: "grown", in: grown, 5) }
        )
        let change = WriteBatch.Group([Self.change("b", to: "changed", in: Table(old), 4)])
        let gate = try PostgresConnection(PostgresAddress(url))
        try gate.execute("BEGIN; LOCK TABLE tideline.ledger IN ACCESS EXCLUSIVE MODE")
        let before = Task { try await OwnedTable.put("before", of: "zoe", store) }
        try await OwnedTable.waiting(url, for: try OwnedTable.number(of: gate))
        let first = Task { try await store.write(WriteBatch([growth])) }
        try await OwnedTable.queued(2, store)
        let second = Task { try await store.write(WriteBatch([change])) }
        try await OwnedTable.queued(3, store)
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

    @Test("A group after an added column reads the rows again with that column")
    func aGroupAfterAnAddedColumnReadsItsRowsAgain() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url)
        for id in ["a", "b"] { _ = try await OwnedTable.put(id, of: "ann", store) }
        let old = OwnedTable.definition()
        let grown = OwnedTable.grown(old)
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

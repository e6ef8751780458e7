// Goal: who has the clock of one owner, locked, moved or made and not committed, holds up that owner alone; who has
// it for a moment holds up nobody for longer.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerHeldTests {
    /// What somebody does to ann's clock and does not commit.
    private static let holds = [
        OwnerTable.hold("ann"),
        "UPDATE tideline.owner_clocks SET \"stamp\" = \"stamp\" WHERE \"owner\" = 'ann'",
    ]

    @Test(arguments: holds) func othersAreWrittenWhileSomebodyHasAClock(hold: String) async throws {
        let url = try PostgresCluster.shared().database()
        // Long enough to be seen.
        let store = try await OwnerTable.store(url) { $0.times.heldLock = 1500 }
        _ = try await OwnerTable.put("a", of: "ann", store)
        _ = try await OwnerTable.put("b", of: "bob", store)
        for round in 0..<2 {
            let refused = try await OwnerTable.holding(url, hold) { _ in
                let first = Task { try await OwnerTable.put("a\(round)", of: "ann", store) }
                if round == 0 { try await OwnerTable.waiting(url) }
                // These wait behind it, and are one transaction.
                let second = Task { try await OwnerTable.put("c\(round)", of: "ann", store) }
                let other = Task { try await OwnerTable.put("b\(round)", of: "bob", store) }
                let change = Task { try await OwnerTable.put("a", of: "ann", by: .merge, store) }
                #expect(try await other.value.decision == .insert)
                return [await first.result, await second.result, await change.result]
            }
            for result in refused {
                let error = #expect(throws: ServerError.self) { _ = try result.get() }
                #expect(error?.status == 503)
            }
        }
        #expect(try await OwnerTable.put("a9", of: "ann", store).decision == .insert)
        await store.stop()
    }

    /// A foreign transaction that has its stamps and is not committed.
    @Test func othersAreWrittenWithTheFirstWhomSomebodyHoldsUp() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store) }
        let change = """
            UPDATE "TodoItem" SET "text" = 'x' WHERE "id" = 'ann'; SET CONSTRAINTS ALL IMMEDIATE
            """
        try await OwnerTable.holding(url, change) { _ in
            let (hers, his) = try await OwnerTable.together(
                url,
                store,
                OwnerTable.write("a2", of: "ann"),
                OwnerTable.write("b2", of: "bob")
            )
            #expect(try await OwnerTable.isDone(his))
            let error = await #expect(throws: ServerError.self) {
                _ = try await OwnerTable.isDone(hers)
            }
            #expect(error?.status == 503)
        }
        await store.stop()
    }

    /// A server that stands still before it commits the first write of an owner.
    @Test func othersAreWrittenWhileSomebodyMakesAClock() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let makes = """
            INSERT INTO tideline.owner_clocks ("table", "owner") VALUES ('todoitem', 'ann')
            """
        try await OwnerTable.holding(url, makes) { _ in
            // Both are new here.
            let (hers, his) = try await OwnerTable.together(
                url,
                store,
                OwnerTable.write("a", of: "ann"),
                OwnerTable.write("b", of: "bob")
            )
            #expect(try await OwnerTable.isDone(his))
            #expect(try await OwnerTable.put("c", of: "carl", store).decision == .insert)
            let error = await #expect(throws: ServerError.self) {
                _ = try await OwnerTable.isDone(hers)
            }
            #expect(error?.status == 503)
        }
        await store.stop()
    }

    /// Somebody else has bob's clock while the transaction passes over ann's, and no longer.
    @Test func clocksThatAreBusyForAMomentAreWaitedFor() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url) { options in
            options.times.lock = 12_000
            // Time to hold up its look at the ledger.
            options.times.heldLock = 4000
            options.times.statement = 30_000
        }
        for id in ["ann", "bob"] { _ = try await OwnerTable.put(id, of: id, store) }
        let (busy, gate) = (
            try PostgresConnection(PostgresAddress(url)),
            try PostgresConnection(PostgresAddress(url))
        )
        try busy.execute("BEGIN; " + OwnerTable.hold("bob"))
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let (hers, his) = try await OwnerTable.together(
                url,
                store,
                OwnerTable.write("a2", of: "ann"),
                OwnerTable.write("b2", of: "bob")
            )
            // It waits for ann, and has not looked at the ledger, which comes behind the clocks.
            try gate.execute("BEGIN; LOCK TABLE tideline.ledger IN ACCESS EXCLUSIVE MODE")
            try await OwnerTable.waiting(url, for: try OwnerTable.number(of: gate))
            try busy.execute("COMMIT")
            try gate.execute("COMMIT")
            #expect(try await OwnerTable.isDone(his))
            let error = await #expect(throws: ServerError.self) {
                _ = try await OwnerTable.isDone(hers)
            }
            #expect(error?.status == 503)
        }
        await store.stop()
    }

    /// Who begins anew waits for it in no transaction.
    @Test func aRowThatSomebodyHasIsWaitedForOnce() async throws {
        let url = try PostgresCluster.shared().database()
        // Long enough to be seen.
        let store = try await OwnerTable.store(url) { options in
            options.times.lock = 6000
            options.times.heldLock = 1500
        }
        var notes = Door.todo
        notes.schema.name = "Notes"
        let tables = [OwnerTable.definition(), notes]
        _ = try await store.prepare(tables, filtered: [], isComplete: true)
        var note = WriteOperation(.insert, id: "n")
        note.values = [.text("x"), .integer(0), nil]
        let made = WriteBatch.Write(note, in: Table(notes))
        _ = try await store.write(WriteBatch([WriteBatch.Group([made])]))
        note.kind = .merge
        let batch = WriteBatch([
            WriteBatch.Group([OwnerTable.write("a", of: "ann")]),
            WriteBatch.Group([WriteBatch.Write(note, in: Table(notes))]),
        ])
        let hold = "SELECT 1 FROM \"Notes\" FOR UPDATE"
        try await OwnerTable.holding(url, hold) { holder in
            let number = try OwnerTable.number(of: holder)
            let isAnswered = Flag()
            let write = Task {
                defer { isAnswered.set() }
                return try await store.write(batch)
            }
            var transactions: Set<String> = []
            while !isAnswered.isSet {
                transactions.formUnion(try OwnerTable.waits(url, for: number))
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect(transactions.count == 1)
            let outcomes = try await write.value
            #expect(outcomes.count == 2 && !outcomes.contains(where: \.isDone))
        }
        await store.stop()
    }
}

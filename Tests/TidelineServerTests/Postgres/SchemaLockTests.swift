// Goal: what a change of tables finds in their rows holds until it is done: nobody writes between the look and
// the change. Method: a writer who comes while the change is about to say what it did.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct SchemaLockTests {
    /// A table before and after a change that finds no row to change.
    private static let changes: [(before: TableDefinition, after: TableDefinition)] = [
        (definition { _ in }, definition { $0.schema.columns[2].isNullable = false }),
        (
            definition { $0.schema.columns[0].type = .enumeration(["a", "b"]) },
            definition { $0.schema.columns[0].type = .enumeration(["b"]) }
        ),
    ]

    private static func definition(_ change: (inout TableDefinition) -> Void) -> TableDefinition {
        OwnerTable.definition(.table, change)
    }

    @Test(arguments: [0, 1], [false, true])
    func nobodyWritesBetweenTheLookAndTheChange(change: Int, hasConsent: Bool) async throws {
        let (before, after) = Self.changes[change]
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url, before) { options in
            options.times.lock = 9000
            // Long enough to be seen.
            options.times.heldLock = 1500
        }
        let form = try #require(try await store.stored("todoitem")?.form)
        var old = before
        old.form = form
        let (migration, write) = try await OwnerTable.holding(
            url,
            "SELECT 1 FROM tideline.tables FOR UPDATE"
        ) { [old] _ in
            let migration = Task {
                if hasConsent {
                    try await onThread {
                        _ = try PostgresCare(url: url)
                            .migrate([after], isComplete: true, isDry: false)
                    }
                } else {
                    let other = try await OwnerTable.store(url, after)
                    await other.stop()
                }
            }
            // It has looked, and is about to say what it did.
            try await OwnerTable.waiting(url)
            let isWritten = Flag()
            let write = Task {
                defer { isWritten.set() }
                return try await OwnerTable.put("a", of: "ann", store, old)
            }
            try await PostgresWrites.soon { try isWritten.isSet || Self.waiting(url) == 2 }
            return (migration, write)
        }
        try await migration.value
        await #expect(throws: OutdatedTable.self) { _ = try await write.value }
        let found = try PostgresConnection(PostgresAddress(url)).run(
            "SELECT count(*) FROM \"TodoItem\""
        )
        #expect(found.integer(0, 0) == 0)
        await store.stop()
    }

    /// How many connections of a database wait for locks.
    private static func waiting(_ url: String) throws -> Int64 {
        try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND wait_event_type = 'Lock'
            """
        ).integer(0, 0)
    }

    /// It does not wait for a transaction that goes on reading, and so nobody waits behind it.
    @Test func aStartThatIsRefusedHoldsUpNobody() async throws {
        let url = try PostgresCluster.shared().database()
        let (before, after) = Self.changes[0]
        let store = try await OwnerTable.store(url, before)
        _ = try await OwnerTable.put("a", of: "ann", store, before)
        try await OwnerTable.holding(url, "SELECT 1 FROM \"TodoItem\"") { _ in
            await #expect(throws: SchemaError.self) {
                _ = try await OwnerTable.store(url, after)
            }
            let other = try await OwnerTable.put("b", of: "bob", store, before)
            #expect(other.decision == .insert)
        }
        await store.stop()
    }

    /// Who prepares or migrates has the state's form until it is done, and may stand still meanwhile; who has
    /// the row that is touched holds up the look alone.
    @Test(arguments: ["format", "touched"])
    func aLookWhetherWritesAreTakenHoldsUpNobody(key: String) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url, OwnerTable.definition(.table))
        try await store.checkWritable()
        try await Task.sleep(for: .seconds(1.1))
        let hold = "UPDATE tideline.state SET \"value\" = \"value\" WHERE \"key\" = '\(key)'"
        try await OwnerTable.holding(url, hold) { _ in
            if key == "format" {
                try await store.checkWritable()
            } else {
                await #expect(throws: ServerError.self) { try await store.checkWritable() }
            }
            let definition = OwnerTable.definition(.table)
            let write = try await OwnerTable.put("a", of: "ann", store, definition)
            #expect(write.decision == .insert)
        }
        await store.stop()
    }
}

// Goal: a change of tables checks their rows first, and no write is executed between that check and the change. Method:
// a write starts when the change is about to be recorded.

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
struct SchemaLockTests {
    /// A table before and after a change that finds no row to change.
    private static let changes: [(before: TableDefinition, after: TableDefinition)] = [
        (
            OwnedTable.definition(),
            OwnedTable.definition { $0.schema.columns[2].isNullable = false }
        ),
        (
            OwnedTable.definition { $0.schema.columns[0].type = .enumeration(["a", "b"]) },
            OwnedTable.definition { $0.schema.columns[0].type = .enumeration(["b"]) }
        ),
    ]

    @Test(
        "No write is executed between the check of the rows and the table change",
        arguments: [0, 1],
        [false, true]
    )
    func noWriteIsExecutedBetweenTheCheckAndTheChange(change: Int, hasConsent: Bool) async throws {
        let (before, after) = Self.changes[change]
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url, before) { options in
            options.times.lock = 9000
            // Long enough to be observed.
            options.times.briefLock = 1500
        }
        let form = try #require(try await store.stored("todoitem")?.form)
        var old = before
        old.form = form
        let (migration, write) = try await OwnedTable.holding(
            url,
            "SELECT 1 FROM tideline.tables FOR UPDATE"
        ) { [old] _ in
            let migration = Task {
                if hasConsent {
                    try await onThread {
                        _ = try PostgresMaintenance(url: url)
                            .migrate([after], isComplete: true, isDry: false)
                    }
                } else {
                    let other = try await OwnedTable.store(url, after)
                    await other.stop()
                }
            }
            // It has checked the rows, and is about to record the change.
            try await OwnedTable.waiting(url)
            let isWritten = Flag()
            let write = Task {
                defer { isWritten.set() }
                return try await OwnedTable.put("a", of: "ann", store, old)
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

    @Test("A start that is rejected does not wait for an open read and delays no transaction")
    func aRejectedStartDelaysNoTransaction() async throws {
        let url = try PostgresCluster.shared().database()
        let (before, after) = Self.changes[0]
        let store = try await OwnedTable.store(url, before)
        _ = try await OwnedTable.put("a", of: "ann", store, before)
        try await OwnedTable.holding(url, "SELECT 1 FROM \"TodoItem\"") { _ in
            await #expect(throws: SchemaError.self) {
                _ = try await OwnedTable.store(url, after)
            }
            let other = try await OwnedTable.put("b", of: "bob", store, before)
            #expect(other.decision == .insert)
        }
        await store.stop()
    }

    /// A server that prepares or migrates locks the row with the format, and may stop responding.
    ///
    /// A transaction that locks the row that a check updates delays only the check.
    @Test("A readiness check that meets a lock delays no write", arguments: ["format", "touched"])
    func aReadinessCheckDelaysNoTransaction(key: String) async throws {
        let url = try PostgresCluster.shared().database()
        let clock = TestClock()
        let store = try await OwnedTable.store(url, OwnedTable.definition()) { options in
            options.now = { clock.now() }
        }
        try await store.checkWritable()
        // The result is valid for a second.
        clock.move(by: 2_000_000)
        let hold = "UPDATE tideline.state SET \"value\" = \"value\" WHERE \"key\" = '\(key)'"
        try await OwnedTable.holding(url, hold) { _ in
            if key == "format" {
                try await store.checkWritable()
            } else {
                await #expect(throws: ServerError.self) { try await store.checkWritable() }
            }
            let definition = OwnedTable.definition()
            let write = try await OwnedTable.put("a", of: "ann", store, definition)
            #expect(write.decision == .insert)
        }
        await store.stop()
    }

    /// A write that waits for a clock may be waiting for a change of the table.
    @Test("A write that waited for a table change is rejected as outdated")
    func aSchemaVersionThatChangesMeanwhileIsNoticed() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        let store = try await OwnedTable.store(url, table) { options in
            options.times.lock = 9000
            // Long enough to be observed.
            options.times.briefLock = 1500
        }
        _ = try await OwnedTable.put("a", of: "ann", store, table)
        let form = try #require(try await store.stored("todoitem")?.form)
        let old = OwnedTable.definition { $0.form = form }
        // The existing row has no rank.
        let changed = OwnedTable.definition { $0.schema.columns[2].isNullable = false }
        let hold = "SELECT 1 FROM tideline.tables FOR UPDATE"
        let (migration, write) = try await OwnedTable.holding(url, hold) { _ in
            let migration = Task {
                try await onThread {
                    _ = try PostgresMaintenance(url: url)
                        .migrate([changed], isComplete: true, isDry: false)
                }
            }
            // It has locked the clocks, and is about to record its change.
            try await OwnedTable.waiting(url)
            let write = Task { try await OwnedTable.put("b", of: "ann", store, old) }
            try await OwnedTable.waiting(url, count: 2)
            return (migration, write)
        }
        try await migration.value
        await #expect(throws: OutdatedTable.self) { _ = try await write.value }
        await store.stop()
    }

    @Test("A purge does not wait for a lock on the catalog of tables")
    func aPurgeLocksNothingInTheCatalogOfTables() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition { $0.tombstoneDays = 1 }
        let store = try await OwnedTable.store(url, table)
        try await OwnedTable.holding(url, "SELECT 1 FROM tideline.tables FOR UPDATE") { _ in
            try await store.purge()
        }
        await store.stop()
    }

    /// The purge runs on the thread of the writer.
    @Test("A purge of a locked table fails soon and succeeds later")
    func aPurgeDoesNotWaitForATableChange() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url)
        let hold = "LOCK TABLE \"TodoItem\" IN EXCLUSIVE MODE"
        try await OwnedTable.holding(url, hold) { _ in
            let begin = ContinuousClock.now
            await #expect(throws: PostgresError.self) { try await store.purge() }
            #expect(ContinuousClock.now - begin < .seconds(1.5))
        }
        try await store.purge()
        await store.stop()
    }
}

// Goal: clocks of owners begin, end and move with their table without a version that anybody misses: beside
// servers that know nothing of them, under writers, in a copy, with columns of any name.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerSwitchTests {
    private static func state(_ key: String, _ connection: PostgresConnection) throws -> String {
        try connection.run("SELECT \"value\" FROM tideline.state WHERE \"key\" = $1", [.text(key)])
            .text(0, 0)
    }

    // MARK: - Servers of before

    /// Else an upgrade would lock every table to make its triggers anew: only a mend of them is worth that.
    @Test func triggersOfTablesWithOneClockAreAsTheyWere() async throws {
        let plain = try PostgresCluster.shared().database()
        let owned = try PostgresCluster.shared().database()
        try await OwnerTable.store(plain, Door.todo).stop()
        try await OwnerTable.store(owned, OwnerTable.definition(.table)).stop()
        for (url, hash) in [
            (plain, "a4ed986c89f3c865949a52fef18eab8"), (owned, "ec5c7cd1a84a44a651a213d106914"),
        ] {
            let connection = try PostgresConnection(PostgresAddress(url))
            let found = try Self.state("triggers.todoitem", connection)
            #expect(found == hash)
            #expect(try Self.state("format", connection) == "3")
        }
    }

    /// One that starts is refused by the format; one that runs cannot read the table's form.
    @Test func serversThatKnowNothingOfThemAreKeptAway() async throws {
        let url = try PostgresCluster.shared().database()
        let plain = OwnerTable.definition(.table) { $0.softDelete = false }
        let table = OwnerTable.definition(.owner) { $0.softDelete = false }
        try await OwnerTable.store(url, plain).stop()
        let care = try PostgresCare(url: url)
        _ = try care.migrate([table], isComplete: true, isDry: false)
        let store = try await OwnerTable.store(url, table)
        let connection = try PostgresConnection(PostgresAddress(url))
        #expect(try Self.state("format", connection) == "4")
        let columns = try connection.run("SELECT \"columns\" FROM tideline.tables").text(0, 0)
        #expect(throws: (any Error).self) { _ = try ColumnsText.read(columns) }

        // What one of them has under way is stamped as others' writes are, and forgets nothing.
        _ = try await OwnerTable.put("a", of: "ann", store, table)
        _ = try await OwnerTable.put("b", of: "ann", store, table)
        _ = try await OwnerTable.put("b", of: "ann", by: .delete, store, table)
        let before = try await OwnerTable.stamp(of: "ann", store)
        try connection.execute(
            """
            BEGIN; SET LOCAL tideline.own = 'on';
            UPDATE "TodoItem" SET "text" = 'x', "version" = 1 WHERE "id" = 'a';
            DELETE FROM tideline."log.TodoItem"; COMMIT
            """
        )
        let hers = try await OwnerTable.changes(of: "ann", after: before, store, table)
        #expect(hers.text.contains("\"a\"") && hers.clock.stamp > before)
        let logged = try connection.run("SELECT count(*) FROM tideline.\"log.TodoItem\"")
        #expect(logged.integer(0, 0) == 1)
        await store.stop()

        _ = try care.migrate([plain], isComplete: true, isDry: false)
        #expect(try Self.state("format", connection) == "3")
    }

    // MARK: - Under writers

    /// What is not committed when the clocks begin is behind them.
    @Test func clocksBeginBehindWhoeverWrites() async throws {
        let url = try PostgresCluster.shared().database()
        let plain = OwnerTable.definition(.table)
        let store = try await OwnerTable.store(url, plain)
        _ = try await OwnerTable.put("a", of: "ann", store, plain)
        await store.stop()
        let connection = try PostgresConnection(PostgresAddress(url))
        // The clock runs ahead, so that no time hides a clock that began too early.
        try connection.execute("UPDATE tideline.clocks SET \"stamp\" = \"stamp\" + 3600000000")
        let insert = """
            INSERT INTO "TodoItem" ("id", "text", "userId") VALUES
                ('a2', 'x', 'ann'), ('c', 'x', 'carl')
            """
        let care = try PostgresCare(url: url)
        let migration = try await OwnerTable.holding(url, insert) { _ in
            let migration = Task {
                try await onThread {
                    _ = try care.migrate([OwnerTable.definition()], isComplete: true, isDry: false)
                }
            }
            try await OwnerTable.waiting(url)
            return migration
        }
        try await migration.value
        let ahead = try connection.run(
            """
            SELECT count(*), count(c."owner"), count(*) FILTER (WHERE r."version" > c."stamp")
            FROM "TodoItem" AS r LEFT JOIN tideline.owner_clocks AS c ON c."owner" = r."userId"
            """
        )
        #expect((0..<3).map { ahead.integer(0, $0) } == [3, 3, 0])
    }

    /// They begin for all the owners that there are, which takes its time.
    @Test func rowsAreReadWhileClocksBegin() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(.table)
        let store = try await OwnerTable.store(url, table)
        _ = try await OwnerTable.put("a", of: "ann", store, table)
        let care = try PostgresCare(url: url)
        let hold = "LOCK TABLE tideline.owner_clocks IN SHARE MODE"
        let migration = try await OwnerTable.holding(url, hold) { holder in
            let migration = Task {
                try await onThread {
                    _ = try care.migrate([OwnerTable.definition()], isComplete: true, isDry: false)
                }
            }
            try await OwnerTable.waiting(url, for: try OwnerTable.number(of: holder))
            let row = try await store.image("a", view: nil, in: Table(table))
            #expect(row != nil)
            return migration
        }
        try await migration.value
        await store.stop()
    }

    /// A server that has not heard of their end may leave some.
    @Test func clocksThatWereLeftBeginAnew() async throws {
        let url = try PostgresCluster.shared().database()
        let plain = OwnerTable.definition(.table)
        let store = try await OwnerTable.store(url, plain)
        _ = try await OwnerTable.put("a", of: "ann", store, plain)
        await store.stop()
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.run(
            """
            INSERT INTO tideline.owner_clocks ("table", "owner", "stamp")
            VALUES ('todoitem', 'ann', 5), ('todoitem', 'bob', 6)
            """
        )
        _ = try PostgresCare(url: url)
            .migrate([OwnerTable.definition()], isComplete: true, isDry: false)
        let behind = try connection.run(
            """
            SELECT count(*) FROM tideline.owner_clocks AS o, tideline.clocks AS c
            WHERE o."stamp" < c."stamp" OR o."horizon" < c."stamp"
            """
        )
        #expect(behind.integer(0, 0) == 0)
    }

    /// A table that grows by itself does not end them.
    @Test func onlyAMigrationEndsThem() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let plain = OwnerTable.definition(.table)
        var wider = plain
        wider.schema.columns.append(ColumnDefinition("more", .string))
        var operation = WriteOperation(.insert, id: "a")
        operation.values = [.text("a"), .integer(0), nil, .text("ann"), .text("x")]
        let table = Table(wider, made: .part(Table(plain)))
        let write = WriteBatch.Write(operation, in: table)
        await #expect(throws: OutdatedTable.self) {
            let outcomes = try await store.write(WriteBatch([WriteBatch.Group([write])]))
            if case .failed(_, let error)? = outcomes.first { throw error }
        }
        #expect(try await store.stored("todoitem")?.clock == .owner)
        await store.stop()
    }

    /// It shows what would be done, and waits for nobody who holds a clock.
    @Test func aDryRunLeavesTheClocksAlone() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition { $0.softDelete = false }
        let store = try await OwnerTable.store(url, table)
        _ = try await OwnerTable.put("a", of: "ann", store, table)
        _ = try await OwnerTable.put("a", of: "ann", by: .delete, store, table)
        var wider = table
        wider.schema.columns.append(ColumnDefinition("more", .string))
        let hold = "SELECT 1 FROM tideline.owner_clocks FOR UPDATE"
        let steps = try await OwnerTable.holding(url, hold) { [wider] _ in
            try PostgresCare(url: url).migrate([wider], isComplete: true, isDry: true).steps
        }
        #expect(steps.count == 1)
        await store.stop()
    }

    // MARK: - Names

    /// The owner's column may be called like anything in the functions that stamp.
    @Test(arguments: [true, false]) func theOwnersColumnMayHaveAnyName(soft: Bool) async throws {
        let names = [
            "own", "owner", "owners", "first", "firsts", "counts", "rows", "gone", "seen", "stamp",
            "r", "c", "each", "of_rows", "first_stamp", "mark", "written", "counted", "table",
        ]
        let tables = names.enumerated().map { place, name in
            var table = TableDefinition(
                "T\(place)",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition(name, .string),
                ]
            )
            table.owner = name
            table.clock = .owner
            table.softDelete = soft
            return table
        }
        let url = try PostgresCluster.shared().database()
        let store = try PostgresTableStore(url: url)
        _ = try await store.prepare(tables, filtered: [], isComplete: true)
        let foreign = try PostgresConnection(PostgresAddress(url))
        for table in tables {
            let name = table.owner ?? ""
            try foreign.execute(
                """
                INSERT INTO "\(table.name)" ("id", "\(name)") VALUES ('a', 'ann'), ('b', 'bob');
                BEGIN; UPDATE "\(table.name)" SET "text" = 'x' WHERE "id" = 'a';
                DELETE FROM "\(table.name)" WHERE "id" = 'b'; COMMIT
                """
            )
            let clock = try await store.clock(.user("bob"), of: Table(table))
            #expect(clock.stamp > 0, "\(name)")
        }
        let wider = tables.map { table in
            var table = table
            table.schema.columns.append(
                ColumnDefinition("state", .string, nullable: false, default: "open")
            )
            return table
        }
        _ = try await store.prepare(wider, filtered: [], isComplete: true)
        await store.stop()
    }

    @Test func theOwnersColumnMayChangeItsLetters() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        _ = try await OwnerTable.put("a", of: "ann", store)
        let before = try await OwnerTable.stamp(of: "ann", store)
        await store.stop()
        let other = OwnerTable.definition(.owner) { table in
            table.schema.columns[3].name = "USERID"
            table.owner = "USERID"
            table.schema.columns.append(
                ColumnDefinition("state", .string, nullable: false, default: "open")
            )
        }
        let later = try await OwnerTable.store(url, other)
        #expect(try await later.clock(.user("ann"), of: Table(other)).stamp > before)
        await later.stop()
    }

    // MARK: - What goes with them

    /// Rows get new versions, too, by clocks that are there.
    @Test(arguments: [false, true])
    func theOwnersColumnMayGoWithItsClocks(hasAnother: Bool) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for owner in ["ann", "bob"] { _ = try await OwnerTable.put(owner, of: owner, store) }
        let before = try await OwnerTable.stamp(of: "bob", store)
        await store.stop()
        let changed = OwnerTable.definition(hasAnother ? .owner : .table) { table in
            table.schema.columns[3] = ColumnDefinition("tenant", .string)
            table.owner = hasAnother ? "tenant" : nil
            table.schema.columns.append(
                ColumnDefinition("state", .string, nullable: false, default: "open")
            )
        }
        _ = try PostgresCare(url: url).migrate([changed], isComplete: true, isDry: false)
        let found = try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT min(r."version"), max(r."version"), count(DISTINCT r."version"),
                max(c."stamp"), (SELECT max("stamp") FROM tideline.owner_clocks)
            FROM "TodoItem" AS r, tideline.clocks AS c
            """
        )
        #expect(found.integer(0, 0) > before && found.integer(0, 2) == 2)
        #expect(found.integer(0, hasAnother ? 4 : 3) >= found.integer(0, 1))
    }

    /// The new clocks know nothing of who counted by those of before.
    @Test func whoCountsRowsSaysSoOfNewClocks() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        _ = try await OwnerTable.put("a", of: "ann", store)
        let connection = try PostgresConnection(PostgresAddress(url))
        func count() async throws -> Int64 {
            let form = try await store.stored("todoitem")?.form
            var request = ListRequest()
            request.clock = .user("ann")
            request.tie = 0
            _ = try await store.list(request, in: Table(OwnerTable.definition { $0.form = form }))
            let found = try connection.run("SELECT max(\"counted\") FROM tideline.owner_clocks")
            return found.integer(0, 0)
        }
        #expect(try await count() > 0)
        let care = try PostgresCare(url: url)
        for clock in [ClockRule.table, .owner] {
            _ = try care.migrate([OwnerTable.definition(clock)], isComplete: true, isDry: false)
        }
        #expect(try await count() > 0)
        await store.stop()
    }
}

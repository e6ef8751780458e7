// Goal: what somebody does with one owner's clock holds up that owner alone, and locks are taken in one order:
// rows, clocks of tables, clocks of owners.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerLockTests {
    // MARK: - Groups

    @Test func twoOwnersInOneGroupAreBothStamped() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let group = WriteBatch.Group([
            OwnerTable.write("a", of: "ann"), OwnerTable.write("b", of: "bob"),
        ])
        guard case .done(let outcomes)? = try await store.write(WriteBatch([group])).first else {
            Issue.record("the group was not done")
            return
        }
        for (owner, outcome) in zip(["ann", "bob"], outcomes) {
            #expect(try await OwnerTable.stamp(of: owner, store) == outcome.row?.state.version)
        }
        // All of it or nothing: of the refused one no clock moves.
        let before = try await OwnerTable.stamp(of: "ann", store)
        let refused = WriteBatch.Group([
            OwnerTable.write("a2", of: "ann"), OwnerTable.write("b", of: "bob"),
        ])
        guard case .refused(at: 1, _)? = try await store.write(WriteBatch([refused])).first else {
            Issue.record("the group was not refused")
            return
        }
        #expect(try await OwnerTable.stamp(of: "ann", store) == before)
        #expect(try await OwnerTable.changes(of: "ann", after: before, store).text == "")
        await store.stop()
    }

    /// Swift takes these names for the same; the database and their devices do not.
    @Test func ownersAreToldApartByTheirBytes() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let names = ["\u{E9}", "e\u{301}", "/\u{301}x"]
        let group = WriteBatch.Group(
            names.enumerated().map { OwnerTable.write("\($0)", of: $1) }
        )
        guard case .done? = try await store.write(WriteBatch([group])).first else {
            Issue.record("the group was not done")
            return
        }
        let connection = try PostgresConnection(PostgresAddress(url))
        let own = try connection.run(
            """
            SELECT count(*) FROM "TodoItem" AS r JOIN tideline.owner_clocks AS c
            ON c."owner" = r."userId" AND c."stamp" = r."version"
            """
        )
        #expect(own.integer(0, 0) == 3)
        for (place, name) in names.enumerated() {
            let stamp = try await store.clock(.user(name), of: Table(OwnerTable.definition())).stamp
            let version = try await store.read(
                "\(place)",
                view: nil,
                in: Table(OwnerTable.definition())
            )
            #expect(stamp == version?.state.version)
        }
        await store.stop()
    }

    /// A table that is asked with another form than it has is so, whether a clock was locked or not.
    @Test func theFormIsLookedAtWithoutAClockToo() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let form = try #require(try await store.stored("todoitem")?.form)
        let old = OwnerTable.definition { $0.form = form + 1 }
        await #expect(throws: OutdatedTable.self) {
            _ = try await OwnerTable.put("none", of: "ann", by: .merge, store, old)
        }
        await store.stop()
    }

    /// Who waits for a clock may wait for somebody who changes the table.
    @Test(arguments: [ClockRule.table, .owner])
    func aFormThatChangesWhileItWaitsIsSeen(clock: ClockRule) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(clock)
        let store = try await OwnerTable.store(url, table) { options in
            options.times.lock = 9000
            // Long enough to be seen.
            options.times.heldLock = 1500
        }
        _ = try await OwnerTable.put("a", of: "ann", store, table)
        let form = try #require(try await store.stored("todoitem")?.form)
        let old = OwnerTable.definition(clock) { $0.form = form }
        // The row that is there has no rank.
        let changed = OwnerTable.definition(clock) { $0.schema.columns[2].isNullable = false }
        let hold = "SELECT 1 FROM tideline.tables FOR UPDATE"
        let (migration, write) = try await OwnerTable.holding(url, hold) { _ in
            let migration = Task {
                try await onThread {
                    _ = try PostgresCare(url: url)
                        .migrate([changed], isComplete: true, isDry: false)
                }
            }
            // It has the clocks, and is about to say what it did.
            try await OwnerTable.waiting(url)
            let write = Task { try await OwnerTable.put("b", of: "ann", store, old) }
            try await OwnerTable.waiting(url, count: 2)
            return (migration, write)
        }
        try await migration.value
        await #expect(throws: OutdatedTable.self) { _ = try await write.value }
        await store.stop()
    }

    // MARK: - The order of locks

    /// What is purged waits for no change of the tables' forms that has its table already.
    @Test(arguments: [ClockRule.table, .owner])
    func aPurgeLocksNothingOfTheTableOfTables(clock: ClockRule) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(clock) { $0.tombstoneDays = 1 }
        let store = try await OwnerTable.store(url, table)
        try await OwnerTable.holding(url, "SELECT 1 FROM tideline.tables FOR UPDATE") { _ in
            try await store.purge()
        }
        await store.stop()
    }

    /// It is done on the thread of all writes.
    @Test(arguments: [ClockRule.table, .owner])
    func aPurgeWaitsForNobodyWhoChangesATable(clock: ClockRule) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url, OwnerTable.definition(clock))
        let hold = "LOCK TABLE \"TodoItem\" IN EXCLUSIVE MODE"
        try await OwnerTable.holding(url, hold) { _ in
            let begin = ContinuousClock.now
            await #expect(throws: PostgresError.self) { try await store.purge() }
            #expect(ContinuousClock.now - begin < .seconds(1.5))
        }
        try await store.purge()
        await store.stop()
    }

    /// Whoever has one clock holds up what is forgotten of that owner, and of no other.
    @Test(arguments: [true, false]) func aPurgePassesOverAClockThatSomebodyHas(
        soft: Bool
    ) async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnerTable.definition(.owner) { table in
            table.softDelete = soft
            table.tombstoneDays = 1
        }
        let store = try await OwnerTable.store(url, table)
        for owner in ["ann", "bob"] {
            _ = try await OwnerTable.put(owner, of: owner, store, table)
            _ = try await OwnerTable.put(owner, of: owner, by: .delete, store, table)
        }
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(
            """
            UPDATE tideline.clocks SET "counted" = (extract(epoch FROM now()) * 1000000)::bigint;
            BEGIN; SET LOCAL tideline.owners = 'on';
            UPDATE tideline."log.TodoItem" SET "tideline_stamp" = "tideline_stamp" / 2;
            UPDATE "TodoItem" SET "updatedAt" = now() - interval '3 days' WHERE "deleted"; COMMIT
            """
        )
        func horizons() async throws -> [Bool] {
            var isRaised: [Bool] = []
            for owner in ["ann", "bob"] {
                isRaised.append(try await store.clock(.user(owner), of: Table(table)).horizon > 0)
            }
            return isRaised
        }
        // It moved the clock and is not through.
        let moves = """
            UPDATE tideline.owner_clocks SET "stamp" = "stamp" WHERE "owner" = 'ann'
            """
        try await OwnerTable.holding(url, moves) { _ in
            try await store.purge()
            #expect(try await horizons() == [false, true])
        }
        try await store.purge()
        #expect(try await horizons() == [true, true])
        // What left is counted for the owners alone.
        let counted = try connection.run("SELECT count(*) FROM tideline.departures")
        #expect(counted.integer(0, 0) == 0)
        let left = try connection.run(
            soft
                ? "SELECT count(*) FROM \"TodoItem\""
                : "SELECT count(*) FROM tideline.\"log.TodoItem\""
        )
        #expect(left.integer(0, 0) == 0)
        await store.stop()
    }

    /// In the order of their bytes, whatever order the database has for texts.
    @Test func clocksAreMadeInOneOrder() async throws {
        let cluster = try PostgresCluster.shared()
        let name = PostgresCluster.name(in: try cluster.database()) + "_icu"
        let create = """
            CREATE DATABASE \(name) TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'
            """
        // Not every PostgreSQL has another order.
        guard (try? cluster.psql(create, in: "postgres")) != nil else { return }
        let url = cluster.url(of: name)
        let store = try await OwnerTable.store(url)
        let foreign = try PostgresConnection(PostgresAddress(url))
        try foreign.execute(
            """
            CREATE TABLE made ("place" bigint GENERATED ALWAYS AS IDENTITY, "owner" text);
            CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO made ("owner") VALUES (NEW."owner"); RETURN NULL;
            END $$;
            CREATE TRIGGER note AFTER INSERT ON tideline.owner_clocks
            FOR EACH ROW EXECUTE FUNCTION note()
            """
        )
        let group = WriteBatch.Group(["a", "B", "c"].map { OwnerTable.write($0, of: $0) })
        _ = try await store.write(WriteBatch([group]))
        try foreign.execute(
            """
            INSERT INTO "TodoItem" ("id", "userId") VALUES ('x', 'x'), ('Y', 'Y'), ('z', 'z')
            """
        )
        let made = try foreign.run("SELECT string_agg(\"owner\", '' ORDER BY \"place\") FROM made")
        #expect(made.text(0, 0) == "BacYxz")
        await store.stop()
    }
}

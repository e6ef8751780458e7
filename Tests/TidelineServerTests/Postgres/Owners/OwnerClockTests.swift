// Tables whose owners have clocks of their own: what one owner writes waits for no other, and each owner is
// told what changed as in any table. CommitOrderTests has what overlaps; with `TIDELINE_STORE=owner-clocks`
// all tests of routes run on such tables.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerClockTests {
    // MARK: - Nothing in common

    @Test func writesOfOneOwnerWaitForNoOther() async throws {
        let url = try PostgresCluster.shared().database()
        let (one, other) = (try await OwnerTable.store(url), try await OwnerTable.store(url))
        _ = try await OwnerTable.put("a", of: "ann", one)
        let holder = try PostgresConnection(PostgresAddress(url))
        try holder.run("BEGIN")
        try holder.run("SELECT 1 FROM tideline.owner_clocks WHERE \"owner\" = 'ann' FOR UPDATE")
        // Of ann nothing can be stamped, and of bob everything.
        #expect(try await OwnerTable.put("b", of: "bob", other).decision == .insert)
        await #expect(throws: ServerError.self) {
            _ = try await OwnerTable.put("a2", of: "ann", one)
        }
        #expect(try await OwnerTable.put("b2", of: "bob", other).decision == .insert)
        try holder.run("ROLLBACK")
        #expect(try await OwnerTable.put("a2", of: "ann", one).decision == .insert)
        let shared = try holder.run("SELECT \"stamp\" FROM tideline.clocks")
        #expect(shared.integer(0, 0) == 0, "the table's clock has moved")
        await one.stop()
        await other.stop()
    }

    @Test func eachOwnerHasStampsOfHisOwn() async throws {
        let store = try await OwnerTable.store(try PostgresCluster.shared().database())
        let first = try await OwnerTable.put("a", of: "ann", store).row?.state.version
        #expect(try await OwnerTable.stamp(of: "ann", store) == first)
        #expect(try await OwnerTable.stamp(of: "bob", store) == 0)
        let second = try await OwnerTable.put("a", of: "ann", by: .merge, store).row?.state.version
        #expect(try #require(second) > first ?? 0)
        _ = try await OwnerTable.put("b", of: "bob", store)
        let ann = try await OwnerTable.changes(of: "ann", after: first ?? 0, store)
        #expect(ann.text.contains(#""id":"a""#) && !ann.text.contains(#""id":"b""#))
        #expect(ann.clock.stamp == second)
        // Nothing that is not there makes a clock.
        #expect(try await OwnerTable.put("x", of: "carl", by: .merge, store).decision == .missing)
        #expect(try await OwnerTable.stamp(of: "carl", store) == 0)
        await #expect(throws: ServerError.self) {
            _ = try await OwnerTable.changes(of: "bob", after: .max, store)
        }
        await store.stop()
    }

    @Test(arguments: [true, false]) func deletesAreToldAndForgottenByOwner(soft: Bool) async throws
    {
        let table = OwnerTable.definition(.owner) { table in
            table.softDelete = soft
            table.tombstoneDays = 1
        }
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url, table)
        for (id, owner) in [("a", "ann"), ("b", "bob")] {
            _ = try await OwnerTable.put(id, of: owner, store, table)
        }
        let (ann, bob) = (
            try await OwnerTable.stamp(of: "ann", store),
            try await OwnerTable.stamp(of: "bob", store)
        )
        _ = try await OwnerTable.put("a", of: "ann", by: .delete, store, table)
        #expect(
            try await OwnerTable.changes(of: "ann", after: ann, store, table).text.contains(
                "deleted"
            )
        )
        #expect(try await OwnerTable.changes(of: "bob", after: bob, store, table).text == "")
        // Long ago, and forgotten: only ann's links from before are of no use.
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(
            soft
                ? """
                BEGIN; SET LOCAL tideline.owners = 'on';
                UPDATE "TodoItem" SET "updatedAt" = now() - interval '3 days' WHERE "deleted"; COMMIT
                """
                : """
                BEGIN; SET LOCAL tideline.owners = 'on';
                UPDATE tideline."log.TodoItem" SET "tideline_stamp" = "tideline_stamp" / 2; COMMIT
                """
        )
        try await store.purge()
        let clock = try await store.clock(.user("ann"), of: Table(table))
        #expect(clock.horizon > 0)
        #expect(try await store.clock(.user("bob"), of: Table(table)).horizon == 0)
        #expect(try await store.clock(.table, of: Table(table)).horizon > 0)
        await store.stop()
    }

    // MARK: - Others

    @Test func foreignWritesAreStampedByOwner() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        _ = try await OwnerTable.put("a", of: "ann", store)
        _ = try await OwnerTable.put("b", of: "bob", store)
        let (ann, bob) = (
            try await OwnerTable.stamp(of: "ann", store),
            try await OwnerTable.stamp(of: "bob", store)
        )
        let foreign = try PostgresConnection(PostgresAddress(url))
        try foreign.execute(
            """
            BEGIN;
            INSERT INTO "TodoItem" ("id", "text", "userId") VALUES
                ('a2', 'x', 'ann'), ('c', 'x', 'carl'), ('n', 'x', NULL), ('a3', 'x', 'ann');
            UPDATE "TodoItem" SET "text" = 'y' WHERE "id" = 'a';
            DELETE FROM "TodoItem" WHERE "id" = 'b';
            COMMIT
            """
        )
        let found = try foreign.run(
            """
            SELECT count(*), count(DISTINCT ("userId", "version")), min("version"),
                bool_and("updatedAt" = tideline.instant("version"))
            FROM "TodoItem"
            """
        )
        #expect(found.integer(0, 0) == 6 && found.integer(0, 2) > 0 && found.boolean(0, 3))
        let hers = try await OwnerTable.changes(of: "ann", after: ann, store)
        for id in ["a", "a2", "a3"] { #expect(hers.text.contains("\"id\":\"\(id)\"")) }
        #expect(!hers.text.contains("\"b\"") && !hers.text.contains("\"c\""))
        let last = try foreign.run(
            "SELECT max(\"version\") FROM \"TodoItem\" WHERE \"userId\" = 'ann'"
        )
        #expect(hers.clock.stamp == last.integer(0, 0))
        #expect(try await OwnerTable.changes(of: "bob", after: bob, store).text.contains("deleted"))
        #expect(try await OwnerTable.changes(of: "carl", after: 0, store).text.contains("\"c\""))
        #expect(throws: PostgresError.self) {
            try foreign.run("UPDATE \"TodoItem\" SET \"userId\" = 'bob' WHERE \"id\" = 'a'")
        }
        await store.stop()
    }

    /// A row that is deleted and made again for another owner goes for the first.
    @Test func foreignDeletesForGoodAreToldToTheirOwner() async throws {
        let table = OwnerTable.definition(.owner) { $0.softDelete = false }
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url, table)
        for id in ["a", "b"] { _ = try await OwnerTable.put(id, of: "ann", store, table) }
        let start = try await OwnerTable.stamp(of: "ann", store)
        let foreign = try PostgresConnection(PostgresAddress(url))
        try foreign.execute(
            """
            BEGIN; DELETE FROM "TodoItem";
            INSERT INTO "TodoItem" ("id", "text", "userId") VALUES ('a', 'x', 'bob'); COMMIT
            """
        )
        let hers = try await OwnerTable.changes(of: "ann", after: start, store, table)
        for id in ["a", "b"] { #expect(hers.text.contains("\"id\":\"\(id)\"")) }
        #expect(hers.text.components(separatedBy: "@removed").count == 3)
        let his = try await OwnerTable.changes(of: "bob", after: 0, store, table)
        #expect(his.text.contains("\"a\"") && !his.text.contains("@removed"))
        let left = try foreign.run(
            "SELECT count(*) FROM tideline.\"log.TodoItem\" WHERE \"tideline_stamp\" < 0"
        )
        #expect(left.integer(0, 0) == 0)
        await store.stop()
    }

    @Test func otherServersHearOfWhatAnOwnerCommits() async throws {
        let url = try PostgresCluster.shared().database()
        let (one, other) = (try await OwnerTable.store(url), try await OwnerTable.store(url))
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        try await other.watch { for stamp in $0 { heard.yield(stamp) } }
        var told = stamps.makeAsyncIterator()
        // Where it begins is said at once, so that an id from before is no place to go on from.
        let begin = try #require(await told.next())
        #expect(begin.table == "todoitem" && begin.stamp > 0)
        _ = try await OwnerTable.put("a", of: "ann", one)
        let first = try #require(await told.next())
        _ = try await OwnerTable.put("b", of: "bob", one)
        let second = try #require(await told.next())
        #expect(Set([begin, first, second].map(\.stamp)).count == 3)
        await one.stop()
        await other.stop()
    }

    // MARK: - The begin and the end

    @Test func theClocksOfATableAreChangedWithConsentOnly() async throws {
        let url = try PostgresCluster.shared().database()
        let plain = OwnerTable.definition(.table)
        let first = try await OwnerTable.store(url, plain)
        for (id, owner) in [("a", "ann"), ("b", "bob")] {
            _ = try await OwnerTable.put(id, of: owner, first, plain)
        }
        let epoch = try await first.epoch()
        await #expect(throws: SchemaError.self) { _ = try await OwnerTable.store(url) }
        let care = try PostgresCare(url: url)
        let dry = try care.migrate([OwnerTable.definition()], isComplete: true, isDry: true)
        #expect(dry.steps.map(\.description).joined().contains("clocks of the owners"))
        #expect(try await first.epoch() == epoch)
        _ = try care.migrate([OwnerTable.definition()], isComplete: true, isDry: false)
        #expect(try await first.epoch() != epoch)

        // Who began before learns of it by the form of the table.
        let outdated = OwnerTable.definition(.table) { $0.form = 1 }
        await #expect(throws: OutdatedTable.self) {
            _ = try await OwnerTable.put("c", of: "ann", first, outdated)
        }
        let second = try await OwnerTable.store(url)
        let begin = try await OwnerTable.stamp(of: "ann", second)
        #expect(begin > 0)
        #expect(try await OwnerTable.stamp(of: "bob", second) == begin)
        let version = try await OwnerTable.put("a", of: "ann", by: .merge, second).row?.state
            .version
        #expect(try #require(version) > begin)
        #expect(try await OwnerTable.stamp(of: "bob", second) == begin)

        // And back: the table's clock goes on behind all.
        _ = try care.migrate([plain], isComplete: true, isDry: false)
        let third = try await OwnerTable.store(url, plain)
        let clock = try await third.clock(of: Table(plain))
        #expect(clock.stamp == version && clock.horizon == version)
        let again = try await OwnerTable.put("b", of: "bob", by: .merge, third, plain).row?.state
            .version
        #expect(try #require(again) > clock.stamp)
        for store in [first, second, third] { await store.stop() }
    }

    @Test func whatDevicesDoNotKnowGetsVersionsOfItsOwner() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for (id, owner) in [("a", "ann"), ("a2", "ann"), ("b", "bob")] {
            _ = try await OwnerTable.put(id, of: owner, store)
        }
        let before = try await OwnerTable.stamp(of: "ann", store)
        let wider = OwnerTable.definition(.owner) { table in
            table.schema.columns.append(
                ColumnDefinition("state", .string, nullable: false, default: "open")
            )
        }
        let later = try await OwnerTable.store(url, wider)
        let hers = try await OwnerTable.changes(of: "ann", after: before, later, wider)
        #expect(hers.text.contains("\"a\"") && hers.text.contains("\"a2\""))
        #expect(hers.clock.stamp > before && hers.clock.horizon == 0)
        for store in [store, later] { await store.stop() }
    }
}

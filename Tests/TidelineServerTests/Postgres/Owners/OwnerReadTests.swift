// Goal: who looks at clocks of owners reads those that moved and no others, however many there are; who sees the
// rows of all owners loses none; what a timeline has lost is noticed, and nothing else.

import Foundation
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerReadTests {
    // MARK: - Plans

    /// Of a hundred thousand clocks a look reads those that moved of late.
    @Test func looksUseTheIndexOfWrites() async throws {
        let url = try PostgresCluster.shared().database()
        try await OwnerTable.store(url).stop()
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(
            """
            INSERT INTO tideline.owner_clocks ("table", "owner", "stamp", "written")
            SELECT 'todoitem', 'u' || n, n, n * 1000000::bigint FROM generate_series(1, 100000) AS n;
            ANALYZE tideline.owner_clocks
            """
        )
        func scans() throws -> Int64 {
            try connection.run(
                "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'owner_clocks'"
            ).integer(0, 0)
        }
        let before = try scans()
        let store = try await OwnerTable.store(url, prepares: false)
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        try await store.watch { for stamp in $0 { heard.yield(stamp) } }
        var told = stamps.makeAsyncIterator()
        _ = await told.next()
        // Often enough that PostgreSQL plans for owners that it does not know.
        for number in 0..<12 { _ = try await OwnerTable.put("a\(number)", of: "u\(number)", store) }
        let owners = WriteBatch.Group((0..<50).map { OwnerTable.write("b\($0)", of: "v\($0)") })
        for _ in 0..<2 { _ = try await store.write(WriteBatch([owners])) }
        _ = await told.next()
        // What a connection has counted is known when it is closed.
        await store.stop()
        try await PostgresWrites.soon {
            try connection.run(
                """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                AND pid <> pg_backend_pid() AND backend_type = 'client backend'
                """
            ).integer(0, 0) == 0
        }
        try connection.run("SELECT pg_stat_clear_snapshot()")
        #expect(try scans() == before)
    }

    /// The end of a page of changes comes from the index that begins with the owner.
    @Test func aPageOfChangesEndsByTheOwnersIndex() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(
            """
            INSERT INTO "TodoItem" ("id", "text", "complete", "userId")
            SELECT 'r' || n, '', FALSE, 'u' || n % 100 FROM generate_series(1, 20000) AS n;
            ANALYZE "TodoItem"
            """
        )
        func scans(_ index: String) throws -> Int64 {
            try connection.run("SELECT pg_stat_clear_snapshot()")
            return try connection.run(
                """
                SELECT coalesce(sum(s.idx_scan), 0)::bigint FROM pg_stat_user_indexes AS s
                JOIN pg_indexes AS i ON i.indexname = s.indexrelname
                WHERE i.tablename = 'TodoItem' AND i.indexdef LIKE $1
                """,
                [.text(index)]
            ).integer(0, 0)
        }
        func isEqual(_ expression: QueryExpression, _ text: String) -> QueryExpression {
            QueryExpression(.compare(.eq, expression, QueryExpression(.value(.string(text)))))
        }
        let before = (try scans("%(%userId%"), try scans("%(\"updatedAt\"%"))
        var request = ChangeRequest(after: 0, rowsMax: 5, bytesMax: 1 << 20)
        request.clock = .user("u7")
        request.scanMax = 20
        request.opening = [UInt8(ascii: "[")]
        // A part of the view is evaluated by the server, so a page has an end.
        let lower = QueryExpression(.call(.tolower, [QueryExpression(.field("text"))]))
        request.view = QueryExpression(
            .all([isEqual(QueryExpression(.field("userId")), "u7"), isEqual(lower, "none")])
        )
        for _ in 0..<5 {
            let page = try await store.changes(request, in: Table(OwnerTable.definition()))
            #expect(page.rows == 0 && page.next != nil)
        }
        await store.stop()
        try await PostgresWrites.soon { try scans("%(%userId%") >= before.0 + 10 }
        #expect(try scans("%(\"updatedAt\"%") == before.1)
    }

    /// Most writes leave the index of the time alone: all but the first of a second.
    @Test func clocksAreWrittenInPlace() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let start = Date()
        for number in 0..<100 { _ = try await OwnerTable.put("\(number)", of: "ann", store) }
        let seconds = Int64(Date().timeIntervalSince(start)) + 2
        await store.stop()
        let connection = try PostgresConnection(PostgresAddress(url))
        try await PostgresWrites.soon {
            try connection.run("SELECT pg_stat_clear_snapshot()")
            let found = try connection.run(
                """
                SELECT coalesce(n_tup_upd, 0), coalesce(n_tup_hot_upd, 0) FROM pg_stat_user_tables
                WHERE relname = 'owner_clocks'
                """
            )
            // Now and then a page is full.
            return found.integer(0, 0) >= 100 && found.integer(0, 1) >= 80 - seconds
        }
    }

    // MARK: - Others

    /// What took its time to be stamped is found by those who look back a little.
    @Test func aLongCommitIsSeenByItsEnd() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let foreign = try PostgresConnection(PostgresAddress(url))
        try foreign.execute(
            """
            CREATE TABLE ends ("at" timestamptz);
            CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_sleep(1.2); INSERT INTO ends VALUES (clock_timestamp()); RETURN NULL;
            END $$;
            CREATE TRIGGER slow AFTER UPDATE ON "TodoItem" EXECUTE FUNCTION slow();
            INSERT INTO "TodoItem" ("id", "text", "userId") VALUES ('a', 'x', 'ann');
            """
        )
        let found = try foreign.run(
            """
            SELECT (SELECT count(*) FROM ends), (
                SELECT "written" >= floor(extract(epoch FROM max("at")))::bigint * 1000000 FROM ends
            )
            FROM tideline.owner_clocks WHERE "owner" = 'ann'
            """
        )
        #expect(found.integer(0, 0) > 0 && found.boolean(0, 1))
        await store.stop()
    }

    // MARK: - All owners

    /// A millisecond has more rows than one clock gives it.
    @Test func whoSeesAllOwnersPassesOverNoRow() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let owners = (0..<60).map { "u\($0)" }
        let group = WriteBatch.Group(owners.map { OwnerTable.write($0, of: $0) })
        _ = try await store.write(WriteBatch([group]))
        let connection = try PostgresConnection(PostgresAddress(url))
        let time: Int64 = 1_800_000_000_000
        try connection.execute(
            """
            BEGIN; SET LOCAL tideline.own = 'on'; SET LOCAL tideline.owners = 'on';
            UPDATE "TodoItem" SET "updatedAt" = tideline.instant(\(time)000); COMMIT
            """
        )
        var request = ListRequest()
        request.opening = [UInt8(ascii: "[")]
        request.order = [SortKey(column: SystemColumn.updatedAt)]
        request.rowsMax = 100
        request.tie = time
        request.offset = 50
        let page = try await store.list(request, in: Table(OwnerTable.definition()))
        #expect(page.rows == 60)
        await store.stop()
    }

    /// A file has one writer, and everybody's changes have one order.
    @Test func aFileHasOneClockForATable() async throws {
        var options = SQLiteTableStore.Options()
        options.inline = true
        let store = try SQLiteTableStore(path: ":memory:", options: options)
        let made = try await store.prepare(
            [OwnerTable.definition()],
            filtered: [],
            isComplete: true
        )
        #expect(made.map(\.clock) == [.table])
        await store.stop()
    }

    /// What stands for the stamp of a table is a time, to be compared with that of a pull.
    @Test func theStampOfATableIsATime() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        try await store.watch { for stamp in $0 { heard.yield(stamp) } }
        var told = stamps.makeAsyncIterator()
        _ = await told.next()
        let time = Int64(Date().timeIntervalSince1970 * 1_000_000)
        _ = try await OwnerTable.put("a", of: "ann", store)
        #expect(try #require(await told.next()).stamp >= time)
        await store.stop()
    }

    /// A server that stood still, or whose connection was cut off, comes back to what it has not seen.
    @Test func whatAWatchSleptThroughIsTold() async throws {
        let url = try PostgresCluster.shared().database()
        let (one, other) = (try await OwnerTable.store(url), try await OwnerTable.store(url))
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        let (sleeps, begins) = AsyncStream.makeStream(of: Void.self)
        let told = Mutex(0)
        try await other.watch { news in
            for stamp in news { heard.yield(stamp) }
            let count = told.withLock { count in
                count += 1
                return count
            }
            guard count == 2 else { return }
            begins.yield()
            Thread.sleep(forTimeInterval: 14)
        }
        var news = stamps.makeAsyncIterator()
        _ = await news.next()
        _ = try await OwnerTable.put("a", of: "ann", one)
        let last = try #require(await news.next())
        for await _ in sleeps { break }
        try await Task.sleep(for: .seconds(1))
        _ = try await OwnerTable.put("b", of: "bob", one)
        let end = Task {
            try await Task.sleep(for: .seconds(60))
            heard.finish()
        }
        #expect(try #require(await news.next()).stamp > last.stamp)
        end.cancel()
        for store in [one, other] { await store.stop() }
    }
}

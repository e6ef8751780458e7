// Goal: of owners' clocks what a timeline has lost is noticed, and what was written long before is not taken for
// lost.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerTimelineTests {
    @Test(arguments: [false, true])
    func aStandbyThatIsPromotedIsNoticed(withoutTheLastCommit isBehind: Bool) async throws {
        let cluster = try PostgresCluster(
            keepsCommits: true,
            settings: ["restore_command": "false"]
        )
        let url = try cluster.database()
        // An hour ago.
        let hour: Int64 = 3_600_000_000
        let clock = TestClock(Int64(Date().timeIntervalSince1970 * 1_000_000) - hour)
        var options = PostgresTableStore.Options()
        options.readers = 2
        options.now = { clock.now() }
        let store = try PostgresTableStore(url: url, options: options)
        _ = try await store.prepare([OwnerTable.definition()], filtered: [], isComplete: true)
        let writes = try await PostgresWrites(try cluster.database())
        // It finds a database that has a place for the beginning of the timeline.
        let beside = try await OwnerTable.store(url, prepares: false)
        try await PostgresWrites.soon { try Self.timelines(url) == 1 }
        await beside.stop()
        _ = try await OwnerTable.put("a", of: "ann", store)
        try PostgresConnection(PostgresAddress(url))
            .execute("UPDATE tideline.owner_clocks SET \"written\" = \"written\" - \(hour)")
        clock.move(by: hour)
        _ = try await OwnerTable.put("b", of: "bob", store)
        let epoch = try await store.epoch()
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        try await store.watch { for stamp in $0 { heard.yield(stamp) } }
        try await onThread {
            try cluster.crash()
            try cluster.setAside()
            try cluster.startAgain()
        }
        try await writes.answer { _ = try await OwnerTable.put("c", of: "carl", store) }
        var told = stamps.makeAsyncIterator()
        var last = try #require(await told.next())
        try await onThread {
            try cluster.crash()
            if isBehind { try cluster.putBack() }
            try cluster.startAgain(promoted: true)
        }
        try await writes.answer { _ = try await OwnerTable.put("d", of: "dora", store) }
        let lost = try await writes.answer {
            try await store.read("c", view: nil, in: Table(OwnerTable.definition())) == nil
        }
        #expect(lost == isBehind)
        #expect((try await writes.answer { try await store.epoch() } != epoch) == isBehind)
        // Who listens is told, of whatever is there.
        while let stamp = await told.next(), stamp.stamp <= last.stamp { last = stamp }
        // What the timeline before began with is of no use to anybody.
        #expect(try Self.timelines(url) == 1)
        await store.stop()
        await writes.store.stop()
    }

    /// What owners' clocks told is behind the table's when they have ended: nothing is lost with them.
    @Test func clocksThatHaveEndedAreNotLost() async throws {
        let cluster = try PostgresCluster(
            keepsCommits: true,
            settings: ["restore_command": "false"]
        )
        let url = try cluster.database()
        let store = try await OwnerTable.store(url)
        let writes = try await PostgresWrites(try cluster.database())
        _ = try await OwnerTable.put("a", of: "ann", store)
        let table = OwnerTable.definition(.table)
        try await onThread {
            _ = try PostgresCare(url: url).migrate([table], isComplete: true, isDry: false)
        }
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        try await store.watch { for stamp in $0 { heard.yield(stamp) } }
        // It has looked at the clocks: the table's is told.
        let other = try await OwnerTable.store(url, table)
        _ = try await OwnerTable.put("b", of: "bob", other, table)
        let last = try await other.clock(.table, of: Table(table)).stamp
        let epoch = try await other.epoch()
        await other.stop()
        for await stamp in stamps where stamp.stamp == last { break }
        try await onThread {
            try cluster.crash()
            try cluster.startAgain(promoted: true)
        }
        try await writes.answer { _ = try await OwnerTable.put("c", of: "carl", store, table) }
        #expect(try await writes.answer { try await store.epoch() } == epoch)
        await store.stop()
        await writes.store.stop()
    }

    /// Of how many timelines a database knows how they began.
    private static func timelines(_ url: String) throws -> Int64 {
        try PostgresConnection(PostgresAddress(url)).run(
            "SELECT count(*) FROM tideline.state WHERE \"key\" LIKE 'timeline.%'"
        ).integer(0, 0)
    }

    /// What others write to it is told, too, and what is too old is forgotten.
    @Test func aStateOfServersOfBeforeIsServed() async throws {
        let url = try PostgresCluster.shared().database()
        let writes = try await PostgresWrites(url)
        try await writes.insert("a")
        let (stamps, heard) = AsyncStream.makeStream(of: TableStamp.self)
        try await writes.store.watch { for stamp in $0 { heard.yield(stamp) } }
        var told = stamps.makeAsyncIterator()
        let first = try #require(await told.next())
        let foreign = try PostgresConnection(PostgresAddress(url))
        try foreign.execute(
            """
            DROP TABLE tideline.owner_clocks, tideline.owner_departures, tideline.owner_moved;
            INSERT INTO "TodoItem" ("id", "text") VALUES ('b', 'x')
            """
        )
        #expect(try #require(await told.next()).stamp > first.stamp)
        try await writes.store.purge()
        await writes.store.stop()
    }

    /// A state from before there was a place for such clocks is compared as any.
    @Test func aStateOfServersOfBeforeIsNoticed() async throws {
        let cluster = try PostgresCluster(
            keepsCommits: true,
            settings: ["restore_command": "false"]
        )
        let writes = try await PostgresWrites(try cluster.database())
        try await writes.insertSoon("a")
        let epoch = try await writes.store.epoch()
        try PostgresConnection(PostgresAddress(writes.url)).execute(
            """
            DROP TABLE IF EXISTS tideline.owner_clocks, tideline.owner_departures,
                tideline.owner_moved
            """
        )
        try await onThread {
            try cluster.crash()
            try cluster.setAside()
            try cluster.startAgain()
        }
        try await writes.insertSoon("b")
        try await onThread {
            try cluster.crash()
            try cluster.putBack()
            try cluster.startAgain(promoted: true)
        }
        try await writes.insertSoon("c")
        #expect(try await writes.answer { try await writes.row("b") } == nil)
        #expect(try await writes.answer { try await writes.store.epoch() } != epoch)
        await writes.store.stop()
    }
}

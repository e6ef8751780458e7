// Goal: a table with clocks of owners is the same to its devices in a copy: nobody who has to pull anew is told
// that nothing changed, and a write meanwhile is noticed, whoever's it is.

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
struct OwnerCopyTests {
    /// Whose last row is gone has no clock in the copy, and his links are of no use there.
    @Test func whoeverHasNoRowsLeftPullsAnew() async throws {
        let table = OwnerTable.definition(.owner) { $0.softDelete = false }
        let (url, other) = (
            try PostgresCluster.shared().database(), try PostgresCluster.shared().database()
        )
        let store = try await OwnerTable.store(url, table)
        _ = try await OwnerTable.put("a", of: "ann", store, table)
        _ = try await OwnerTable.put("b", of: "bob", store, table)
        let link = try await OwnerTable.stamp(of: "ann", store)
        _ = try await OwnerTable.put("a", of: "ann", by: .delete, store, table)
        await store.stop()
        try ServerDatabase.copy(from: .postgres(url: url), to: .postgres(url: other))
        let copy = try await OwnerTable.store(other, table)
        func horizon() async throws -> Int64 {
            try await copy.clock(.user("ann"), of: Table(table)).horizon
        }
        #expect(try await horizon() > link)
        let version = try await OwnerTable.put("a2", of: "ann", copy, table).row?.state.version
        #expect(try #require(version) > link)
        #expect(try await horizon() > link)
        await copy.stop()
        try await withTemporaryDirectory { directory in
            let file = directory + "/back.db"
            try ServerDatabase.copy(from: .postgres(url: other), to: .sqlite(path: file))
            let door = try await Door(
                [OwnerTable.definition(.table)],
                path: file,
                authenticator: try Tokens.authenticator()
            )
            #expect(try await door.store.clock(of: Table(table)).horizon > link)
            await door.store.stop()
        }
    }

    @Test func aWriteOfAnOwnerWhoIsBehindIsNoticed() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        for owner in ["ann", "bob"] { _ = try await OwnerTable.put(owner, of: owner, store) }
        await store.stop()
        let foreign = try PostgresConnection(PostgresAddress(url))
        try foreign.run(
            "UPDATE tideline.owner_clocks SET \"stamp\" = \"stamp\" * 2 WHERE \"owner\" = 'ann'"
        )
        let error = #expect(throws: DatabaseError.self) {
            try ServerDatabase.copy(
                from: .postgres(url: url),
                to: .postgres(url: try PostgresCluster.shared().database())
            ) { part, _ in
                guard part.hasPrefix("rows of") else { return }
                try foreign.run("UPDATE \"TodoItem\" SET \"text\" = 'x' WHERE \"id\" = 'bob'")
            }
        }
        #expect(error?.code == .inUse)
    }

    /// Who counts the rows of a millisecond may need a clock, and writes nothing.
    @Test func aReaderWhoNeedsAClockDoesNotDisturbACopy() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url)
        _ = try await OwnerTable.put("a", of: "ann", store)
        await store.stop()
        let reader = try PostgresConnection(PostgresAddress(url))
        // The clocks of owners began behind that of the table.
        try reader.execute("UPDATE tideline.clocks SET \"stamp\" = 1000")
        let other = try PostgresCluster.shared().database()
        try ServerDatabase.copy(from: .postgres(url: url), to: .postgres(url: other)) { part, _ in
            guard part.hasPrefix("rows of") else { return }
            try reader.run(
                """
                INSERT INTO tideline.owner_clocks ("table", "owner", "stamp", "horizon", "counted")
                SELECT "table", 'carl', "stamp", "stamp", 1 FROM tideline.clocks
                ON CONFLICT ("table", "owner") DO NOTHING
                """
            )
        }
        let found = try reader.run("SELECT count(*) FROM tideline.owner_clocks")
        #expect(found.integer(0, 0) == 2)
    }

    /// A database that has had no server with clocks of owners has no place for them.
    @Test func aDatabaseOfServersOfBeforeIsCopied() async throws {
        let url = try PostgresCluster.shared().database()
        let writes = try await PostgresWrites(url)
        try await writes.insert("a")
        await writes.store.stop()
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            DROP TABLE IF EXISTS tideline.owner_clocks, tideline.owner_departures,
                tideline.owner_moved
            """
        )
        let other = try PostgresCluster.shared().database()
        try ServerDatabase.copy(from: .postgres(url: url), to: .postgres(url: other))
        let copy = try await PostgresWrites(other)
        #expect(try await copy.row("a") != nil)
        await copy.store.stop()
    }
}

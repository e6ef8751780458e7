// Goal: a reader that counts the rows of a millisecond marks the clock before its page is returned, and does not wait
// long for a locked clock.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct CountingFlagTests {
    private static func page(_ store: PostgresTableStore) async throws {
        var request = ListRequest()
        request.tie = 0
        _ = try await store.list(request, in: Table(OwnedTable.definition()))
    }

    private static func counted(_ url: String) throws -> Int64 {
        try PostgresConnection(PostgresAddress(url)).run("SELECT \"counted\" FROM tideline.clocks")
            .integer(0, 0)
    }

    private static let hold = "SELECT 1 FROM tideline.clocks FOR UPDATE"

    /// Other readers do not wait for the transaction that holds the clock, which ends after them.
    @Test(
        "A locked table clock delays only reads that have to record the counted time",
        .timeLimit(.minutes(10))
    )
    func aLockedClockDelaysNoReader() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url) { $0.limits.queryTime = .seconds(3600) }
        _ = try await OwnedTable.put("a", of: "ann", store)
        try await OwnedTable.holding(url, Self.hold) { _ in
            let pages = (0..<4).map { _ in Task { try await Self.page(store) } }
            let row = try await store.image("a", view: nil, in: Table(OwnedTable.definition()))
            #expect(row != nil)
            // A response without the mark would lose rows: rows that leave the millisecond are not counted yet.
            for page in pages {
                let error = await #expect(throws: ServerError.self) { try await page.value }
                #expect(error?.status == 503)
            }
        }
        #expect(try Self.counted(url) == 0)
        try await Self.page(store)
        #expect(try Self.counted(url) > 0)
        await store.stop()
    }

    @Test(
        "A counted time that another server wrote some hours ago needs no lock",
        arguments: [0, 5]
    )
    func anEarlierMarkIsValid(hours: Int64) async throws {
        let url = try PostgresCluster.shared().database()
        let (one, other) = (try await OwnedTable.store(url), try await OwnedTable.store(url))
        _ = try await OwnedTable.put("a", of: "ann", one)
        try await Self.page(one)
        try PostgresConnection(PostgresAddress(url)).execute(
            "UPDATE tideline.clocks SET \"counted\" = \"counted\" - \(hours * 3_600_000_000)"
        )
        let before = try Self.counted(url)
        try await OwnedTable.holding(url, Self.hold) { _ in
            try await Self.page(other)
        }
        #expect(try Self.counted(url) == before)
        for store in [one, other] { await store.stop() }
    }

    /// For example, a full disk: not a fault of the server.
    @Test("A read whose counted time cannot be written is rejected with 503")
    func aMarkThatCannotBeWrittenRejectsTheRead() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url)
        _ = try await OwnedTable.put("a", of: "ann", store)
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'no reservation' USING ERRCODE = '53100';
            END $$;
            CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON tideline.clocks
            FOR EACH ROW EXECUTE FUNCTION fill()
            """
        )
        let error = await #expect(throws: ServerError.self) { try await Self.page(store) }
        #expect(error?.status == 503)
        await store.stop()
    }
}

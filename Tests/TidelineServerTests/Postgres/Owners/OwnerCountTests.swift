// Goal: who counts the rows of a millisecond says so before it is believed, and waits for nobody's clock for long.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerCountTests {
    private static func page(_ store: PostgresTableStore, _ clock: ClockRule = .owner) async throws
    {
        var request = ListRequest()
        request.clock = .user("ann")
        request.tie = 0
        _ = try await store.list(request, in: Table(OwnerTable.definition(clock)))
    }

    private static func counted(_ url: String, _ clock: ClockRule = .owner) throws -> Int64 {
        try PostgresConnection(PostgresAddress(url)).run(
            clock == .owner
                ? "SELECT \"counted\" FROM tideline.owner_clocks WHERE \"owner\" = 'ann'"
                : "SELECT \"counted\" FROM tideline.clocks"
        ).integer(0, 0)
    }

    /// Neither writers nor other readers wait for who has the clock.
    @Test func whoHasTheClockHoldsUpNobody() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url) { $0.limits.queryTime = .seconds(60) }
        _ = try await OwnerTable.put("a", of: "ann", store)
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let begin = ContinuousClock.now
            let pages = (0..<4).map { _ in Task { try await Self.page(store) } }
            #expect(try await OwnerTable.put("b", of: "bob", store).decision == .insert)
            let row = try await store.image("a", view: nil, in: Table(OwnerTable.definition()))
            #expect(row != nil)
            // To answer without it would lose rows: what leaves the millisecond is not counted yet.
            for page in pages {
                let error = await #expect(throws: ServerError.self) { try await page.value }
                #expect(error?.status == 503)
            }
            #expect(ContinuousClock.now - begin < .seconds(20))
        }
        #expect(try Self.counted(url) == 0)
        try await Self.page(store)
        #expect(try Self.counted(url) > 0)
        await store.stop()
    }

    /// What another server has said, and what was said some hours ago, needs no lock.
    @Test(arguments: [0, 5]) func whatWasSaidHolds(hours: Int64) async throws {
        let url = try PostgresCluster.shared().database()
        let (one, other) = (try await OwnerTable.store(url), try await OwnerTable.store(url))
        _ = try await OwnerTable.put("a", of: "ann", one)
        try await Self.page(one)
        try PostgresConnection(PostgresAddress(url)).execute(
            "UPDATE tideline.owner_clocks SET \"counted\" = \"counted\" - \(hours * 3_600_000_000)"
        )
        let before = try Self.counted(url)
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            try await Self.page(other)
        }
        #expect(try Self.counted(url) == before)
        for store in [one, other] { await store.stop() }
    }

    /// No room, say: no fault of the server.
    @Test(arguments: [ClockRule.table, .owner])
    func whatCannotBeSaidIsRefused(clock: ClockRule) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await OwnerTable.store(url, OwnerTable.definition(clock))
        _ = try await OwnerTable.put("a", of: "ann", store, OwnerTable.definition(clock))
        let relation = clock == .owner ? "owner_clocks" : "clocks"
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'no room' USING ERRCODE = '53100';
            END $$;
            CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON tideline.\(relation)
            FOR EACH ROW EXECUTE FUNCTION fill()
            """
        )
        let error = await #expect(throws: ServerError.self) { try await Self.page(store, clock) }
        #expect(error?.status == 503)
        await store.stop()
    }
}

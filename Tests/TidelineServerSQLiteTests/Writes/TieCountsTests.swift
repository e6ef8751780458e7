// TieCountsTests: counts of rows that have left a millisecond, for every order of lists, writes and commits.

import ServerTestSupport
import Testing
import TidelineServerCore
import TidelineServerSQLite

@Suite struct TieCountsTests {
    private static let time: Int64 = 1_800_000_000_000_000
    private static let millisecond = time / 1000

    @Test("Rows that leave a millisecond after a list are counted")
    func countsRowsThatLeaveAfterAList() {
        let ties = TieCounts()
        ties.rowLeaves(Self.time)
        ties.transactionEnded()
        ties.watch(Self.time + 999, since: ties.departureCount())
        #expect(ties.left(Self.millisecond) == 0)
        ties.rowLeaves(Self.time + 25)
        ties.rowLeaves(Self.time + 1000)
        ties.rowLeaves(Self.time - 1)
        #expect(ties.left(Self.millisecond) == 1)
        ties.transactionEnded()
        #expect(ties.left(Self.millisecond) == 1)
    }

    /// A write that was reported before that number was read may be committed after the state that the list read.
    @Test("Rows of a write that was not committed when the list began are counted")
    func countsRowsThatWereNotCommittedAtTheMark() {
        let ties = TieCounts()
        ties.rowLeaves(Self.time)
        let count = ties.departureCount()
        ties.rowLeaves(Self.time)
        ties.transactionEnded()
        ties.watch(Self.time, since: count)
        #expect(ties.left(Self.millisecond) == 2)
    }

    @Test("A second list does not count a row twice") func aSecondListCountsNoRowTwice() {
        let ties = TieCounts()
        let count = ties.departureCount()
        ties.rowLeaves(Self.time)
        ties.transactionEnded()
        for _ in 0..<3 { ties.watch(Self.time, since: count) }
        #expect(ties.left(Self.millisecond) == 1)
    }

    @Test("A forgotten count is replaced with the maximum number of rows")
    func anOldMarkCountsAllRows() {
        for (others, left) in [(0, 1), (4095, 1), (4096, 40), (20_000, 40)] {
            let ties = TieCounts()
            let count = ties.departureCount()
            ties.rowLeaves(Self.time)
            for number in 0..<others { ties.rowLeaves(Self.time + 1000 * Int64(number + 1)) }
            ties.transactionEnded()
            ties.watch(Self.time, since: count)
            #expect(ties.left(Self.millisecond) == left, "\(others) others")
        }
    }

    @Test("The oldest count is forgotten when too many milliseconds are tracked")
    func theOldestCountIsForgotten() {
        let ties = TieCounts()
        for number in 0..<5000 {
            ties.watch(Self.time + 1000 * Int64(number), since: ties.departureCount())
        }
        for number in [0, 903, 904, 4999] { ties.rowLeaves(Self.time + 1000 * Int64(number)) }
        ties.transactionEnded()
        let left = [0, 903, 904, 4999].map { ties.left(Self.millisecond + Int64($0)) }
        // From a millisecond that is no longer tracked, all rows may have left.
        #expect(left == [40, 40, 1, 1])
        ties.watch(Self.time, since: ties.departureCount())
        ties.rowLeaves(Self.time)
        #expect(ties.left(Self.millisecond) == 40)
        #expect(ties.left(Self.millisecond + 10_000) == 0)
    }

    @Test("All rows of a millisecond before the start count as departed")
    func rowsThatLeftBeforeTheStartCountAsAll() {
        let ties = TieCounts()
        ties.begin(after: Self.time + 999)
        for _ in 0..<2 {
            #expect(ties.left(Self.millisecond - 1000) == 40)
            #expect(ties.left(Self.millisecond) == 40)
            #expect(ties.left(Self.millisecond + 1) == 0)
            ties.watch(Self.time, since: ties.departureCount())
            ties.watch(Self.time + 1000, since: ties.departureCount())
        }
        ties.rowLeaves(Self.time + 1000)
        #expect(ties.left(Self.millisecond + 1) == 1)
    }

    @Test("A pull across a restart loses no row although a row it read left the millisecond")
    func aPullAcrossARestartLosesNoRow() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock(step: 0)
            let path = directory + "/a.db"
            var server = try await TestServer(path: path, clock: clock)
            for id in 0..<6 {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
            }
            let time = "2027-01-15T08:00:00.000Z"
            let query = "$filter=updatedAt ge datetimeoffset'\(time)'&$orderby=updatedAt"
            let first = await server.send("GET", "/tables/TodoItem?\(query)&$top=3", classic: true)
            #expect(first.ids == ["0", "1", "2"])
            _ = await server.send("PATCH", "/tables/TodoItem/0", #"{"text":"b"}"#)
            await server.store.stop()
            server = try await TestServer(path: path, clock: clock)
            let rest = await server.send(
                "GET",
                "/tables/TodoItem?\(query)&$top=50&$skip=3",
                classic: true
            )
            #expect(Set(rest.ids).isSuperset(of: ["3", "4", "5", "0"]))
            await server.store.stop()
        }
    }
}

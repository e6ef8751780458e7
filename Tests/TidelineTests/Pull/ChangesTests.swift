// Pulls from a server with change tracking: delta links instead of times, and rows that leave the query.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ChangesTests {
    private let transport = ScriptedTransport()

    private static let first = "$orderby=updatedAt&__includedeleted=true"

    private static func changes(
        _ rows: [String],
        next: String? = nil,
        delta: String? = nil
    ) -> ScriptedTransport.Answer {
        var body = "{\"items\":[\(rows.joined(separator: ","))]"
        if let next { body += ",\"nextLink\":\"\(next)\"" }
        if let delta { body += ",\"@odata.deltaLink\":\"\(delta)\"" }
        return .json(200, body + "}", ["Preference-Applied": "odata.track-changes"])
    }

    private static func removed(_ id: String, _ reason: String) -> String {
        "{\"@removed\":{\"reason\":\"\(reason)\"},\"id\":\"\(id)\"}"
    }

    private func ids(_ device: Device) async throws -> [String] {
        try await device.todos().read(sortedBy: [.ascending(\.id)]).map(\.id)
    }

    @Test("Next links and delta links are followed and stored")
    func linksAreFollowedAndStored() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 9), serverRow("b", 1)], next: "$deltatoken=l1"),
            Self.changes([serverRow("c", 2)], delta: "$deltatoken=d1"),
            Self.changes([], delta: "$deltatoken=d1"),
            Self.changes(
                [
                    Self.removed("a", "deleted"), Self.removed("b", "changed"),
                    serverRow("d", 11), Self.removed("never here", "changed"),
                ],
                delta: "$deltatoken=d2"
            )
        )
        #expect(try await device.todos().pull(queryID: "all").applied == 3)
        #expect(try await device.todos().pull(queryID: "all").requests == 1)
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.applied == 1)
        #expect(result.removed == 2)
        #expect(try await device.rows() == [localRow("c", 2), localRow("d", 11)])
        #expect(
            transport.sent.map(\.query) == [
                Self.first, "$deltatoken=l1", "$deltatoken=d1", "$deltatoken=d1",
            ]
        )
    }

    @Test("A row that leaves a query stays if another query with the same number contains it")
    func sharedNumber() async throws {
        let device = try await Device(transport)
        for number in 1...60 {
            transport.add(Self.changes([], delta: "$deltatoken=d"))
            try await device.todos().pull(queryID: "q\(number)")
        }
        for number in 61...62 {
            transport.add(Self.changes([serverRow("x", 1)], delta: "$deltatoken=d"))
            try await device.todos().pull(queryID: "q\(number)")
        }
        transport.add(Self.changes([Self.removed("x", "changed")], delta: "$deltatoken=e"))
        #expect(try await device.todos().pull(queryID: "q61").removed == 0)
        #expect(try await ids(device) == ["x"])
        transport.add(Self.changes([Self.removed("x", "deleted")], delta: "$deltatoken=e"))
        #expect(try await device.todos().pull(queryID: "q62").removed == 1)
        #expect(try await ids(device) == [])
    }

    @Test("A pull without changes writes nothing to the store")
    func anUnchangedPullWritesNothing() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(transport, store: SQLiteStore(path: path))
            transport.add(
                Self.changes([serverRow("a", 1)], delta: "$deltatoken=d"),
                Self.changes([], delta: "$deltatoken=d"),
                Self.changes([serverRow("a", 1)], delta: "$deltatoken=d")
            )
            try await device.todos().pull(queryID: "all")
            let before = try Data(contentsOf: URL(filePath: path + "-wal"))
            for _ in 0..<2 { try await device.todos().pull(queryID: "all") }
            #expect(try Data(contentsOf: URL(filePath: path + "-wal")) == before)
            #expect(try await device.todos().lastPull != nil)
        }
    }

    @Test("An interrupted pull resumes after its last page when the app restarts")
    func anInterruptedPullContinuesAfterItsLastPage() async throws {
        try await withTemporaryFile { path in
            transport.add(
                Self.changes([serverRow("a", 1)], next: "$deltatoken=l1"),
                .status(401),
                Self.changes([serverRow("b", 2)], delta: "$deltatoken=d1")
            )
            let first = try await Device(transport, store: SQLiteStore(path: path))
            #expect(await code { try await first.todos().pull(queryID: "all") } == .unauthorized)
            let second = try await Device(transport, store: SQLiteStore(path: path))
            try await second.todos().pull(queryID: "all")
            #expect(transport.sent.last?.query == "$deltatoken=l1")
            #expect(try await ids(second) == ["a", "b"])
        }
    }

    @Test("An expired delta link restarts the pull and removes rows that are gone")
    func anExpiredLinkStartsOver() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes(
                ["a", "b", "c", "d"].map { serverRow($0, 1) },
                delta: "$deltatoken=d1"
            )
        )
        try await device.todos().pull(queryID: "all")
        try await device.todos().update(id: "b") { $0.text = "mine" }
        transport.add(
            .status(403),
            .json(410, #"{"error":"Gone."}"#),
            Self.changes([serverRow("c", 5)], next: "$deltatoken=l2"),
            Self.changes([serverRow("d", 1)], delta: "$deltatoken=d2")
        )
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.removed == 1)
        #expect(try await ids(device) == ["b", "c", "d"])
        #expect(try await device.context.pendingOperations().map(\.isParked) == [true])
        #expect(transport.sent.map(\.query).suffix(2) == [Self.first, "$deltatoken=l2"])
        // No query holds the row any more: it is removed with its operation.
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await ids(device) == ["c", "d"])
    }

    @Test("A restarted read does not count the rows of the interrupted one")
    func anInterruptedReadThatExpiresStartsFromTheBeginning() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1)], next: "$deltatoken=l1"),
            .status(401),
            .json(410, #"{"error":"Gone."}"#),
            Self.changes([serverRow("b", 2)], delta: "$deltatoken=d1")
        )
        #expect(await code { try await device.todos().pull(queryID: "all") } == .unauthorized)
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.removed == 1)
        #expect(try await ids(device) == ["b"])
    }

    @Test("A server that stops tracking changes is pulled by time")
    func aServerThatStopsTrackingChangesIsPulledByTime() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1), serverRow("b", 1)], delta: "$deltatoken=d1"),
            page([serverRow("b", 1)]),
            page([serverRow("b", 1), serverRow("c", 2)]),
            page([serverRow("c", 2)])
        )
        try await device.todos().pull(queryID: "all")
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.requests == 2 && result.removed == 1)
        #expect(try await ids(device) == ["b", "c"])
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.last?.query.contains("updatedAt ge") == true)
        #expect(transport.unused == 0)
    }

    @Test("A second list without links in one pull throws an error that describes it")
    func aSecondListWithoutLinksIsAnError() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1)], next: "$deltatoken=l1"),
            Self.changes([serverRow("b", 2)]),
            Self.changes([serverRow("a", 1)], next: "$deltatoken=l1"),
            Self.changes([serverRow("b", 2)])
        )
        let error = await #expect(throws: SyncError.self) {
            try await device.todos().pull(queryID: "all")
        }
        #expect(error?.code == .badResponse)
        for words in ["'Todo'", "neither a next link nor a delta link", "without a query id"] {
            #expect(error?.message.contains(words) == true, "\(words)")
        }
        transport.add(
            Self.changes([serverRow("b", 2)]),
            Self.changes([serverRow("b", 2)], delta: "$deltatoken=d1")
        )
        try await device.todos().pull(queryID: "all")
        #expect(try await ids(device) == ["b"])
    }

    // MARK: - Several queries

    @Test("A row stays on the device as long as a query contains it")
    func aRowStaysAsLongAsItIsInAQuery() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1), serverRow("b", 1)], delta: "$deltatoken=open"),
            Self.changes([serverRow("a", 1), serverRow("c", 1)], delta: "$deltatoken=mine")
        )
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        try await device.todos().pull(queryID: "mine", where: { $0.rank > 1 })
        #expect(try await ids(device) == ["a", "b", "c"])
        transport.add(
            Self.changes(
                [Self.removed("a", "changed"), Self.removed("b", "changed")],
                delta: "$deltatoken=open2"
            )
        )
        let first = try await device.todos().pull(queryID: "open", where: { !$0.complete })
        #expect(first.removed == 1)
        #expect(try await ids(device) == ["a", "c"])
        transport.add(
            Self.changes([Self.removed("a", "changed")], delta: "$deltatoken=mine2"),
            Self.changes([Self.removed("c", "deleted")], delta: "$deltatoken=open3")
        )
        try await device.todos().pull(queryID: "mine", where: { $0.rank > 1 })
        #expect(try await ids(device) == ["c"])
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        #expect(try await ids(device) == [])
    }

    @Test("A full read of one query preserves the rows of other queries")
    func aFullReadKeepsTheRowsOfOtherQueries() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1), serverRow("b", 1)], delta: "$deltatoken=one"),
            Self.changes([serverRow("b", 1), serverRow("c", 1)], delta: "$deltatoken=two"),
            .json(410, #"{"error":"Gone."}"#),
            Self.changes([serverRow("c", 1)], delta: "$deltatoken=one2")
        )
        try await device.todos().pull(queryID: "one")
        try await device.todos().pull(queryID: "two")
        let again = try await device.todos().pull(queryID: "one")
        #expect(again.removed == 1)
        #expect(try await ids(device) == ["b", "c"])
        transport.add(
            Self.changes(
                [Self.removed("b", "changed"), Self.removed("c", "changed")],
                delta: "$deltatoken=two2"
            )
        )
        try await device.todos().pull(queryID: "two")
        #expect(try await ids(device) == ["c"])
    }

    @Test("A row that leaves its query stays until its parked operation is discarded")
    func aRowWithPendingOperationsStays() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1), serverRow("b", 1)], delta: "$deltatoken=d")
        )
        try await device.todos().pull(queryID: "all")
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(
            .status(403),
            Self.changes([Self.removed("a", "changed")], delta: "$deltatoken=e")
        )
        #expect(try await device.todos().pull(queryID: "all").removed == 0)
        #expect(try await device.todos().read(id: "a")?.text == "mine")
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await ids(device) == ["b"])
    }

    /// A row that left its query while its operation was parked, and whose edit the server then overruled.
    @Test("A row that no query contains is removed by the next pull")
    func aRowInNoQueryLeavesWithTheNextPull() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        let pull = { try await device.todos().pull(queryID: "open", where: { !$0.complete }) }
        transport.add(Self.changes([serverRow("a", 1)], delta: "$deltatoken=d1"))
        _ = try await pull()
        try await device.todos().update(id: "a") { $0.text = "refused" }
        transport.add(.status(400))
        #expect(try await device.push()?.status == .operationErrors)
        transport.add(Self.changes([Self.removed("a", "changed")], delta: "$deltatoken=d2"))
        _ = try await pull()
        #expect(try await ids(device) == ["a"])
        try await device.todos().update(id: "a") { $0.text = "again" }
        let done = serverRow("a", 2).replacing("\"complete\":false", with: "\"complete\":true")
        transport.add(.json(412, done))
        #expect(try await device.push() == nil)
        transport.add(Self.changes([], delta: "$deltatoken=d2"))
        _ = try await pull()
        #expect(try await ids(device).isEmpty)
    }

    @Test("A row that left its query does not return when a local insert is deleted")
    func aRowInNoQueryDoesNotReturnWithADroppedInsert() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        transport.add(Self.changes([], delta: "$deltatoken=d"))
        try await todos.pull(queryID: "open", where: { !$0.complete })
        transport.add(
            .run { _ in
                try await todos.insert(Todo(id: "a"))
                return Self.changes([serverRow("a", 4), serverRow("b", 4)], next: "$skiptoken=s")
            },
            Self.changes([Self.removed("a", "changed")], delta: "$deltatoken=e")
        )
        try await todos.pull(queryID: "open", where: { !$0.complete })
        #expect(try await ids(device) == ["a", "b"])
        try await todos.delete(id: "a")
        #expect(try await ids(device) == ["b"])
        #expect(try await device.queue() == [])
    }

    @Test("A pushed row stays on the device until a query reports its removal")
    func aLocalRowStaysUntilAQueryReportsIt() async throws {
        let device = try await Device(transport)
        transport.add(Self.changes([], delta: "$deltatoken=d"))
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        try await device.todos().insert(Todo(id: "n"))
        transport.add(
            .json(201, serverRow("n", 4)),
            Self.changes([serverRow("n", 4)], delta: "$deltatoken=e"),
            Self.changes([Self.removed("n", "changed")], delta: "$deltatoken=f")
        )
        // The pull reports the device's own row, which is already stored.
        let echo = try await device.todos().pull(queryID: "open", where: { !$0.complete })
        #expect(echo.applied == 1)
        #expect(try await ids(device) == ["n"])
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        #expect(try await ids(device) == [])
    }

    @Test("A row inserted during a first pull stays until its query reports its removal")
    func aRowInsertedDuringTheFirstReadStaysUntilItsQueryReportsIt() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        transport.add(
            .run { _ in
                try await todos.insert(Todo(id: "n"))
                return Self.changes([], delta: "$deltatoken=d")
            },
            .json(201, serverRow("n", 4)),
            Self.changes([], delta: "$deltatoken=e")
        )
        try await todos.pull(queryID: "open", where: { !$0.complete })
        #expect(try await device.push() == nil)
        // Another query, which does not match the row, is pulled before the first one is pulled again.
        try await todos.pull(queryID: "done", where: { $0.complete })
        #expect(try await ids(device) == ["n"])
        transport.add(Self.changes([Self.removed("n", "changed")], delta: "$deltatoken=f"))
        try await todos.pull(queryID: "open", where: { !$0.complete })
        #expect(try await ids(device) == [])
    }

    @Test("A row inserted during a pull without a query ID stays until the next such pull lacks it")
    func aRowInsertedDuringAPullWithoutAnIDStays() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        transport.add(
            .run { _ in
                try await todos.insert(Todo(id: "n"))
                return page([])
            },
            .json(201, serverRow("n", 4)),
            Self.changes([], delta: "$deltatoken=e")
        )
        try await todos.pull(queryID: nil)
        #expect(try await device.push() == nil)
        // A query that does not match the row is pulled before the first one is pulled again.
        try await todos.pull(queryID: "done", where: { $0.complete })
        #expect(try await ids(device) == ["n"])
        transport.add(page([]))
        try await todos.pull(queryID: nil)
        #expect(try await ids(device) == [])
    }

    // MARK: - Full pulls

    @Test("A pull without a query ID removes the rows that it did not return")
    func aPullWithoutAnIDRemovesTheRowsThatItDidNotReturn() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1), serverRow("b", 1)], delta: "$deltatoken=d"),
            page([serverRow("b", 1), serverRow("c", 2)], next: "$skip=2"),
            page([serverRow("d", 2)])
        )
        try await device.todos().pull(queryID: "all")
        let result = try await device.todos().pull(queryID: nil)
        #expect(result.applied == 3)
        #expect(result.removed == 1)
        #expect(try await ids(device) == ["b", "c", "d"])
    }

    @Test("A pull without a query ID preserves the rows outside of its query")
    func aPullWithoutAnIDKeepsTheRowsOutsideOfItsQuery() async throws {
        let device = try await Device(transport)
        transport.add(
            page([serverRow("a", 1, rank: 1), serverRow("b", 1, rank: 2)]),
            page([serverRow("b", 1, rank: 2)]),
            page([serverRow("c", 1, rank: 2)]),
            page([])
        )
        try await device.todos().pull(queryID: nil, where: { $0.rank > 0 })
        try await device.todos().pull(queryID: nil, where: { $0.rank == 2 })
        #expect(try await ids(device) == ["a", "b"])
        try await device.todos().pull(queryID: nil, where: { $0.rank == 2 })
        #expect(try await ids(device) == ["a", "c"])
        var window = Query<Todo>()
        window.limit = 1
        try await device.todos().pull(queryID: nil, window)
        #expect(try await ids(device) == ["a", "c"])
    }

    @Test("A sync pulls rows even if the push rejects an operation")
    func syncPushesAndPullsEverything() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "n"))
        transport.add(
            .status(403),
            Self.changes([serverRow("a", 1)], delta: "$deltatoken=d")
        )
        let error = await #expect(throws: PushError.self) {
            try await device.todos().sync(queryID: "all")
        }
        #expect(error?.status == .operationErrors)
        #expect(try await ids(device) == ["a", "n"])
        try await device.todos().update(id: "n") { $0.text = "better" }
        transport.add(
            .json(201, serverRow("n", 4, text: "better")),
            Self.changes([serverRow("n", 4, text: "better")], delta: "$deltatoken=e")
        )
        let result = try await device.todos().sync(queryID: "all")
        #expect(result.requests == 1)
        #expect(try await device.queue() == [])
    }

    /// Old membership bits are not mistaken for new ones.
    @Test("After a purge of some rows, the next pull starts from the beginning")
    func aPurgeOfSomeRowsResetsThePull() async throws {
        let device = try await Device(transport)
        transport.add(
            Self.changes([serverRow("a", 1), serverRow("b", 1, rank: 9)], delta: "$deltatoken=d")
        )
        try await device.todos().pull(queryID: "all")
        try await device.todos().purge(where: { $0.rank == 9 })
        #expect(try await ids(device) == ["a"])
        transport.add(Self.changes([serverRow("b", 1, rank: 9)], delta: "$deltatoken=e"))
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.last?.query == Self.first)
        #expect(try await ids(device) == ["b"])
    }

    @Test("No row is lost if more queries than membership bits share the last bit")
    func manyQueriesShareAMembershipBit() async throws {
        let device = try await Device(transport)
        for index in 0..<70 {
            transport.add(
                Self.changes([serverRow("r\(index)", 1)], delta: "$deltatoken=d\(index)")
            )
            try await device.todos().pull(queryID: "q\(index)")
        }
        #expect(try await device.todos().count() == 70)
        transport.add(Self.changes([Self.removed("r3", "changed")], delta: "$deltatoken=e"))
        try await device.todos().pull(queryID: "q3")
        #expect(try await device.todos().count() == 69)
        transport.add(Self.changes([Self.removed("r69", "deleted")], delta: "$deltatoken=e"))
        try await device.todos().pull(queryID: "q69")
        #expect(try await device.todos().count() == 68)
    }
}

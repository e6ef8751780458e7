// Pull: the requests that it sends, the rows that it stores, and the conditions under which it stops.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct PullTests {
    private let transport = ScriptedTransport()

    private static let all = "$orderby=updatedAt&__includedeleted=true"

    private static func since(_ version: Int, _ filter: String = "") -> String {
        "$filter=\(filter)updatedAt ge \(timestamp(version))&\(all)"
    }

    @Test("A second pull resumes at the cursor") func aSecondPullAsksFromTheCursor() async throws {
        let device = try await Device(transport)
        transport.add(page([serverRow("a", 3), serverRow("b", 5)]), page([serverRow("b", 5)]))
        let first = try await device.todos().pull(queryID: "all")
        #expect(first.applied == 2)
        #expect(first.requests == 1)
        #expect(try await device.rows() == [localRow("a", 3), localRow("b", 5)])
        let second = try await device.todos().pull(queryID: "all")
        #expect(second.applied == 0)
        #expect(transport.sent.map(\.query) == [Self.all, Self.since(5)])
        #expect(try await device.todos().lastPull != nil)
    }

    @Test("The cursor of a query survives a restart")
    func theCursorSurvivesARestart() async throws {
        try await withTemporaryFile { path in
            let first = try await Device(transport, store: SQLiteStore(path: path))
            transport.add(page([serverRow("a", 3)]), page([]))
            try await first.todos().pull(queryID: "all")
            let second = try await Device(transport, store: SQLiteStore(path: path))
            try await second.todos().pull(queryID: "all")
            #expect(transport.sent[1].query == Self.since(3))
        }
    }

    @Test("The filter of a query is part of the request of each pull")
    func aFilterIsPartOfTheRequest() async throws {
        let device = try await Device(transport)
        transport.add(page([serverRow("a", 3)]), page([]))
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        try await device.todos().pull(queryID: "open", where: #Predicate { !$0.complete })
        #expect(
            transport.sent.map(\.query) == [
                "$filter=not(complete)&\(Self.all)", Self.since(3, "not(complete) and "),
            ]
        )
    }

    @Test("Another filter for the same query ID starts from the beginning")
    func anotherFilterUnderTheSameIDStartsFromTheBeginning() async throws {
        let device = try await Device(transport)
        transport.add(page([serverRow("a", 3)]), page([serverRow("a", 3)]), page([]))
        try await device.todos().pull(queryID: "q", where: { $0.rank > 1 })
        try await device.todos().pull(queryID: "q", where: { $0.rank > 2 })
        try await device.todos().pull(queryID: "q", where: { $0.rank > 2 })
        #expect(transport.sent[1].query == "$filter=rank gt 2&\(Self.all)")
        #expect(transport.sent[2].query == Self.since(3, "rank gt 2 and "))
    }

    @Test("Every query ID of a table has its own cursor")
    func everyIDHasItsOwnCursor() async throws {
        let device = try await Device(transport, tables: [Todo.self, Note.self])
        transport.add(page([serverRow("a", 3)]), page([]), page([]))
        try await device.todos().pull(queryID: "one")
        try await device.todos().pull(queryID: "two")
        try await device.client.syncTable(Note.self).pull(queryID: "one")
        #expect(transport.sent.map(\.query) == [Self.all, Self.all, Self.all])
    }

    @Test("A pull without a query ID reads all rows each time")
    func aPullWithoutAnIDReadsAllRowsEachTime() async throws {
        let device = try await Device(transport)
        transport.add(page([serverRow("a", 3)]), page([serverRow("a", 3)]))
        for _ in 0..<2 {
            #expect(try await device.todos().pull(queryID: nil).applied == 1)
        }
        #expect(transport.sent.map(\.query) == ["__includedeleted=true", "__includedeleted=true"])
    }

    @Test("A tombstone removes the local row") func tombstonesRemoveRows() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1), localRow("b", 1)])
        transport.add(page([serverRow("a", 4, deleted: true), serverRow("x", 5, deleted: true)]))
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.removed == 1)
        #expect(try await device.rows() == [localRow("b", 1)])
    }

    @Test("The last occurrence of a row in a page counts")
    func aRowMayOccurTwiceInAPage() async throws {
        let device = try await Device(transport)
        transport.add(
            page([
                serverRow("a", 1), serverRow("a", 2, deleted: true), serverRow("b", 3),
                serverRow("b", 4, text: "last"), "{\"text\":\"no id\"}", "{\"id\":\"\"}",
                "{\"id\":7}",
            ])
        )
        let result = try await device.todos().pull(queryID: "all")
        #expect(try await device.rows() == [localRow("b", 4, text: "last")])
        #expect(result.rowsWithoutID == 3)
    }

    @Test("Rows with the same commit timestamp are read by following links")
    func rowsWithTheSameTimeAreReadByLinks() async throws {
        let device = try await Device(transport)
        let ties = (0..<10).map { serverRow("t\($0)", 5) }
        transport.add(
            page(Array(ties[0..<3]), next: "$skiptoken=1"),
            page(Array(ties[0..<3]), next: "$skiptoken=1"),
            page(Array(ties[3..<6]), next: "$skiptoken=2"),
            page(Array(ties[6..<9]), next: "$skiptoken=3"),
            page([ties[9], serverRow("z", 6)], next: "$skiptoken=4"),
            page([serverRow("z", 6)])
        )
        try await device.todos().pull(queryID: "all")
        #expect(try await device.rows().count == 11)
        #expect(
            transport.sent.map(\.query) == [
                Self.all, Self.since(5), "$skiptoken=1", "$skiptoken=2", "$skiptoken=3",
                Self.since(6),
            ]
        )
    }

    @Test("A row that changes during a pull is read again at its new position")
    func aRowThatMovesToTheEndIsReadAgain() async throws {
        let device = try await Device(transport)
        transport.add(
            page([serverRow("a", 1), serverRow("b", 2)], next: "$skip=2"),
            page([serverRow("b", 2), serverRow("a", 9)], next: "$skip=2"),
            page([serverRow("a", 9)])
        )
        try await device.todos().pull(queryID: "all")
        #expect(try await device.rows() == [localRow("a", 9), localRow("b", 2)])
        #expect(transport.sent[1].query == Self.since(2))
    }

    @Test("An interrupted pull preserves its rows and resumes at its cursor")
    func anInterruptedPullContinuesWhereItStopped() async throws {
        let device = try await Device(transport)
        transport.add(
            page([serverRow("a", 1)], next: "x"),
            .status(401),
            page([serverRow("a", 1), serverRow("b", 2)])
        )
        #expect(await code { try await device.todos().pull(queryID: "all") } == .unauthorized)
        #expect(try await device.rows() == [localRow("a", 1)])
        #expect(try await device.todos().lastPull == nil)
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.last?.query == Self.since(1))
        #expect(try await device.rows().count == 2)
    }

    @Test("An endless chain of next links ends the pull")
    func anEndlessChainOfLinksEndsThePull() async throws {
        var limits = SyncLimits()
        limits.pagesMax = 20
        for number in 0..<30 { transport.add(page([serverRow("a", 1)], next: "page\(number)")) }
        let device = try await Device(transport, limits: limits)
        #expect(await code { try await device.todos().pull(queryID: "a") } == .badResponse)
        #expect(transport.sent.count == 21)
    }

    @Test("A next link to its own page ends a pull or a read", arguments: ["a", nil])
    func aLinkToItsOwnPageEndsThePull(_ queryID: String?) async throws {
        let transport = ScriptedTransport(otherwise: page([serverRow("a", 1)], next: "again"))
        let device = try await Device(transport)
        #expect(await code { try await device.todos().pull(queryID: queryID) } == .badResponse)
        #expect(transport.sent.count <= 3)
        let remote = device.client.table(named: "Todo")
        #expect(await code { _ = try await remote.read() } == .badResponse)
    }

    @Test(
        "A next link to another origin is not followed",
        arguments: [
            "https://localhost/tables/Todo?$skip=1", "http://localhost:81/tables/Todo",
            "http://localhost.evil.example/tables/Todo", "http://evil.example/",
        ]
    )
    func aLinkToAnotherOriginIsRejected(link: String) async throws {
        let transport = ScriptedTransport([page([serverRow("a", 1)], next: link)])
        let device = try await Device(transport)
        #expect(await code { try await device.todos().pull(queryID: nil) } == .badResponse)
        #expect(transport.sent.count == 1)
        #expect(try await device.rows() == [localRow("a", 1)])
    }

    @Test(
        "Absolute and relative next links are followed",
        arguments: [
            ("http://localhost/tables/Todo?$skip=1", "/tables/Todo?$skip=1"),
            ("http://LOCALHOST:80/x?y", "/x?y"), ("/tables/Todo?$skip=1", "/tables/Todo?$skip=1"),
            ("?$skip=1", "/tables/Todo?$skip=1"), ("%24skip=1", "/tables/Todo?%24skip=1"),
        ]
    )
    func eachFormOfALinkIsFollowed(link: String, target: String) async throws {
        let transport = ScriptedTransport([page([serverRow("a", 1)], next: link), page([])])
        let device = try await Device(transport)
        try await device.todos().pull(queryID: nil)
        #expect(transport.sent.last?.target == target)
    }

    static let rejectedCases: [(Int, String, SyncError.Code)] = [
        (401, #"{"error":"No."}"#, .unauthorized), (403, #"{"error":"No."}"#, .forbidden),
        (404, "", .notFound),
        (200, "<html></html>", .badResponse), (200, "", .badResponse), (204, "", .badResponse),
        (200, #"{"items":[{"id":"a"}]"#, .badResponse), (503, "", .serverError),
    ]

    @Test(
        "A failed pull throws the error code of its response and changes no row",
        arguments: rejectedCases
    )
    func rejectionsHaveTheirErrorCodes(
        status: Int,
        body: String,
        expected: SyncError.Code
    ) async throws {
        let transport = ScriptedTransport(otherwise: .json(status, body))
        let device = try await Device(transport)
        try await device.seed([localRow("z", 1)])
        #expect(await code { try await device.todos().pull(queryID: "a") } == expected)
        #expect(try await device.rows() == [localRow("z", 1)])
    }
}

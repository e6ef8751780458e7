// Pulls over links that cannot carry large pages: the pages become smaller, and stay so.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct SlowLinkTests {
    /// A server whose large pages do not arrive.
    private final class Link: Transport {
        let inner: any Transport
        let rowsMax: Int
        let code: TransportError.Code
        private let requested = Mutex<[Int]>([])

        init(_ inner: any Transport, rowsMax: Int, _ code: TransportError.Code) {
            self.inner = inner
            self.rowsMax = rowsMax
            self.code = code
        }

        /// The requested page sizes.
        var sizes: [Int] { requested.withLock { $0 } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let wish = (request.headers["Prefer"] ?? "").split(separator: ",")
                .first { $0.contains("maxpagesize") }
            if let rows = wish?.split(separator: "=").last.flatMap({ Int($0) }) {
                requested.withLock { $0.append(rows) }
                if rows > rowsMax { throw TransportError(code, "No.", outcomeIsUnknown: true) }
            }
            return try await inner.send(request)
        }
    }

    private func server(_ rows: Int) async throws -> InProcessServer {
        let server = try await makeServer()
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        for index in 0..<rows { try await remote.insert(Todo(id: "r\(index)", rank: index)) }
        return server
    }

    @Test(
        "A pull requests smaller pages after a page that does not arrive",
        arguments: [TransportError.Code.timedOut, .incompleteResponse, .responseTooLarge]
    )
    func aPageThatDoesNotArriveBecomesSmaller(code: TransportError.Code) async throws {
        let link = Link(try await server(130).transport, rowsMax: 100, code)
        let device = try await Device(link)
        #expect(try await device.todos().pull(queryID: "all").applied == 130)
        #expect(link.sizes.prefix(3) == [1000, 250, 62])
    }

    @Test("A page size that worked is used after a restart")
    func aPageSizeThatWorkedIsUsedAfterARestart() async throws {
        try await withTemporaryFile { path in
            let link = Link(try await server(3).transport, rowsMax: 130, .timedOut)
            let first = try await Device(link, store: SQLiteStore(path: path))
            try await first.todos().pull(queryID: "all")
            let firstCount = link.sizes.count
            let second = try await Device(link, store: SQLiteStore(path: path))
            try await second.todos().pull(queryID: "all")
            let sizes = link.sizes.dropFirst(firstCount)
            #expect(sizes.first.map { $0 <= 124 } == true)
            #expect(sizes.count == 1)
        }
    }

    @Test("A pull without any response tries four page sizes, and the next pull only one")
    func aServerWithoutAnswersEndsThePullAndTheNextPageIsSmaller() async throws {
        let link = Link(ScriptedTransport(), rowsMax: 0, .timedOut)
        let device = try await Device(link)
        #expect(await code { try await device.todos().pull(queryID: "all") } == .offline)
        #expect(link.sizes == [1000, 250, 62, 15])
        #expect(await code { try await device.todos().pull(queryID: "all") } == .offline)
        #expect(link.sizes.count == 5)
    }

    @Test("A pull tries an unreachable server once")
    func anUnreachableServerIsTriedOnce() async throws {
        let link = Link(ScriptedTransport(), rowsMax: 0, .cannotConnect)
        let device = try await Device(link)
        #expect(await code { try await device.todos().pull(queryID: "all") } == .offline)
        #expect(link.sizes == [1000])
    }

    @Test("A remote read above the server's limit follows pages up to the requested limit")
    func aRemoteReadAboveTheServersLimitFollowsPages() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "Todo",
                columns: [ColumnDefinition("rank", .integer)],
                pageSize: 10,
                maxTop: 60
            )
        ])
        let client = SyncClient(endpoint: Device.endpoint, transport: server.transport)
        let remote = client.table(named: "Todo")
        for index in 0..<150 {
            try await remote.insert(["id": .string("r\(index)"), "rank": .integer(Int64(index))])
        }
        for limit in [0, 5, 50, 61, 125, 150, 1000] {
            let rows = try await remote.read(sortedBy: [.ascending("rank")], limit: limit)
            #expect(rows.count == min(limit, 150))
            let last: Value? = limit == 0 ? nil : .integer(Int64(min(limit, 150) - 1))
            #expect(rows.last?["rank"] == last)
        }
        let window = try await remote.read(sortedBy: [.ascending("rank")], limit: 100, offset: 40)
        let ranks: [Value?] = (40..<140).map { Value.integer(Int64($0)) }
        #expect(window.map { $0["rank"] } == ranks)
    }

    @Test("A failed pull reports its end with an error code")
    func aFailedPullReportsThatItEnded() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        let events = device.context.events
        transport.add(.status(403), page([serverRow("a", 1)]), page([]))
        #expect(await code { try await device.todos().pull(queryID: "all") } == .forbidden)
        try await device.todos().pull(queryID: "all")
        var seen: [SyncEvent] = []
        for await event in events {
            seen.append(event)
            if event.kind == .pullFinished { break }
        }
        let pulls = seen.filter {
            switch $0.kind {
            case .pullStarted, .pullFailed, .pullFinished: true
            default: false
            }
        }
        #expect(
            pulls == [
                .pullStarted(table: "Todo"), .pullFailed(table: "Todo", code: .forbidden),
                .pullStarted(table: "Todo"), .pullFinished(table: "Todo", applied: 1, removed: 0),
            ]
        )
    }
}

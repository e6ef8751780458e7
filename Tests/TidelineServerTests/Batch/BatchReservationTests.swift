// BatchReservationTests: the response memory that batches reserve, and the callers that wait for them.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct BatchReservationTests {
    private static let list = "tables/TodoItem?$top=10"

    /// Ten rows of 60 kB, and a page of them that was read once, so that its size is known.
    private static func server(
        _ traffic: ServerTraffic,
        _ endpoints: [Endpoint] = []
    ) async throws -> TestServer {
        let server = try await TestServer(endpoints: endpoints, traffic: traffic)
        let text = String(repeating: "x", count: 60_000)
        for number in 0..<10 {
            let row = #"{"id":"\#(number)","text":"\#(text)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        #expect(await server.send("GET", "/" + list).status == 200)
        return server
    }

    @Test(
        "Batches reserve memory only for what they read, so other callers do not wait",
        .timeLimit(.minutes(10))
    )
    func noCallerWaitsForBatchesThatRead() async throws {
        let traffic = ServerTraffic(answersBytesMax: 8 << 20)
        let (within, gate) = (ServerTraffic.Counter(), Flag())
        let held = Endpoint("GET", "/api/held") { _ in
            within.add()
            try await until { gate.isSet }
            return ServerResponse(status: 200)
        }
        let server = try await Self.server(traffic, [held])
        let nothing = "tables/TodoItem?$filter=text eq ''"
        let reads = [
            (0..<99).map { BatchPart("\($0)", "get", nothing) },
            [BatchPart("0", "get", Self.list)],
        ]
        let batches = (0..<6).map { number in
            Task {
                let parts = reads[number % 2] + [BatchPart("held", "get", "api/held")]
                return await server.batch(parts).partStatuses
            }
        }
        try await until { within.current >= 6 }
        // Three of them have pages, the others have none.
        #expect((1_800_000..<2_000_000).contains(traffic.reservedAnswerBytes))
        let writes = (0..<100).map {
            BatchPart("\($0)", "patch", "tables/TodoItem/\($0 % 10)", #"{"rank":\#($0)}"#)
        }
        let small = (0..<100).map { BatchPart("\($0)", "post", "tables/TodoItem", #"{"rank":1}"#) }
        #expect(await server.batch(small).partStatuses == Array(repeating: 201, count: 100))
        #expect(await server.batch(writes).partStatuses == Array(repeating: 200, count: 100))
        #expect(await server.send("GET", "/" + Self.list).rows.count == 10)
        gate.set()
        for batch in batches {
            #expect(await batch.value.allSatisfy { $0 == 200 })
        }
        #expect(traffic.reservedAnswerBytes == 0)
    }

    /// A batch that has a reservation does not wait for more memory: the caller repeats the rest of the batch.
    @Test(
        "A page of a batch is rejected with 503 if there is no memory for it",
        .timeLimit(.minutes(10))
    )
    func aPageWithoutMemoryIsSkipped() async throws {
        let traffic = ServerTraffic(answersBytesMax: 8 << 20)
        let server = try await Self.server(traffic)
        let lists = (0..<6).map { BatchPart("\($0)", "get", Self.list) }
        let others = traffic.batchReads.count(100_000)
        // A response keeps its reservation as long as it is referenced.
        do {
            let answer = await server.batch(lists, continuing: true)
            #expect(answer.partStatuses == [200, 200, 200, 503, 503, 503])
            #expect(answer.partCodes[3] == "batchAnswersTooLarge")
            #expect((answer.partBody(3)["error"] as? String ?? "").contains("limits.answersBytes"))
        }
        others.resize(to: 0)
        // A batch that is alone gets the maximum for a batch.
        #expect(await server.batch(lists).partStatuses == Array(repeating: 200, count: 6))
        #expect(traffic.reservedAnswerBytes == 0)
    }

    @Test("The sizes of small pages in a batch are added up for its reservation")
    func manySmallPagesReserveMemory() async throws {
        let traffic = ServerTraffic(answersBytesMax: 8 << 20)
        let server = try await TestServer(traffic: traffic)
        let text = String(repeating: "x", count: 20_000)
        #expect(
            await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"\#(text)"}"#).status
                == 201
        )
        let others = traffic.batchReads.count(2 << 20)
        for target in ["tables/TodoItem", "tables/TodoItem/a"] {
            let parts = (0..<5).map { BatchPart("\($0)", "get", target) }
            #expect(
                await server.batch(parts, continuing: true).partStatuses == [
                    200, 200, 200, 503, 503,
                ]
            )
        }
        withExtendedLifetime(others) {}
    }

    @Test(
        "The first page or row of a batch waits for memory",
        .timeLimit(.minutes(10)),
        arguments: [list, "tables/TodoItem/large"]
    )
    func theFirstLargeAnswerWaits(target: String) async throws {
        let traffic = ServerTraffic(answersBytesMax: 8 << 20)
        let server = try await Self.server(traffic)
        let text = String(repeating: "x", count: 100_000)
        let row = #"{"id":"large","text":"\#(text)"}"#
        #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        var others: MemoryReservation? = traffic.batchReads.count(1 << 30)
        let parts = ["tables/TodoItem/none", target].enumerated().map {
            BatchPart("\($0)", "get", $1)
        }
        async let answer = server.batch(parts, continuing: true)
        try await until { traffic.batchReads.waiting != 0 }
        #expect(traffic.reservedAnswerBytes == 1 << 30)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await answer.partStatuses == [404, 200])
    }

    @Test(
        "A request of an endpoint does not wait for memory of the batch that calls it",
        .timeLimit(.minutes(10))
    )
    func requestsOfAnEndpointArePartOfTheBatch() async throws {
        let traffic = ServerTraffic(answersBytesMax: 4 << 20)
        let inner = Endpoint("POST", "/api/inner") { call in
            let list = await call.send(
                ServerRequest(method: "GET", path: "/tables/TodoItem", query: "$top=10")
            )
            let body = #"{"requests":[{"id":"1","method":"get","url":"\#(Self.list)"}]}"#
            var request = ServerRequest(method: "POST", path: "/$batch", body: Array(body.utf8))
            request.headers.append("Content-Type", "application/json")
            let batch = await call.send(request)
            return ServerResponse(status: list.status + batch.status, body: [])
        }
        let server = try await Self.server(traffic, [inner])
        let parts = [
            BatchPart("1", "get", Self.list), BatchPart("2", "post", "api/inner"),
            BatchPart("3", "get", Self.list),
        ]
        #expect(await server.batch(parts).partStatuses == [200, 400, 424])
        #expect(traffic.reservedAnswerBytes == 0)
    }
}

// PageReservationTests: the memory that is reserved for a page while it waits for its turn.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct PageReservationTests {
    /// The memory for responses as the hook that follows a read sees it.
    private final class Meter: Sendable {
        let held = Mutex<[Int]>([])
        let traffic = ServerTraffic()

        func take() { held.withLock { $0.append(traffic.answers.reservedBytes) } }
    }

    /// Otherwise short pages would wait for the reservations of pages whose turn has not come.
    @Test("A page reserves memory by the last known size of its rows")
    func aPageReservesTheMemoryThatItNeeds() async throws {
        let meter = Meter()
        var hooks = TableHooks()
        hooks.afterRead = { _, _ in meter.take() }
        let server = try await TestServer(hooks: ["TodoItem": hooks], traffic: meter.traffic)
        for number in 0..<200 {
            let row = #"{"id":"\#(number)","text":"\#(number)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        for _ in 0..<2 {
            let page = await server.send("GET", "/tables/TodoItem?$top=200", classic: true)
            #expect(page.rows.count == 200)
        }
        let held = meter.held.withLock { $0 }
        #expect(held.count == 2)
        // For rows that have never been read the maximum is reserved; for other rows, their last known size.
        #expect(held.first.map { $0 > 200 * 1024 } == true)
        #expect(held.last.map { $0 > 0 && $0 < 200 * 512 } == true)
        #expect(meter.traffic.answers.reservedBytes == 0)
    }

    /// Many requests may arrive before the size of the rows is known: each has a reservation, or waits.
    @Test("The first read of a table reserves enough memory for its rows")
    func theFirstReadersOfATableReserveMemoryToo() async throws {
        let meter = Meter()
        var hooks = TableHooks()
        hooks.afterRead = { _, _ in meter.take() }
        let server = try await TestServer(hooks: ["TodoItem": hooks], traffic: meter.traffic)
        let text = String(repeating: "x", count: 60_000)
        for number in 0..<60 {
            let row = #"{"id":"\#(number)","text":"\#(text)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        #expect(await server.send("GET", "/tables/TodoItem?$top=60").rows.count == 60)
        let held = meter.held.withLock { $0 }
        #expect(held.count == 1 && held.allSatisfy { $0 > 60 * 60_000 })
        #expect(meter.traffic.answers.reservedBytes == 0)
    }

    @Test(
        "The first readers of a small table do not wait for callers of large tables",
        .timeLimit(.minutes(10))
    )
    func theFirstReadersOfASmallTableDoNotWait() async throws {
        let traffic = ServerTraffic()
        let server = try await TestServer(traffic: traffic)
        #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
        let others = traffic.answers.count(1 << 30)
        await withTaskGroup(of: Int.self) { tasks in
            for _ in 0..<50 {
                tasks.addTask { await server.send("GET", "/tables/TodoItem?$top=50").status }
            }
            for await status in tasks { #expect(status == 200) }
        }
        #expect(traffic.answers.waiting == 0)
        withExtendedLifetime(others) {}
    }

    @Test("A page of a few large rows reserves memory for their size")
    func aFewLargeRowsReserveMemory() async throws {
        let meter = Meter()
        var hooks = TableHooks()
        hooks.afterRead = { _, _ in meter.take() }
        let server = try await TestServer(hooks: ["TodoItem": hooks], traffic: meter.traffic)
        let text = String(repeating: "x", count: 60_000)
        for number in 0..<10 {
            let row = #"{"id":"\#(number)","text":"\#(text)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        for _ in 0..<2 {
            #expect(await server.send("GET", "/tables/TodoItem?$top=10").status == 200)
        }
        #expect(meter.held.withLock { $0.last ?? 0 } > 600_000)
        #expect(meter.traffic.answers.reservedBytes == 0)
    }

    @Test(
        "Slow lists without results reserve no memory and delay no caller",
        .timeLimit(.minutes(10)),
        arguments: [false, true]
    )
    func slowListsDelayNoCaller(isRead: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let other = TableDefinition("Other", columns: TestServer.todo.schema.columns)
            let traffic = ServerTraffic(answersBytesMax: 8 << 20)
            var limits = ServerLimits()
            limits.queryTime = .seconds(600)
            let server = try await TestServer(
                [TestServer.todo, other],
                path: directory + "/a.db",
                limits: limits,
                traffic: traffic
            )
            let text = String(repeating: "ab", count: 5000)
            for number in 0..<200 {
                let row = #"{"id":"\#(number)","text":"\#(text)"}"#
                #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
            }
            for number in 0..<20 {
                let row = #"{"id":"\#(number)","text":"\#(text)"}"#
                #expect(await server.send("POST", "/tables/Other", row).status == 201)
            }
            if isRead { _ = await server.send("GET", "/tables/TodoItem?$top=2") }
            let ended = ServerTraffic.Counter()
            let begun = traffic.store.readWaits.reading.total
            let reads = (0..<8).map { _ in
                Task {
                    _ = await server.send("GET", CancelledWorkTests.slow + "&$top=1000")
                    ended.add()
                }
            }
            try await until { traffic.store.readWaits.reading.total > begun }
            for target in ["/tables/Other?$top=2", "/tables/Other", "/tables/TodoItem?$top=2"] {
                #expect(await server.send("GET", target).status == 200)
            }
            #expect(ended.current == 0)
            for read in reads { read.cancel() }
            for read in reads { await read.value }
            await server.store.stop()
        }
    }

    @Test("A large page waits until memory is free", .timeLimit(.minutes(10)))
    func aLargePageWaitsForMemory() async throws {
        let traffic = ServerTraffic()
        let server = try await TestServer(traffic: traffic)
        let tracks: HTTPFields = ["Prefer": "odata.track-changes"]
        let list = await server.send("GET", "/tables/TodoItem", headers: tracks)
        let link = try #require(list.deltaLink)
        let text = String(repeating: "x", count: 60_000)
        for number in 0..<10 {
            let row = #"{"id":"\#(number)","text":"\#(text)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        for target in ["/tables/TodoItem?$top=10", "/tables/TodoItem?" + link] {
            var others: MemoryReservation? = traffic.answers.count(1 << 30)
            async let page = server.send("GET", target)
            try await until { traffic.answers.waiting != 0 }
            withExtendedLifetime(others) {}
            others = nil
            #expect(await page.rows.count == 10)
        }
        #expect(traffic.answers.reservedBytes == 0)
    }

    @Test(
        "A large row waits until memory is free and reserves none while it waits",
        .timeLimit(.minutes(10))
    )
    func aLargeRowWaitsForMemory() async throws {
        let traffic = ServerTraffic()
        let reads = ServerTraffic.Counter()
        var hooks = TableHooks()
        hooks.afterRead = { _, _ in reads.add() }
        let server = try await TestServer(hooks: ["TodoItem": hooks], traffic: traffic)
        let text = String(repeating: "x", count: 100_000)
        let row = #"{"id":"a","text":"\#(text)"}"#
        let tag = await server.send("POST", "/tables/TodoItem", row).headers["ETag"] ?? ""
        var others: MemoryReservation? = traffic.answers.count(1 << 30)
        async let answer = server.send("GET", "/tables/TodoItem/a")
        try await until { traffic.answers.waiting != 0 }
        #expect(traffic.answers.reservedBytes == 1 << 30)
        // A caller that gets no row, or that already has a reservation, does not wait.
        let known: HTTPFields = ["If-None-Match": tag]
        #expect(await server.send("GET", "/tables/TodoItem/a", headers: known).status == 304)
        let batch = await server.batch([BatchPart("1", "get", "tables/TodoItem/a")])
        #expect(batch.partStatuses == [200])
        #expect(traffic.answers.waiting == 1)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await answer.row["text"] as? String == text)
        // The row was read again, but by one caller.
        #expect(reads.current == 3)
    }

    /// Many waiting callers must not have their rows in memory: the database reserves memory before it builds a row.
    @Test(
        "The database does not build a large row without memory for it",
        arguments: [false, true]
    )
    func aLargeRowIsNotBuiltWithoutMemory(isFiltered: Bool) async throws {
        let server = try await TestServer()
        for (id, count) in [("large", 100_000), ("small", 10)] {
            let row = #"{"id":"\#(id)","text":"\#(String(repeating: "x", count: count))"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        let table = try #require(server.handler.service.catalog.table(named: "TodoItem"))
        let all = QueryExpression(
            .compare(
                .ne,
                QueryExpression(.field(SystemColumn.id)),
                QueryExpression(.value(.string("other")))
            )
        )
        let view = isFiltered ? all : nil
        let memory = ResponseMemory(bytesMax: 1 << 20)
        var others: MemoryReservation? = memory.count(1 << 20)
        let reservation = RowReservation(in: AnswerReservation(in: memory))
        let error = await #expect(throws: RowReservation.MemoryShortage.self) {
            try await server.store.read("large", view: view, in: table, reservation: reservation)
        }
        #expect(error?.state.isDeleted == false)
        #expect(
            try await server.store.read("small", view: view, in: table, reservation: reservation)
                != nil
        )
        #expect(
            try await server.store.read("none", view: view, in: table, reservation: reservation)
                == nil
        )
        withExtendedLifetime(others) {}
        others = nil
        let again = RowReservation(in: AnswerReservation(in: memory))
        #expect(
            try await server.store.read("large", view: view, in: table, reservation: again) != nil
        )
    }

    @Test(
        "A row that is small in storage but large as JSON waits for memory",
        .timeLimit(.minutes(10))
    )
    func aRowThatGrowsAsJSONWaitsToo() async throws {
        let traffic = ServerTraffic()
        let server = try await TestServer(traffic: traffic)
        let row = #"{"id":"a","text":"\#(String(repeating: #"\u0001"#, count: 30_000))"}"#
        #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        var others: MemoryReservation? = traffic.answers.count(1 << 30)
        async let answer = server.send("GET", "/tables/TodoItem/a")
        try await until { traffic.answers.waiting != 0 }
        withExtendedLifetime(others) {}
        others = nil
        #expect(await answer.status == 200)
    }

    @Test("A large response of an endpoint is rejected with 503 without memory for it")
    func aLargeResponseOfAnEndpointIsRejectedWithoutMemory() async throws {
        let traffic = ServerTraffic()
        let large = Endpoint("GET", "/api/large") { _ in
            ServerResponse(status: 200, body: [UInt8](repeating: 0x61, count: 100_000))
        }
        let server = try await TestServer(endpoints: [large], traffic: traffic)
        var others: MemoryReservation? = traffic.answers.count(1 << 30)
        #expect(await server.send("GET", "/api/large").status == 503)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await server.send("GET", "/api/large").status == 200)
    }
}

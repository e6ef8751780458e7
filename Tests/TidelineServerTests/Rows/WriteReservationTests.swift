// WriteReservationTests: the rows in responses to writes, and the memory for responses. A write whose response does not
// fit into the memory is not executed until it does.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct WriteReservationTests {
    private static let text = String(repeating: "x", count: 100_000)

    /// A large row `a` and a small one `b`.
    private static func server(
        _ traffic: ServerTraffic,
        _ hooks: [String: TableHooks] = [:]
    ) async throws -> TestServer {
        let server = try await TestServer(hooks: hooks, traffic: traffic)
        for row in [#"{"id":"a","rank":0,"text":"\#(text)"}"#, #"{"id":"b","rank":0}"#] {
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        return server
    }

    private static func rank(_ server: TestServer, _ id: String) async -> Int? {
        await server.send("GET", "/tables/TodoItem/\(id)").row["rank"] as? Int
    }

    /// A write, with the statuses of its response when there is memory.
    struct Sample: Sendable, CustomTestStringConvertible {
        var method = "PATCH"
        var target = "/tables/TodoItem/a"
        var body = #"{"rank":1}"#
        var headers: HTTPFields = [:]
        var hasHooks = false
        var status = 200
        var rank = 1

        var testDescription: String { "\(method) \(target) \(hasHooks): \(status)" }
    }

    @Test(
        "A write waits for the memory of its response before it is executed",
        .timeLimit(.minutes(10)),
        arguments: [
            Sample(),
            Sample(hasHooks: true),
            Sample(headers: ["If-Match": "\"zz\""], status: 412, rank: 0),
            Sample(method: "PUT", body: #"{"rank":2,"text":"\#(text)"}"#, rank: 2),
            Sample(
                method: "POST",
                target: "/tables/TodoItem",
                body: #"{"id":"c","rank":0,"text":"\#(text)"}"#,
                status: 201,
                rank: 0
            ),
            Sample(
                method: "POST",
                target: "/tables/TodoItem",
                body: #"{"id":"a"}"#,
                status: 409,
                rank: 0
            ),
        ]
    )
    func aWriteWaitsBeforeItIsExecuted(_ sample: Sample) async throws {
        let traffic = ServerTraffic()
        var hooks = TableHooks()
        hooks.beforeWrite = { _ in }
        let server = try await Self.server(traffic, sample.hasHooks ? ["TodoItem": hooks] : [:])
        var others: MemoryReservation? = traffic.writeAnswers.count(1 << 30)
        async let answer = server.send(
            sample.method,
            sample.target,
            sample.body,
            headers: sample.headers
        )
        try await until { traffic.writeAnswers.waiting != 0 }
        #expect(traffic.reservedAnswerBytes == 1 << 30)
        // Nothing is written yet, but other callers can write and read.
        #expect(await Self.rank(server, "a") == 0)
        #expect(await server.send("GET", "/tables/TodoItem?$select=id").ids == ["a", "b"])
        #expect(await server.send("PATCH", "/tables/TodoItem/b", #"{"rank":7}"#).status == 200)
        #expect(await server.send("DELETE", "/tables/TodoItem/b").status == 204)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await answer.status == sample.status)
        #expect(await (answer.row["text"] as? String)?.count == 100_000)
        #expect(await Self.rank(server, "a") == sample.rank)
    }

    @Test(
        "A write that is cancelled while it waits for memory writes nothing",
        .timeLimit(.minutes(10))
    )
    func aWriteThatIsCancelledWhileItWaitsWritesNothing() async throws {
        let traffic = ServerTraffic()
        let server = try await Self.server(traffic)
        let others = traffic.writeAnswers.count(1 << 30)
        let write = Task { await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":1}"#).status }
        try await until { traffic.writeAnswers.waiting != 0 }
        write.cancel()
        #expect(await write.value == 503)
        others.resize(to: 0)
        #expect(await Self.rank(server, "a") == 0)
    }

    @Test(
        "A repeated write waits for memory in the same way as the first one",
        .timeLimit(.minutes(10))
    )
    func aRepeatedWriteWaitsToo() async throws {
        let traffic = ServerTraffic()
        let server = try await Self.server(traffic)
        let headers: HTTPFields = [
            "Repeatability-Request-ID": "1",
            "Repeatability-First-Sent": HTTPDate.text(microseconds: server.handler.now),
        ]
        for _ in 0..<2 {
            var others: MemoryReservation? = traffic.writeAnswers.count(1 << 30)
            async let answer = server.send(
                "PATCH",
                "/tables/TodoItem/a",
                #"{"rank":1}"#,
                headers: headers
            )
            try await until { traffic.writeAnswers.waiting != 0 }
            withExtendedLifetime(others) {}
            others = nil
            #expect(await answer.status == 200)
            #expect(await answer.headers["Repeatability-Result"] == "accepted")
            #expect(await Self.rank(server, "a") == 1)
        }
    }

    /// The first write waits; later writes that do not fit into the memory are not executed, and their responses say
    /// so.
    @Test(
        "Writes of a batch that do not fit into the memory are rejected with 503",
        .timeLimit(.minutes(10))
    )
    func aBatchSkipsWritesWithoutMemory() async throws {
        let traffic = ServerTraffic()
        let server = try await Self.server(traffic)
        func patch(_ id: String, _ rank: Int, group: String? = nil) -> BatchPart {
            BatchPart(
                "\(id)\(rank)",
                "patch",
                "tables/TodoItem/\(id)",
                #"{"rank":\#(rank)}"#,
                group: group
            )
        }
        var others: MemoryReservation? = traffic.writeAnswers.count(1 << 30)
        let parts = [patch("b", 1), patch("a", 2), patch("b", 3)]
        let answer = await server.batch(parts, continuing: true)
        #expect(answer.partStatuses == [200, 503, 503])
        #expect(answer.partCodes[1] == "batchAnswersTooLarge")
        #expect(await Self.rank(server, "a") == 0)
        #expect(await Self.rank(server, "b") == 1)
        // A group is skipped as a whole, even if it is first and only its second member is large.
        async let group = server.batch(
            [patch("b", 4, group: "g"), patch("a", 5, group: "g"), patch("b", 6)],
            continuing: true
        )
        try await until { traffic.writeAnswers.waiting != 0 }
        #expect(await Self.rank(server, "b") == 1)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await group.partStatuses == [200, 200, 200])
        #expect(await Self.rank(server, "a") == 5)
        #expect(await Self.rank(server, "b") == 6)
    }

    /// The responses of a transaction are in memory until its commit.
    @Test("A transaction ends when the responses of its writes are large", .timeLimit(.minutes(10)))
    func largeResponsesEndATransaction() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let text = String(repeating: "x", count: 60_000)
            let row = #"{"id":"a","text":"\#(text)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
            // The first commit blocks the writer until the other writes wait.
            let commits = ServerTraffic.Counter()
            let (isFirst, gate) = (Flag(), Flag())
            try await server.store.watch { _ in
                guard isFirst.isSet else { return isFirst.set() }
                if commits.add() == 1 { try? blockingUntil { gate.isSet } }
            }
            func write(_ number: Int) -> Task<Int, Never> {
                Task {
                    await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":\#(number)}"#).status
                }
            }
            // It is sent alone, because a transaction takes all writes that wait when it begins.
            let first = write(0)
            try await until { commits.current != 0 }
            let others = (1...200).map(write)
            try await until { server.store.writeQueueLength >= 150 }
            gate.set()
            for write in [first] + others { #expect(await write.value == 200) }
            // 60 kB each, and 4 MiB in a transaction at most.
            #expect(commits.current >= 1 + 150 * 60_000 / (4 << 20))
            await server.store.stop()
        }
    }

    @Test(
        "A write of a small row overtakes waiting writes of large rows",
        .timeLimit(.minutes(10)),
        arguments: [ConflictRule.reject, .merge]
    )
    func aSmallWriteOvertakesLargeOnes(conflict: ConflictRule) async throws {
        try await withTemporaryDirectory { directory in
            let (count, bytes) = (24, 1_000_000)
            var todo = TestServer.todo
            todo.conflict = conflict
            let other = TableDefinition("Other", columns: todo.schema.columns)
            let server = try await TestServer([todo, other], path: directory + "/a.db")
            let text = String(repeating: "x", count: bytes)
            let row = #"{"id":"a","text":"\#(text)"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
            // The first commit blocks the writer until the other writes wait.
            let (isHeld, gate) = (Flag(), Flag())
            let commits = Mutex<[String]>([])
            try await server.store.watch { timestamps in
                commits.withLock { $0 += timestamps.map(\.table) }
                guard isHeld.isSet else { return isHeld.set() }
                try? blockingUntil { gate.isSet }
            }
            commits.withLock { $0 = [] }
            let first = Task { await server.send("POST", "/tables/Other", "{}").status }
            try await until { !commits.withLock({ $0.isEmpty }) }
            let large = (0..<count).map { number in
                Task {
                    await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":\#(number)}"#).status
                }
            }
            try await until { server.store.writeQueueLength >= count }
            let small = Task { await server.send("POST", "/tables/Other", "{}").status }
            try await until { server.store.writeQueueLength >= count + 1 }
            gate.set()
            for write in large { #expect(await write.value == 200) }
            for write in [first, small] { #expect(await write.value == 201) }
            let order = commits.withLock { $0 }
            // The small writes, and at most one transaction of large writes between them.
            #expect(order.prefix(3).filter { $0 == "other" }.count == 2, "\(order)")
            #expect(order.filter { $0 == "todoitem" }.count > 4, "\(order)")
            await server.store.stop()
        }
    }
}

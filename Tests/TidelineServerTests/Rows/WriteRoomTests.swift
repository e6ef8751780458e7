// WriteRoomTests: the rows that writes are answered with, and the memory for answers: a write whose
// answer there is no room for is not done until there is.

import Foundation
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct WriteRoomTests {
    private static let text = String(repeating: "x", count: 100_000)

    /// A large row `a` and a small one `b`.
    private static func door(
        _ traffic: ServerTraffic,
        _ hooks: [String: TableHooks] = [:]
    ) async throws -> Door {
        let door = try await Door(hooks: hooks, traffic: traffic)
        for row in [#"{"id":"a","rank":0,"text":"\#(text)"}"#, #"{"id":"b","rank":0}"#] {
            #expect(await door.send("POST", "/tables/TodoItem", row).status == 201)
        }
        return door
    }

    private static func rank(_ door: Door, _ id: String) async -> Int? {
        await door.send("GET", "/tables/TodoItem/\(id)").row["rank"] as? Int
    }

    /// Of one write, with the statuses that are answered when there is room.
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
    func aWriteWaitsBeforeItIsDone(_ sample: Sample) async throws {
        let traffic = ServerTraffic()
        var hooks = TableHooks()
        hooks.beforeWrite = { _ in }
        let door = try await Self.door(traffic, sample.hasHooks ? ["TodoItem": hooks] : [:])
        var others: AnswerShare? = traffic.writeAnswers.count(1 << 30)
        async let answer = door.send(
            sample.method,
            sample.target,
            sample.body,
            headers: sample.headers
        )
        while traffic.writeAnswers.waiting == 0 { await Task.yield() }
        #expect(traffic.answersHeld == 1 << 30)
        // Nothing is done yet, and others write and read meanwhile.
        #expect(await Self.rank(door, "a") == 0)
        #expect(await door.send("GET", "/tables/TodoItem?$select=id").ids == ["a", "b"])
        #expect(await door.send("PATCH", "/tables/TodoItem/b", #"{"rank":7}"#).status == 200)
        #expect(await door.send("DELETE", "/tables/TodoItem/b").status == 204)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await answer.status == sample.status)
        #expect(await (answer.row["text"] as? String)?.count == 100_000)
        #expect(await Self.rank(door, "a") == sample.rank)
    }

    @Test(.timeLimit(.minutes(10)))
    func whoLeavesWhileItWaitsHasWrittenNothing() async throws {
        let traffic = ServerTraffic()
        let door = try await Self.door(traffic)
        let others = traffic.writeAnswers.count(1 << 30)
        let write = Task { await door.send("PATCH", "/tables/TodoItem/a", #"{"rank":1}"#).status }
        while traffic.writeAnswers.waiting == 0 { await Task.yield() }
        write.cancel()
        #expect(await write.value == 503)
        others.resize(to: 0)
        #expect(await Self.rank(door, "a") == 0)
    }

    /// Its name is free as long as it waits, and its repeat waits as it did.
    @Test(.timeLimit(.minutes(10)))
    func aRepeatWaitsToo() async throws {
        let traffic = ServerTraffic()
        let door = try await Self.door(traffic)
        let headers: HTTPFields = [
            "Repeatability-Request-ID": "1",
            "Repeatability-First-Sent": HTTPDate.text(microseconds: door.handler.now),
        ]
        for _ in 0..<2 {
            var others: AnswerShare? = traffic.writeAnswers.count(1 << 30)
            async let answer = door.send(
                "PATCH",
                "/tables/TodoItem/a",
                #"{"rank":1}"#,
                headers: headers
            )
            while traffic.writeAnswers.waiting == 0 { await Task.yield() }
            withExtendedLifetime(others) {}
            others = nil
            #expect(await answer.status == 200)
            #expect(await answer.headers["Repeatability-Result"] == "accepted")
            #expect(await Self.rank(door, "a") == 1)
        }
    }

    /// What comes first waits; what there is no room for behind it is not done, and says so.
    @Test(.timeLimit(.minutes(10)))
    func aBatchLeavesWhatThereIsNoRoomFor() async throws {
        let traffic = ServerTraffic()
        let door = try await Self.door(traffic)
        func patch(_ id: String, _ rank: Int, group: String? = nil) -> BatchPart {
            BatchPart(
                "\(id)\(rank)",
                "patch",
                "tables/TodoItem/\(id)",
                #"{"rank":\#(rank)}"#,
                group: group
            )
        }
        var others: AnswerShare? = traffic.writeAnswers.count(1 << 30)
        let parts = [patch("b", 1), patch("a", 2), patch("b", 3)]
        let answer = await door.batch(parts, continuing: true)
        #expect(answer.partStatuses == [200, 503, 503])
        #expect(answer.partCodes[1] == "batchAnswersTooLarge")
        #expect(await Self.rank(door, "a") == 0)
        #expect(await Self.rank(door, "b") == 1)
        // A group is left as a whole, also where it comes first and only its second member is large.
        async let group = door.batch(
            [patch("b", 4, group: "g"), patch("a", 5, group: "g"), patch("b", 6)],
            continuing: true
        )
        while traffic.writeAnswers.waiting == 0 { await Task.yield() }
        #expect(await Self.rank(door, "b") == 1)
        withExtendedLifetime(others) {}
        others = nil
        #expect(await group.partStatuses == [200, 200, 200])
        #expect(await Self.rank(door, "a") == 5)
        #expect(await Self.rank(door, "b") == 6)
    }

    /// The answers of a transaction are in memory until its commit: it ends when they are many.
    @Test(.timeLimit(.minutes(10)))
    func largeAnswersEndATransaction() async throws {
        try await withTemporaryDirectory { directory in
            let door = try await Door(path: directory + "/a.db")
            let text = String(repeating: "x", count: 60_000)
            let row = #"{"id":"a","text":"\#(text)"}"#
            #expect(await door.send("POST", "/tables/TodoItem", row).status == 201)
            // The first commit holds up the writer until the others wait.
            let commits = ServerTraffic.Counter()
            let (isFirst, gate) = (Flag(), Flag())
            try await door.store.watch { _ in
                guard isFirst.isSet else { return isFirst.set() }
                if commits.add() == 1 { while !gate.isSet { usleep(1000) } }
            }
            func write(_ number: Int) -> Task<Int, Never> {
                Task {
                    await door.send("PATCH", "/tables/TodoItem/a", #"{"rank":\#(number)}"#).status
                }
            }
            // Alone: a transaction takes all writes that wait when it begins.
            let first = write(0)
            while commits.current == 0, !Task.isCancelled { await Task.yield() }
            let others = (1...200).map(write)
            while door.store.writeQueueLength < 150, !Task.isCancelled { await Task.yield() }
            gate.set()
            for write in [first] + others { #expect(await write.value == 200) }
            // 60 kB each, and 4 MiB in a transaction at most.
            #expect(commits.current >= 1 + 150 * 60_000 / (4 << 20))
            await door.store.stop()
        }
    }

    /// Whoever writes large rows, also where nothing comes of it, waits for those who write small ones.
    @Test(.timeLimit(.minutes(10)), arguments: [ConflictRule.reject, .merge])
    func aSmallWritePassesLargeOnes(conflict: ConflictRule) async throws {
        try await withTemporaryDirectory { directory in
            let (count, bytes) = (24, 1_000_000)
            var todo = Door.todo
            todo.conflict = conflict
            let other = TableDefinition("Other", columns: todo.schema.columns)
            let door = try await Door([todo, other], path: directory + "/a.db")
            let text = String(repeating: "x", count: bytes)
            let row = #"{"id":"a","text":"\#(text)"}"#
            #expect(await door.send("POST", "/tables/TodoItem", row).status == 201)
            // The first commit holds up the writer until the others wait.
            let (isHeld, gate) = (Flag(), Flag())
            let commits = Mutex<[String]>([])
            try await door.store.watch { stamps in
                commits.withLock { $0 += stamps.map(\.table) }
                guard isHeld.isSet else { return isHeld.set() }
                while !gate.isSet { usleep(1000) }
            }
            commits.withLock { $0 = [] }
            let first = Task { await door.send("POST", "/tables/Other", "{}").status }
            while commits.withLock({ $0.isEmpty }) { await Task.yield() }
            let large = (0..<count).map { number in
                Task {
                    await door.send("PATCH", "/tables/TodoItem/a", #"{"rank":\#(number)}"#).status
                }
            }
            while door.store.writeQueueLength < count { await Task.yield() }
            let small = Task { await door.send("POST", "/tables/Other", "{}").status }
            while door.store.writeQueueLength < count + 1 { await Task.yield() }
            gate.set()
            for write in large + [first, small] { #expect([200, 201].contains(await write.value)) }
            let order = commits.withLock { $0 }
            // The small ones, and no more than one transaction of large ones between them.
            #expect(order.prefix(3).filter { $0 == "other" }.count == 2, "\(order)")
            #expect(order.filter { $0 == "todoitem" }.count > 4, "\(order)")
            await door.store.stop()
        }
    }
}

// ResponseMemoryTests: the memory that responses reserve together, and callers that do not read.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore
import TidelineTestKit

struct ResponseMemoryTests {
    @Test("Reservations are counted, resized and released")
    func reservationsAreCountedAndReleased() {
        let memory = ResponseMemory(bytesMax: 1000)
        var first = memory.reserveNow(600)
        #expect(first != nil && memory.reservedBytes == 600 && memory.isShort)
        #expect(memory.reserveNow(600) == nil)
        first?.resize(to: 300)
        #expect(memory.reservedBytes == 300 && !memory.isShort)
        var second = memory.reserveNow(600)
        #expect(second != nil)
        let forced = memory.count(5000)
        #expect(memory.reservedBytes == 5900)
        first = nil
        second = nil
        withExtendedLifetime(forced) { #expect(memory.reservedBytes == 5000) }
    }

    @Test("A response larger than the whole budget is built alone")
    func aResponseLargerThanTheBudgetIsBuiltAlone() {
        let memory = ResponseMemory(bytesMax: 1000)
        let alone = memory.reserveNow(5000)
        #expect(alone != nil)
        #expect(memory.reserveNow(1) == nil)
        withExtendedLifetime(alone) {}
    }

    /// The latest caller does not wait until all earlier callers that do not read are disconnected.
    @Test("Memory goes alternately to the caller that waits longest and the latest one")
    func memoryAlternatesBetweenTheFirstAndTheLastWaiter() async throws {
        let memory = ResponseMemory(bytesMax: 1000)
        var first = memory.reserveNow(900)
        let (turns, turn) = AsyncStream<Int>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<5 {
                group.addTask {
                    let share = try await memory.reserve(900)
                    turn.yield(number)
                    withExtendedLifetime(share) {}
                }
                // Each request waits before the next one arrives.
                try await until { memory.waiting == number + 1 }
            }
            #expect(memory.isShort)
            first = nil
            try await group.waitForAll()
        }
        turn.finish()
        var order: [Int] = []
        for await number in turns { order.append(number) }
        #expect(first == nil && order == [0, 4, 1, 3, 2])
        #expect(memory.reservedBytes == 0 && memory.waiting == 0)
    }

    @Test("A cancelled caller does not wait for memory")
    func aCancelledCallerDoesNotWait() async throws {
        let memory = ResponseMemory(bytesMax: 10)
        let share = memory.reserveNow(10)
        let task = Task { try await memory.reserve(5) }
        try await until { memory.waiting == 1 }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(memory.waiting == 0 && memory.reservedBytes == 10)
        withExtendedLifetime(share) {}
    }

    @Test("The cancellation of a large reservation unblocks a smaller one")
    func aCancelledCallerUnblocksSmallerResponses() async throws {
        let memory = ResponseMemory(bytesMax: 1000)
        let held = memory.reserveNow(900)
        let large = Task { try await memory.reserve(500) }
        try await until { memory.waiting == 1 }
        let small = Task { try await memory.reserve(100) }
        try await until { memory.waiting == 2 }
        large.cancel()
        #expect(memory.waiting == 0 && memory.reservedBytes == 1000)
        // A request that is not woken would wait forever.
        small.cancel()
        _ = try? await small.value
        withExtendedLifetime(held) {}
    }

    @Test("A caller that is cancelled at any moment of its arrival does not wait for memory")
    func aCallerCancelledOnArrivalDoesNotWait() async {
        let memory = ResponseMemory(bytesMax: 10)
        let share = memory.reserveNow(10)
        var random = SeededGenerator(seed: 1)
        for _ in 0..<2000 {
            let task = Task { try await memory.reserve(5) }
            if Bool.random(using: &random) { await Task.yield() }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        #expect(memory.waiting == 0 && memory.reservedBytes == 10)
        withExtendedLifetime(share) {}
    }
}

struct SlowReaderTests {
    @Test("Callers that do not read are disconnected, and callers that read are served")
    func callersThatDoNotReadAreDisconnected() async throws {
        let body = [UInt8](repeating: 0x61, count: 8 << 20)
        var limits = HTTPLimits()
        limits.answersBytesMax = 16 << 20
        let traffic = ServerTraffic(answersBytesMax: limits.answersBytesMax)
        let server = HTTPServer(
            host: "127.0.0.1",
            port: 0,
            limits: limits,
            loops: 2,
            ids: RequestIDs(prefix: "a"),
            traffic: traffic,
            rejected: { _, _ in },
            handler: { request in
                ServerResponse(status: 200, body: request.path == "/small" ? [1] : body)
            }
        )
        let port = try server.start()
        try await blocking {
            let idle = try (0..<40).map { _ in
                let client = try RawClient(port: port, receiveBuffer: 4096)
                try client.send(get("/"))
                return client
            }
            for _ in 0..<20 { #expect(try RawClient(port: port).ask(get("/small")).status == 200) }
            // Small responses need no reservation, but are also counted.
            #expect(traffic.answers.reservedBytes <= (16 << 20) + (64 << 10))
            // There is memory for a large response again as soon as those are released.
            try blockingUntil { try RawClient(port: port).ask(get("/")).status == 200 }
            #expect(traffic.slowReaders.current > 0)
            withExtendedLifetime(idle) {}
        }
        await server.drain()
        #expect(traffic.answers.reservedBytes == 0)
    }

    @Test("A new response gets the memory of the caller that stopped reading first")
    func theCallerThatStoppedReadingFirstIsDisconnectedFirst() async throws {
        // The system buffers a few megabytes of each response.
        let sizes = ["/first": 32 << 20, "/second": 48 << 20]
        let traffic = ServerTraffic(answersBytesMax: 180 << 20)
        let server = HTTPServer(
            host: "127.0.0.1",
            port: 0,
            limits: HTTPLimits(),
            loops: 1,
            ids: RequestIDs(prefix: "a"),
            traffic: traffic,
            rejected: { _, _ in },
            handler: { request in
                if let size = sizes[request.path] {
                    return ServerResponse(status: 200, body: [UInt8](repeating: 0x61, count: size))
                }
                // There is memory for it next to one of the two, whichever it is.
                let share = try? await traffic.answers.reserve(120 << 20)
                return ServerResponse(status: share == nil ? 503 : 200, body: [1])
            }
        )
        let port = try server.start()
        try await blocking {
            func stall(_ path: String, beside held: Int) throws -> RawClient {
                let client = try RawClient(port: port, receiveBuffer: 4096)
                try client.send(get(path))
                try blockingUntil { traffic.answers.reservedBytes > held }
                return client
            }
            let first = try stall("/first", beside: 0)
            // The part that the system buffers counts as read. A caller may pause for a second.
            usleep(1_500_000)
            let second = try stall("/second", beside: 40 << 20)
            // Both have stopped reading for long enough to be disconnected.
            usleep(1_500_000)
            #expect(try RawClient(port: port).ask(get("/large")).status == 200)
            #expect(traffic.slowReaders.current == 1)
            #expect(traffic.answers.reservedBytes > 40 << 20)
            withExtendedLifetime((first, second)) {}
        }
        await server.drain()
    }

    @Test("A slow caller is not disconnected as long as there is memory")
    func slowCallersAreServedWhileThereIsMemory() async throws {
        let body = [UInt8](repeating: 0x61, count: 4 << 20)
        let count = try await withServer(
            handler: { _ in ServerResponse(status: 200, body: body) },
            body: { port in
                let client = try RawClient(port: port, receiveBuffer: 4096)
                try client.send(get("/"))
                // Longer than the second for which a caller may pause when memory is short.
                usleep(2_000_000)
                return try client.answer()?.body.count
            }
        )
        #expect(count == 4 << 20)
    }
}

// HTTPLoadTests: many requests whose handlers change threads. A loop that sleeps while a job waits loses half a second,
// until it next checks its timers.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore

@Suite(.serialized) struct HTTPLoadTests {
    private actor Counter {
        var count = 0
        func next() -> Int {
            count += 1
            return count
        }
    }

    /// Returns from a thread other than the loop's, as a database does.
    private static func hop(_ queue: DispatchQueue) async {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume() }
        }
    }

    @Test("Handlers that change threads lose no wake-up of an event loop")
    func handlersThatChangeThreadsLoseNoWakeUp() async throws {
        let queue = DispatchQueue(label: "database")
        let counter = Counter()
        try await withServer(
            handler: { request in
                await Self.hop(queue)
                let count = await counter.next()
                await Self.hop(queue)
                return ServerResponse(status: 200, body: Array("\(request.path) \(count)".utf8))
            },
            body: { port in
                let failures = Mutex<[String]>([])
                let stalls = Mutex(0)
                let group = DispatchGroup()
                for thread in 0..<32 {
                    group.enter()
                    Thread {
                        defer { group.leave() }
                        do {
                            let client = try RawClient(port: port)
                            for number in 0..<200 {
                                let asked = ContinuousClock.now
                                let answer = try client.ask(get("/\(thread)/\(number)"))
                                if .now - asked > .milliseconds(400) { stalls.withLock { $0 += 1 } }
                                if !answer.text.hasPrefix("/\(thread)/\(number) ") {
                                    failures.withLock { $0.append(answer.text) }
                                }
                            }
                        } catch {
                            failures.withLock { $0.append("\(error)") }
                        }
                    }.start()
                }
                group.wait()
                #expect(failures.withLock { $0 } == [])
                // A busy machine may cause a few; a loop that sleeps while jobs wait causes dozens.
                #expect(stalls.withLock { $0 } < 16)
            }
        )
        let count = await counter.count
        #expect(count == 6400)
    }

    /// Blocks the thread of a loop.
    private static func hold(_ begun: DispatchSemaphore, _ end: DispatchSemaphore) {
        begun.signal()
        end.wait()
    }

    @Test(
        "Large responses do not prevent an event loop from serving its other sockets",
        .timeLimit(.minutes(10))
    )
    func largeResponsesDoNotStarveOtherCallers() async throws {
        let (callers, requests) = (16, 15)
        let body = [UInt8](repeating: 0x61, count: 70_000)
        let (held, filled) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let (begun, sent) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let large = ServerTraffic.Counter()
        let before = try await withServer(
            loops: 1,
            handler: { request in
                switch request.path {
                case "/hold": Self.hold(held, filled)
                case "/large":
                    if large.add() == 1 { Self.hold(begun, sent) }
                    return ServerResponse(status: 200, body: body)
                default: break
                }
                return ServerResponse(status: 200, body: Array("\(large.current)".utf8))
            },
            body: { port in
                let clients = try (0..<callers).map { _ in try RawClient(port: port) }
                let (other, holder) = (try RawClient(port: port), try RawClient(port: port))
                for client in clients + [other] { _ = try client.ask(get("/")) }
                try holder.send(get("/hold"))
                held.wait()
                for client in clients {
                    try client.send((0..<requests).map { _ in get("/large") }.joined())
                }
                filled.signal()
                // The loop works on the first of them when another caller connects.
                begun.wait()
                try other.send(get("/"))
                sent.signal()
                let before = try other.answer().flatMap { Int($0.text) }
                for client in clients {
                    for _ in 0..<requests {
                        #expect(try client.answer()?.body.count == body.count)
                    }
                }
                return before
            }
        )
        // A round of them is more than a mebibyte, and one more round may precede the caller.
        #expect(before.map { $0 <= 3 * callers } == true)
    }

    /// Jobs that the loop's own thread enqueues arrive without a wake-up.
    ///
    /// If they had to wait for the next check of the timers, the requests would exceed the time limit.
    @Test("Handlers that yield lose no wake-up of their event loop", .timeLimit(.minutes(1)))
    func handlersThatYieldLoseNoWakeUp() async throws {
        try await withServer(
            loops: 1,
            handler: { request in
                for _ in 0..<5 { await Task.yield() }
                let parts = await withTaskGroup(of: Int.self) { group in
                    for number in 0..<3 { group.addTask { number } }
                    return await group.reduce(0, +)
                }
                return ServerResponse(status: 200, body: [UInt8(parts)])
            },
            body: { port in
                let client = try RawClient(port: port)
                let other = try RawClient(port: port)
                for _ in 0..<400 {
                    try other.send(get("/other"))
                    #expect(try client.ask(get("/")).body == [3])
                    #expect(try other.answer()?.body == [3])
                }
            }
        )
    }

    @Test("Requests on 200 concurrent connections get their responses")
    func manyConcurrentConnections() async throws {
        try await withServer { port in
            let clients = try (0..<200).map { _ in try RawClient(port: port) }
            for round in 0..<5 {
                for client in clients { try client.send(get("/\(round)")) }
                for client in clients {
                    #expect(try client.answer()?.text.hasPrefix("GET|/\(round)|") == true)
                }
            }
        }
    }
}

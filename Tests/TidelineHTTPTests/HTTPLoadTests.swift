// HTTPLoadTests: many requests whose handlers change threads. A loop that sleeps on a job loses
// half a second, until it next looks at its timers.

import Foundation
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

    /// Comes back from a thread that is not the loop's, as a database does.
    private static func hop(_ queue: DispatchQueue) async {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume() }
        }
    }

    @Test func handlersThatChangeThreadsLoseNoWakeUp() async throws {
        let queue = DispatchQueue(label: "database")
        let counter = Counter()
        let started = ContinuousClock.now
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
                // A busy machine may cause a few; a loop that sleeps on jobs causes dozens.
                #expect(stalls.withLock { $0 } < 16)
            }
        )
        let count = await counter.count
        #expect(count == 6400)
        #expect(.now - started < .seconds(40))
    }

    /// Jobs that the loop's own thread enqueues come without a wake-up.
    @Test func handlersThatYieldLoseNoWakeUp() async throws {
        let started = ContinuousClock.now
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
                for _ in 0..<200 {
                    try other.send(get("/other"))
                    #expect(try client.ask(get("/")).body == [3])
                    #expect(try other.answer()?.body == [3])
                }
            }
        )
        #expect(.now - started < .seconds(40))
    }

    @Test func manyConnectionsAtATime() async throws {
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

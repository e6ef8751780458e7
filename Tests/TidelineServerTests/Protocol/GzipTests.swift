// GzipTests: the thread that compresses responses.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

/// One thread for all tasks, like an event loop.
private final class OneThread: TaskExecutor, SerialExecutor {
    private let queue = DispatchQueue(label: "loop")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in
            job.runSynchronously(
                isolatedTo: asUnownedSerialExecutor(),
                taskExecutor: asUnownedTaskExecutor()
            )
        }
    }
}

/// Counts the turns of other tasks on a thread until an operation has finished.
private final class Turns: Sendable {
    private let state = Mutex((count: 0, isOver: false))

    var count: Int { state.withLock { $0.count } }

    /// Counts a turn; returns false when the operation has finished.
    func take() -> Bool {
        state.withLock { state in
            if !state.isOver { state.count += 1 }
            return !state.isOver
        }
    }

    func end() { state.withLock { $0.isOver = true } }
}

@Suite struct GzipTests {
    private static let headers: HTTPFields = ["Accept-Encoding": "gzip"]

    /// A small response is not worth a change of threads.
    @Test(
        "A large response is compressed on a thread other than the event loop's",
        arguments: [4_000_000, 2000]
    )
    func largeAnswersAreCompressedOffTheLoop(_ size: Int) async throws {
        // Random digits take long to compress.
        var chance = SeededGenerator(seed: 1)
        let body = (0..<size).map { _ in UInt8.random(in: 48...57, using: &chance) }
        let endpoint = Endpoint("GET", "/api/large") { _ in ServerResponse(status: 200, body: body)
        }
        let server = try await TestServer(endpoints: [endpoint])
        let turns = Turns()
        let loop = OneThread()
        let task = Task(executorPreference: loop) { () -> ServerResponse in
            let others = Task(executorPreference: loop) {
                while turns.take() { await Task.yield() }
            }
            let answer = await server.send("GET", "/api/large", headers: Self.headers)
            turns.end()
            await others.value
            return answer
        }
        let answer = await task.value
        #expect(answer.headers["Content-Encoding"] == "gzip")
        #expect(answer.body.count < size)
        // The few steps through the handler are turns, too.
        #expect((turns.count > 50) == (size > 100_000), "\(turns.count) turns")
    }

    @Test("A response that no caller waits for is not compressed when its turn comes")
    func answersOfCallersThatLeftAreNotCompressed() async throws {
        let coded = Mutex(0)
        let gate = DispatchSemaphore(value: 0)
        let threads = GzipThreads { bytes in
            coded.withLock { $0 += 1 }
            gate.wait()
            return bytes
        }
        let count = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)
        let stay = (0..<count).map { _ in Task { await threads.gzip([1]) } }
        try await until { coded.withLock({ $0 }) >= count }
        let leave = (0..<count).map { _ in Task { await threads.gzip([2]) } }
        for task in leave { task.cancel() }
        for _ in 0..<2 * count { gate.signal() }
        for task in leave { #expect(await task.value == nil) }
        for task in stay { #expect(await task.value == [1]) }
        #expect(coded.withLock { $0 } == count)
    }
}

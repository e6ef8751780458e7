// GzipTests: where answers are compressed.

import Foundation
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

/// One thread for all tasks, as an event loop is.
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

/// What ended, in its order.
private final class Ends: Sendable {
    private let list = Mutex<[String]>([])

    var names: [String] { list.withLock { $0 } }

    func add(_ name: String) { list.withLock { $0.append(name) } }
}

@Suite struct GzipTests {
    private static let headers: HTTPFields = ["Accept-Encoding": "gzip"]

    /// A large answer is compressed elsewhere: what comes to the loop meanwhile has its turn. A small
    /// one is not worth a change of threads.
    @Test(arguments: [1_000_000, 2000])
    func largeAnswersAreCompressedOffTheLoop(_ size: Int) async throws {
        let body = Array(String(repeating: "abcdefgh", count: size / 8).utf8)
        let endpoint = Endpoint("GET", "/api/large") { _ in ServerResponse(status: 200, body: body)
        }
        let door = try await Door(endpoints: [endpoint])
        let ends = Ends()
        let loop = OneThread()
        let task = Task(executorPreference: loop) { () -> ServerResponse in
            // Enqueued behind this job, and so before whatever follows a change of threads.
            let other = Task(executorPreference: loop) { ends.add("other") }
            let answer = await door.send("GET", "/api/large", headers: Self.headers)
            ends.add("answer")
            await other.value
            return answer
        }
        let answer = await task.value
        #expect(answer.headers["Content-Encoding"] == "gzip")
        #expect(answer.body.count < size / 4)
        #expect(ends.names == (size > 100_000 ? ["other", "answer"] : ["answer", "other"]))
    }
}

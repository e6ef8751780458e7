// A caller has at most half of the slots for waiting writes while other callers wait.

import Dispatch
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite(.timeLimit(.minutes(1))) struct WriteQueueTests {
    private let table = Table(OwnedTable.definition())
    private let queue: WriterQueue<String, Void>

    init() {
        var limits = ServerLimits()
        limits.writeQueue = 8
        queue = WriterQueue(limits)
    }

    private func batch(of caller: String) -> WriteBatch {
        let write = WriteBatch.Write(WriteOperation(.insert, id: "a"), in: table)
        var batch = WriteBatch([WriteBatch.Group([write])])
        batch.caller = caller
        return batch
    }

    /// Queues a write that waits.
    private func wait(_ caller: String) async throws -> Task<[GroupOutcome], any Error> {
        let before = queue.length
        let task = Task { try await queue.write(batch(of: caller), [["t"]]) }
        try await until { queue.length == before + 1 }
        return task
    }

    private func isRejected(_ caller: String) async -> Bool {
        do {
            _ = try await queue.write(batch(of: caller), [["t"]])
            return false
        } catch {
            return (error as? ServerError)?.message == ServerError.tooManyOwnWrites.message
        }
    }

    private func answerAll() {
        for case .batch(let batch) in queue.take(until: 0).work {
            batch.answer.resume(returning: [])
        }
    }

    @Test("A caller cannot take the slots of other callers in a full queue")
    func aCallerHasItsShare() async throws {
        var tasks: [Task<[GroupOutcome], any Error>] = []
        // No other caller waits.
        for _ in 0..<5 { tasks.append(try await wait("anna")) }
        tasks.append(try await wait("bert"))
        #expect(await isRejected("anna"))
        tasks.append(try await wait("carl"))
        for task in tasks.prefix(2) { task.cancel() }
        try await until { queue.length == 5 }
        tasks.append(try await wait("anna"))
        #expect(await isRejected("anna"))
        answerAll()
        for task in tasks.dropFirst(2) { #expect(try await task.value.isEmpty) }
        for task in tasks.prefix(2) {
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }

    /// Large writes and those that change tables are taken from the queue and wait for their turn.
    @Test("Writes that are set aside count toward the limit of their caller")
    func writesThatAreSetAsideCountForTheirCaller() async throws {
        queue.setAside(4, of: ["anna": 4])
        let bert = try await wait("bert")
        #expect(await isRejected("anna"))
        answerAll()
        #expect(try await bert.value.isEmpty)
    }
}

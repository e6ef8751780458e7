// Which read is next, and on which thread: turns of callers, lanes by the cost of statements, threads.

import Dispatch
import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

private final class Order: Sendable {
    private let state = Mutex<[String]>([])

    var names: [String] { state.withLock { $0 } }

    func append(_ name: String) { state.withLock { $0.append(name) } }
}

@Suite struct TurnQueueTests {
    @Test("Callers with several queued reads take turns") func callersTakeTurns() {
        var queue = TurnQueue<String, Int>()
        for number in 1...4 { queue.append(number, of: "a") }
        queue.append(5, of: "b")
        for number in 6...7 { queue.append(number, of: "c") }
        let first = (0..<4).map { _ in queue.take() }
        #expect(first == [1, 5, 6, 2])
        queue.append(8, of: "b")
        let second = (0..<5).map { _ in queue.take() }
        #expect(second == [7, 3, 8, 4, nil])
        queue.append(9, of: "a")
        let last = queue.take()
        #expect(last == 9)
    }

    @Test("A backlog loses no read and preserves the order of each caller")
    func noReadIsLostInABacklog() {
        var queue = TurnQueue<Int, Int>()
        var taken: [Int] = []
        for number in 0..<10_000 {
            queue.append(number, of: number % 3 == 0 ? 0 : number % 50)
            if number % 4 != 0, let next = queue.take() { taken.append(next) }
        }
        while let next = queue.take() { taken.append(next) }
        #expect(taken.sorted() == Array(0..<10_000))
        for caller in 1..<50 {
            let own = taken.filter { $0 % 3 != 0 && $0 % 50 == caller }
            #expect(own == own.sorted())
        }
    }

    @Test("A statement starts in the lane where it was not too long")
    func aStatementStartsInTheLaneWhereItWasNotTooLong() {
        var costs = ReadCosts()
        func lane(_ statement: String, _ now: UInt64) -> ReadLane {
            costs.lane(of: statement, at: now)
        }
        #expect(lane("a", 5) == .loop)
        costs.exceeded(.loop, "a", at: 5)
        #expect(lane("a", 6) == .brief)
        #expect(lane("b", 6) == .loop)
        costs.exceeded(.brief, "a", at: 6)
        #expect(lane("a", 7) == .long)
        #expect(lane("a", 5 + ReadCosts.memory) == .long)
        #expect(lane("a", 6 + ReadCosts.memory) == .loop)
        for number in 0..<5000 { costs.exceeded(.brief, "\(number)", at: 0) }
        #expect(lane("0", 1) == .loop)
        #expect(lane("4999", 1) == .long)
    }

    @Test("A brief read is served while long reads of another caller occupy the other readers")
    func aReaderIsReservedForBriefReads() async throws {
        let threads = ReadThreads(try (0..<3).map { _ in try Database(path: ":memory:") })
        let gate = DispatchSemaphore(value: 0)
        let long = (0..<6).map { _ in
            Task {
                try await threads.run(.long, of: .user("a")) { _, _ -> Bool? in
                    gate.wait()
                    return true
                }
            }
        }
        let lane = try await threads.run(.brief, of: .user("b")) { _, lane in lane }
        #expect(lane == .brief)
        for _ in long { gate.signal() }
        for read in long { #expect(try await read.value) }
        threads.stop()
    }

    @Test("A read that is not brief restarts as a long read in its turn")
    func aReadThatIsNotBriefRestartsInItsTurn() async throws {
        let threads = ReadThreads(try (0..<2).map { _ in try Database(path: ":memory:") })
        let (started, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let order = Order()
        let first = Task {
            try await threads.run(.long, of: .user("a")) { _, _ -> Bool? in
                started.signal()
                gate.wait()
                return true
            }
        }
        try await onThread { started.wait() }
        // The reader that is reserved for brief reads tries each of them, one after the other.
        var reads: [Task<Bool, any Error>] = []
        for name in ["a1", "a2", "b1"] {
            let caller = ReadCaller.user(String(name.prefix(1)))
            reads.append(
                Task {
                    try await threads.run(.brief, of: caller) { _, lane -> Bool? in
                        guard lane == .long else {
                            started.signal()
                            return nil
                        }
                        order.append(name)
                        return true
                    }
                }
            )
            try await onThread { started.wait() }
        }
        // After the last attempt it is queued as a long read.
        #expect(try await threads.run(.brief, of: .unknown) { _, _ in true })
        gate.signal()
        #expect(try await first.value)
        for read in reads { #expect(try await read.value) }
        #expect(order.names == ["a1", "b1", "a2"])
        threads.stop()
        await #expect(throws: ServerError.self) {
            try await threads.run(.brief, of: .unknown) { _, _ in true }
        }
    }
}

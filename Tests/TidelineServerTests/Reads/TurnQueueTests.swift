// Who reads next, and where: turns of callers, lanes by what statements cost, threads.

import Dispatch
import Foundation
import Synchronization
import Testing
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

@Suite struct TurnQueueTests {
    @Test func callersTakeTurns() {
        var queue = TurnQueue<String, Int>()
        for number in 1...4 { queue.append(number, of: "a") }
        queue.append(5, of: "b")
        for number in 6...7 { queue.append(number, of: "c") }
        #expect((0..<4).map { _ in queue.take() } == [1, 5, 6, 2])
        queue.append(8, of: "b")
        #expect((0..<5).map { _ in queue.take() } == [7, 3, 8, 4, nil])
        queue.append(9, of: "a")
        #expect(queue.take() == 9)
    }

    @Test func nothingIsLostUnderABacklog() {
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

    @Test func aStatementBeginsWhereItWasNotTooLong() {
        var costs = ReadCosts()
        #expect(costs.lane(of: "a", at: 5) == .loop)
        costs.exceeded(.loop, "a", at: 5)
        #expect(costs.lane(of: "a", at: 6) == .brief)
        #expect(costs.lane(of: "b", at: 6) == .loop)
        costs.exceeded(.brief, "a", at: 6)
        #expect(costs.lane(of: "a", at: 7) == .long)
        #expect(costs.lane(of: "a", at: 5 + ReadCosts.memory) == .long)
        #expect(costs.lane(of: "a", at: 6 + ReadCosts.memory) == .loop)
        for number in 0..<5000 { costs.exceeded(.brief, "\(number)", at: 0) }
        #expect(costs.lane(of: "0", at: 1) == .loop)
        #expect(costs.lane(of: "4999", at: 1) == .long)
    }

    /// Long reads of one caller fill all readers; a brief read of another one is answered.
    @Test func aReaderIsKeptForBriefReads() async throws {
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

    @Test func whatIsNotBriefStartsAnewInItsTurn() async throws {
        let threads = ReadThreads(try (0..<2).map { _ in try Database(path: ":memory:") })
        let (started, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let order = Mutex<[String]>([])
        let first = Task {
            try await threads.run(.long, of: .user("a")) { _, _ -> Bool? in
                started.signal()
                gate.wait()
                return true
            }
        }
        await Task.detached { started.wait() }.value
        // Each is tried as a brief read by the reader that is kept for them, one after the other.
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
                        order.withLock { $0.append(name) }
                        return true
                    }
                }
            )
            await Task.detached { started.wait() }.value
        }
        // Behind the last try it is queued as a long read.
        #expect(try await threads.run(.brief, of: .nobody) { _, _ in true })
        gate.signal()
        #expect(try await first.value)
        for read in reads { #expect(try await read.value) }
        #expect(order.withLock { $0 } == ["a1", "b1", "a2"])
        threads.stop()
        await #expect(throws: ServerError.self) {
            try await threads.run(.brief, of: .nobody) { _, _ in true }
        }
    }
}

// WriteEngine: its transactions and turns, with a session whose failures a test chooses.

import Dispatch
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct WriteEngineTests {
    private let transactions = CommittedWrites()
    private let table = Table(OwnedTable.definition())

    private func engine() -> WriteEngine<ScriptedSession> {
        let metrics = StoreMetrics()
        return WriteEngine(
            limits: ServerLimits(),
            retention: RetentionRun(NoRetention(), steady: { 0 }, log: .silent, metrics: metrics),
            purgeInterval: .seconds(3600),
            log: .silent,
            metrics: metrics,
            makeSession: { [transactions] in ScriptedSession(transactions) }
        )
    }

    /// Queues these writes while the thread of the engine is busy, in their order.
    private func queue(
        _ ids: [String],
        _ engine: WriteEngine<ScriptedSession>,
        then body: () async throws -> Void = {}
    ) async throws -> [Result<[GroupOutcome], any Error>] {
        let (isBusy, mayGoOn) = (Flag(), DispatchSemaphore(value: 0))
        let busy = Task {
            try await engine.run { _ in
                isBusy.set()
                mayGoOn.wait()
            }
        }
        try await until { isBusy.isSet }
        var tasks: [Task<[GroupOutcome], any Error>] = []
        for (index, id) in ids.enumerated() {
            tasks.append(
                Task {
                    let write = WriteBatch.Write(WriteOperation(.insert, id: id), in: table)
                    return try await engine.write(
                        WriteBatch([WriteBatch.Group([write])]),
                        [["t"]]
                    )
                }
            )
            try await until { engine.queue.length == index + 1 }
        }
        try await body()
        mayGoOn.signal()
        try await busy.value
        var results: [Result<[GroupOutcome], any Error>] = []
        for task in tasks { results.append(await task.result) }
        return results
    }

    @Test("Batches that wait are committed in one transaction")
    func batchesThatWaitAreOneTransaction() async throws {
        let engine = engine()
        _ = try await queue(["a", "b", "c"], engine)
        #expect(transactions.all == [["a", "b", "c"]])
        await engine.stop()
    }

    @Test("A large batch is committed in its own transaction after the small ones")
    func largeBatchesAreCommittedAfterTheOthers() async throws {
        let engine = engine()
        _ = try await queue(["large", "a", "b"], engine)
        #expect(transactions.all == [["a", "b"], ["large"]])
        await engine.stop()
    }

    @Test("The other batches of a failed transaction are retried without the failed one")
    func theOtherBatchesOfAFailedTransactionAreRepeated() async throws {
        let engine = engine()
        let results = try await queue(["a", "broken", "b"], engine)
        #expect(transactions.all == [["a", "b"]])
        #expect(throws: ScriptedSession.Failure.self) { try results[1].get() }
        await engine.stop()
    }

    @Test(
        "A queued batch that needs a lock is rejected with 503 when the engine stops",
        arguments: ["blocked", "large blocked"]
    )
    func everyBatchOfTheLastTurnIsAnswered(id: String) async throws {
        let engine = engine()
        let results = try await queue(["a", id], engine) { engine.queue.stop() }
        await engine.stop()
        #expect(transactions.all == [["a"]])
        guard case .failed(_, let error as ServerError)? = try results[1].get().first else {
            Issue.record("\(results[1])")
            return
        }
        #expect(error.status == 503)
    }

    @Test("The batches after a full transaction are committed by the next one")
    func theRestOfAFullTransactionIsCommittedByTheNext() async throws {
        let engine = engine()
        let ids = ["a", "broken 1", "full", "b", "c", "broken 2"]
        let results = try await queue(ids, engine)
        #expect(transactions.all == [["a", "full"], ["b", "c"]])
        for (id, result) in zip(ids, results) {
            if id.hasPrefix("broken") {
                #expect(throws: ScriptedSession.Failure.self) { try result.get() }
            } else {
                #expect(throws: Never.self) { try result.get() }
            }
        }
        await engine.stop()
    }

    @Test("Blocked batches are committed in as many transactions as they fill")
    func blockedBatchesNeedAsManyTransactionsAsTheyFill() async throws {
        let engine = engine()
        let ids = ["free blocked full 1", "free blocked full 2", "free blocked 3"]
        let results = try await queue(ids, engine) { engine.queue.stop() }
        await engine.stop()
        #expect(transactions.all == [[ids[0]], [ids[1]], [ids[2]]])
        for result in results { #expect(throws: Never.self) { try result.get() } }
    }

    @Test("Large batches are committed in as many transactions as they fill")
    func largeBatchesNeedAsManyTransactionsAsTheyFill() async throws {
        let engine = engine()
        _ = try await queue(["large full 1", "large 2", "a"], engine)
        #expect(transactions.all == [["a"], ["large full 1"], ["large 2"]])
        await engine.stop()
    }

    @Test(
        "All batches fail if the session rejects no batch of a failed transaction",
        .timeLimit(.minutes(1))
    )
    func aFailureOfNoBatchFailsAll() async throws {
        let engine = engine()
        for result in try await queue(["a", "odd"], engine) {
            #expect(throws: ScriptedSession.Failure.self) { try result.get() }
        }
        #expect(transactions.all == [])
        await engine.stop()
    }
}

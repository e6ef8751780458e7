// Goal: who has the clock of one owner for seconds delays that owner's writes and no other's. Method: writes of
// others have to be done before the first of that owner is answered.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerDelayTests {
    private static let others = (0..<50).map { "owner\($0)" }
    /// How long a write waits, in milliseconds.
    private static let wait = 6000

    private static func store(_ url: String) async throws -> PostgresTableStore {
        let store = try await OwnerTable.store(url) { options in
            options.times.lock = wait
            options.times.statement = 60_000
        }
        for owner in ["ann", "bob"] + others {
            _ = try await OwnerTable.put(owner, of: owner, store)
        }
        return store
    }

    /// A write of each of the others, at the same time.
    private static func writeOthers(_ round: Int, _ store: PostgresTableStore) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for owner in others {
                group.addTask {
                    let made = try await OwnerTable.put("\(owner)-\(round)", of: owner, store)
                    #expect(made.decision == .insert)
                    let changed = try await OwnerTable.put(owner, of: owner, by: .merge, store)
                    #expect(changed.decision.isSuccess)
                }
            }
            try await group.waitForAll()
        }
    }

    /// Locked, and moved by somebody who has not committed.
    @Test(arguments: [
        OwnerTable.hold("ann"),
        "UPDATE tideline.owner_clocks SET \"stamp\" = \"stamp\" WHERE \"owner\" = 'ann'",
    ])
    func fiftyOwnersAreWrittenMeanwhile(hold: String) async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url)
        let isAnswered = Flag()
        let begin = ContinuousClock.now
        let hers = try await OwnerTable.holding(url, hold) { _ in
            var hers = [
                Task {
                    defer { isAnswered.set() }
                    return try await OwnerTable.put("first", of: "ann", store)
                }
            ]
            for round in 0..<5 {
                // Of a row that is there, in the midst of them.
                hers.append(
                    Task {
                        try await OwnerTable.put(
                            "ann",
                            of: "ann",
                            by: .merge,
                            store
                        )
                    }
                )
                try await Self.writeOthers(round, store)
                #expect(!isAnswered.isSet)
            }
            for write in hers {
                let error = await #expect(throws: ServerError.self) { _ = try await write.value }
                #expect(error?.status == 503 && error?.headers["Retry-After"] == "1")
            }
            return hers
        }
        #expect(hers.count == 6)
        #expect(begin.duration(to: .now) < .milliseconds(3 * Self.wait))
        // Nothing of what was refused was done.
        let row = try await store.read("first", view: nil, in: Table(OwnerTable.definition()))
        #expect(row == nil)
        #expect(try await OwnerTable.put("first", of: "ann", store).decision == .insert)
        await store.stop()
    }

    /// What waited is done as soon as the clock is free, with all of its batch, or none.
    @Test func whatWaitedIsDoneInTheEnd() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url)
        let batch = WriteBatch([
            WriteBatch.Group([
                OwnerTable.write("a", of: "ann"), OwnerTable.write("b", of: "bob"),
            ])
        ])
        let isAnswered = Flag()
        let hers = try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let hers = Task {
                defer { isAnswered.set() }
                return try await store.write(batch)
            }
            try await Self.writeOthers(0, store)
            #expect(try await OwnerTable.put("b2", of: "bob", store).decision == .insert)
            #expect(!isAnswered.isSet)
            return hers
        }
        guard case .done(let outcomes)? = try await hers.value.first else {
            Issue.record("it was not done")
            return
        }
        #expect(outcomes.count == 2)
        await store.stop()
    }

    /// A server that is to stop waits no longer for it than for any lock.
    @Test func aServerStopsMeanwhile() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try await Self.store(url)
        try await OwnerTable.holding(url, OwnerTable.hold("ann")) { _ in
            let hers = Task { try await OwnerTable.put("a", of: "ann", store) }
            try await Self.writeOthers(0, store)
            await store.stop()
            let error = await #expect(throws: ServerError.self) { _ = try await hers.value }
            #expect(error?.status == 503)
        }
    }
}

// Simulations from seeds: several devices, one server, and a bad network.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit

@Suite struct SimulationTests {
    /// The seeds of a run: a single one if TIDELINE_SEED names it.
    static let seeds: [UInt64] = {
        if let text = ProcessInfo.processInfo.environment["TIDELINE_SEED"], let seed = UInt64(text)
        {
            return [seed]
        }
        return TestScope.first(40, of: allSeeds)
    }()

    private static let allSeeds = Array(UInt64(0)..<200)

    @Test("The guarantees hold in each simulation", arguments: seeds)
    func guaranteesHold(seed: UInt64) async throws {
        _ = try await play(WorldPlan(seed: seed))
    }

    /// Seeds that broke a guarantee: a gateway's page as the very first answer split a transaction.
    @Test(
        "A gateway's page as the first answer does not split a transaction",
        arguments: [UInt64(3664), 3734]
    )
    func aFirstPageOfAGatewaySplitsNoTransaction(seed: UInt64) async throws {
        _ = try await play(WorldPlan(seed: seed))
    }

    /// Seeds in which a copied queue had a decision of the app, or a request by the policy, of the first device.
    @Test(
        "A conflict decision in a copied queue is sent by both devices",
        arguments: [UInt64(14_008_317), 15_000_391]
    )
    func aCopiedDecisionIsSentByBothDevices(seed: UInt64) async throws {
        _ = try await play(WorldPlan(seed: seed))
    }

    @Test("A row that was sent to a restored server before a pull does not count as lost")
    func rowsThatWereSentAfterARestoreAreNotLost() async throws {
        _ = try await play(WorldPlan(seed: 13_004_872))
    }

    @Test("Transactions reach the server as atomic groups, and faults affect whole groups")
    func transactionsAreSentAsGroups() async throws {
        var groups = 0
        var seed: UInt64 = 1000
        while seed < 1016 {
            var plan = WorldPlan(seed: seed)
            plan.server = .tideline
            plan.faults = .bad
            plan.faults.refuseOne = 6
            plan.copies = nil
            plan.rows = max(3, plan.rows)
            plan.transacts = true
            groups += try await play(plan).groups
            seed += 1
        }
        #expect(groups > 16)
    }

    @Test("The checker finds a transaction of which only a part reached the server")
    func halfATransactionIsDetected() {
        let transactions = WorldTransactions()
        transactions.begin("one", rows: ["a", "b"], by: "d0")
        transactions.shown("one", of: "a", request: 3)
        transactions.shown("one", of: "b", request: 3)
        transactions.shown("one", of: "b", request: 7)
        transactions.begin("two", rows: ["a", "b"], by: "d0")
        transactions.shown("two", of: "b", request: 8)
        transactions.shown("other", of: "a", request: 9)
        #expect(transactions.half == nil)
        transactions.shown("two", of: "a", request: 9)
        #expect(transactions.half?.contains("two") == true)
        // A text that has reached the server stays a part of its transaction.
        transactions.giveUp("a", by: "d0")
        #expect(transactions.half?.contains("two") == true)
    }

    @Test("The rest of a transaction with a discarded change may reach the server alone")
    func aDiscardedChangeIsNoPartOfItsTransaction() {
        let transactions = WorldTransactions()
        transactions.begin("one", rows: ["a", "b"], by: "d0")
        transactions.shown("one", of: "a", request: 3)
        transactions.giveUp("b", by: "d0")
        transactions.shown("one", of: "b", request: 7)
        #expect(transactions.half == nil)
        transactions.begin("two", rows: ["a", "b"], by: "d0")
        transactions.giveUp("b", by: "d1")
        transactions.shown("two", of: "a", request: 8)
        transactions.shown("two", of: "b", request: 9)
        #expect(transactions.half?.contains("two") == true)
    }

    @Test("A late copy of a rejected insert does not count as half of a transaction")
    func aLateCopyOfARejectedInsertBreaksNoTransaction() {
        let transactions = WorldTransactions()
        transactions.begin("one", rows: ["a", "b"], by: "d0")
        transactions.rejected("one", of: "a")
        transactions.rejected("one", of: "b")
        transactions.changed("a", by: "d1")
        transactions.shown("one", of: "b", request: 3)
        transactions.shown("one", of: "a", request: 7)
        #expect(transactions.half?.contains("one") == true)
        transactions.changed("a", by: "d0")
        #expect(transactions.half == nil)
        transactions.begin("two", rows: ["a", "b"], by: "d0")
        transactions.begin("three", rows: ["a"], by: "d0")
        transactions.shown("two", of: "b", request: 8)
        transactions.shown("two", of: "a", request: 9)
        #expect(transactions.half?.contains("two") == true)
    }

    @Test("The checker finds a lost row that disappears before its user resolves it")
    func silentlyLostRowsAreDetected() {
        var rows = LostRowCheck()
        rows.restored(without: ["a", "b", "c"])
        rows.resolved(["b"])
        rows.isMissing("b", changed: [])
        rows.isMissing("c", changed: ["c"])
        rows.isMissing("d", changed: [])
        #expect(rows.silentlyLost(changed: ["a", "c"]).isEmpty)
        #expect(rows.silentlyLost(changed: ["c"]) == ["a"])
        // An insert under the id of a row that has disappeared does not bring the row back.
        rows.isMissing("a", changed: [])
        rows.resolved(["a"])
        #expect(rows.silentlyLost(changed: ["a", "c"]) == ["a"])
    }

    @Test("A page removes a row only from the device that received the page")
    func removalsBelongToOneDevice() {
        var removals = PageRemovals()
        removals.sent(removed: ["a", "b"], present: ["c"], to: "d0")
        removals.sent(removed: [], present: ["b"], to: "d0")
        removals.sent(removed: [], present: ["a"], to: "d1")
        #expect(removals["d0"] == ["a"])
        #expect(removals["d1"].isEmpty)
        removals.accepted("a", from: "d1")
        #expect(removals["d0"] == ["a"])
        removals.accepted("a", from: "d0")
        #expect(removals["d0"].isEmpty)
    }

    @Test("A delete is pending until the server executes it or reports that the row is gone")
    func lostDeletesAreDetected() {
        var deletes = PendingDeletes()
        deletes.deletes("a", by: "d0")
        deletes.deletes("a", by: "d1")
        deletes.deletes("b", by: "d0")
        deletes.answered("a", status: 404, code: "noSuchTable", tookEffect: false)
        // A late repeat gets the replayed answer.
        deletes.answered("a", status: 204, code: nil, tookEffect: false)
        #expect(deletes.contains("a", by: "d0"))
        deletes.answered("a", status: 404, code: "noSuchRow", tookEffect: false)
        #expect(!deletes.contains("a", by: "d0"))
        #expect(!deletes.contains("a", by: "d1"))
        #expect(deletes.contains("b", by: "d0"))
        deletes.answered("b", status: 204, code: nil, tookEffect: true)
        #expect(!deletes.contains("b", by: "d0"))
    }

    @Test("A row that a restored server lost need not be deleted unless it is sent again")
    func deletesOfLostRowsAreNotNeeded() {
        var deletes = UnneededDeletes()
        deletes.deletes("a", by: "d0", isThere: true)
        deletes.deletes("b", by: "d0", isThere: true)
        #expect(!deletes.contains("a", by: "d0"))
        deletes.restored(to: ["b"])
        deletes.deletes("c", by: "d0", isThere: false)
        #expect(deletes.contains("a", by: "d0"))
        #expect(!deletes.contains("b", by: "d0"))
        deletes.changed("c", by: "d1")
        #expect(deletes.contains("c", by: "d0"))
        deletes.changed("c", by: "d0")
        #expect(!deletes.contains("c", by: "d0"))
    }

    @Test("The checker finds operations that do not depend on a parked one")
    func operationsThatWaitNeedlesslyAreDetected() {
        func operation(
            _ id: Int64,
            _ row: String,
            _ group: String?,
            isParked: Bool = false
        )
            -> PendingOperation
        {
            PendingOperation(
                id: id,
                table: "WorldItem",
                itemID: row,
                kind: .update,
                isParked: isParked,
                groupID: group
            )
        }
        let queue = [
            operation(1, "a", "one"),
            operation(2, "b", "two", isParked: true), operation(3, "c", "two", isParked: true),
            // The operations after a parked one, the rest of its group, and the following operations of those rows.
            operation(4, "c", "three"), operation(5, "d", "three"), operation(6, "d", nil),
            operation(7, "e", "four"), operation(8, "a", "four"),
        ]
        #expect(WorldQueue.unblocked(queue).map(\.id) == [1, 7, 8])
        #expect(WorldQueue.unblocked(Array(queue.dropFirst().prefix(5))).isEmpty)
    }

    @Test("A device that starts with a copied file pulls the same queries as the original")
    func aCopyBelongsToTheSameApp() {
        let plans = (0..<5000).map { WorldPlan(seed: $0) }.filter(\.sharesCopy)
        #expect(plans.contains { $0.pullsPart.first != $0.pullsPart.last })
        for plan in plans where plan.startsLater("d\(plan.devices - 1)") {
            #expect(plan.pullsPart(ofDevice: plan.devices - 1) == plan.pullsPart[0])
        }
    }

    @Test(
        "The guarantees hold for seeds that once found a bug",
        arguments: [
            16, 18, 90, 130, 137, 160, 183, 323, 353, 382, 697, 869, 1361, 3664, 3719, 3734, 20173,
            25270, 31384, 33388, 60599, 102872, 106403, 106553, 107413, 200036,
            205522, 301651, 305936, 321762, 424228, 724558, 915255,
            1_008_344, 3_010_658, 3_033_176, 4_000_158, 7_007_143, 51_011_009, 51_015_392,
        ] as [UInt64]
    )
    func fixedSeedsStayFixed(seed: UInt64) async throws {
        _ = try await play(WorldPlan(seed: seed))
    }

    @Test("A seed repeats its history", arguments: TestScope.first(2, of: UInt64(0)..<10))
    func aSeedRepeatsItsHistory(seed: UInt64) async throws {
        let first = try await play(WorldPlan(seed: seed))
        let second = try await play(WorldPlan(seed: seed))
        #expect(first == second)
    }

    @Test(
        "Devices with automatic sync converge with servers of each generation",
        arguments: WorldPlan.Server.allCases,
        TestScope.first(2, of: UInt64(0)..<10)
    )
    func devicesThatSyncThemselvesAgree(server: WorldPlan.Server, seed: UInt64) async throws {
        var plan = WorldPlan(seed: seed)
        plan.server = server
        plan.faults = .bad
        plan.syncsItself = plan.syncsItself.map { _ in true }
        _ = try await play(plan)
    }

    @Test("The seeds cover each kind of server, disk, copy, policy and fault")
    func theSeedsDrawEveryKind() {
        let plans = Self.allSeeds.map(WorldPlan.init)
        for server in WorldPlan.Server.allCases {
            #expect(plans.filter { $0.server == server }.count >= 8)
        }
        for syncsItself in [true, false] {
            #expect(plans.filter { $0.syncsItself.contains(syncsItself) }.count >= 20)
        }
        for disk in WorldPlan.Disk.allCases {
            #expect(plans.filter { $0.disks.contains(disk) }.count >= 20)
        }
        for copies in WorldPlan.Copies.allCases {
            #expect(plans.filter { $0.copies == copies }.count >= 20)
        }
        for policy in [ConflictPolicy.fail, .serverWins, .clientWins, .merge] {
            #expect(plans.filter { $0.policies.contains(policy) }.count >= 20)
        }
        let known: [ConflictPolicy] = [.fail, .serverWins, .clientWins, .merge]
        #expect(plans.filter { !Set($0.policies).isSubset(of: known) }.count >= 20)
        #expect(plans.filter(\.nests).count >= 8)
        #expect(plans.filter(\.transacts).count >= 20)
        #expect(plans.filter { $0.faults.bytesMax != nil }.count >= 20)
        #expect(plans.filter { $0.faults.otherEpoch > 0 }.count >= 20)
        #expect(plans.filter(\.restores).count >= 16)
        #expect(plans.filter(\.locks).count >= 16)
        #expect(plans.filter(\.expires).count >= 16)
        for policy in LostRowPolicy.allCases {
            #expect(plans.filter { $0.restores && $0.lostRows.contains(policy) }.count >= 8)
        }
    }

    @Test("A failing simulation is reduced to the smallest plan that fails")
    func aFailingSimulationIsShrunk() {
        var plan = WorldPlan(seed: 3)
        plan.server = .node
        plan.faults = .bad
        plan.steps = 20
        plan.transacts = true
        let (smallest, _) = World.shrunk(plan) { $0.steps >= 3 && $0.faults.late > 0 }
        #expect(smallest.steps == 3)
        #expect(smallest.devices == 1 && smallest.policies.count == 1)
        #expect(smallest.rows == 1)
        #expect(smallest.server == .tideline && smallest.syncsItself == [false])
        #expect(smallest.disks == [.memory] && smallest.copies == nil && !smallest.nests)
        #expect(!smallest.transacts && !smallest.restores && !smallest.locks && !smallest.expires)
        var faults = NetworkFaults()
        faults.late = NetworkFaults.bad.late
        #expect(smallest.faults == faults)
    }

    /// Runs a simulation on a separate thread, because it would block one of the pool's threads, and the pool has only
    /// as many as the machine has cores.
    private func play(
        _ plan: WorldPlan,
        shrinks: Bool = Self.shrinks
    ) async throws -> WorldReport {
        await Self.seats.take()
        defer { Self.seats.give() }
        return try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        try shrinks ? World(plan).runShrinking() : World(plan).run()
                    }
                )
            }
        }
    }

    /// False if TIDELINE_SHRINK is "no": to list the seeds that break a guarantee, quickly.
    private static let shrinks = ProcessInfo.processInfo.environment["TIDELINE_SHRINK"] != "no"

    private static let seats = Seats(ProcessInfo.processInfo.activeProcessorCount)
}

/// Lets a limited number of callers run at a time; the others wait in the order of their calls.
private final class Seats: Sendable {
    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    func take() async {
        await withCheckedContinuation { continuation in
            let canRun = state.withLock { state in
                guard state.free == 0 else {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if canRun { continuation.resume() }
        }
    }

    func give() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}

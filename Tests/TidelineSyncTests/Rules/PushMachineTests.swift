// PushMachine: scripts of events and the actions that they give; Backoff.

import Testing
import Tideline
import TidelineCore

@Suite struct PushMachineTests {
    private let row = PushVerdictTests.row
    private let limits = SyncLimits()

    private func operation(_ id: Int64, _ kind: OperationKind = .update) -> QueuedOperation {
        var result = QueuedOperation(id: id, table: "T", itemID: "a", kind: kind, state: .attempted)
        result.frozen = sampleRequest
        return result
    }

    @Test func anEmptyQueueEndsAtOnce() {
        var machine = PushMachine(limits: limits)
        #expect(machine.start() == .prepare(after: 0))
        #expect(machine.prepared(nil, frozenNow: false) == .finish(nil))
        #expect(machine.completed == 0)
    }

    @Test func acceptedOnesGoOn() {
        var machine = PushMachine(limits: limits)
        let (one, two) = (operation(3), operation(8, .delete))
        _ = machine.start()
        #expect(machine.prepared(one, frozenNow: true) == .send(one))
        let accepted = machine.answered(PushAnswer(status: 200, item: row))
        #expect(accepted == .accept(one, .row(row)))
        #expect(machine.settled(again: false) == .prepare(after: 3))
        #expect(machine.prepared(two, frozenNow: true) == .send(two))
        let deleted = machine.answered(PushAnswer(status: 204))
        #expect(deleted == .accept(two, .deleted(version: nil)))
        #expect(machine.settled(again: false) == .prepare(after: 8))
        #expect(machine.prepared(nil, frozenNow: false) == .finish(nil))
        #expect(machine.completed == 2)
    }

    @Test func aSkippedOneCounts() {
        var machine = PushMachine(limits: limits)
        _ = machine.start()
        #expect(machine.skipped(5) == .prepare(after: 5))
        #expect(machine.completed == 1)
    }

    @Test func busyServersAreAskedAgainWithBackoff() {
        var machine = PushMachine(limits: limits)
        let one = operation(1)
        _ = machine.start()
        _ = machine.prepared(one, frozenNow: true)
        for (status, wait) in [(503, 500), (429, 1000), (408, 2000)] {
            let action = machine.answered(PushAnswer(status: status))
            #expect(action == .wait(.milliseconds(wait)))
            #expect(machine.waited() == .send(one))
        }
        #expect(machine.answered(PushAnswer(status: 500)) == .finish(.network))
        #expect(machine.completed == 0)
    }

    @Test func eachOperationHasItsOwnAttempts() {
        var machine = PushMachine(limits: limits)
        let (one, two) = (operation(1), operation(2))
        _ = machine.start()
        _ = machine.prepared(one, frozenNow: true)
        for _ in 0..<3 {
            _ = machine.answered(PushAnswer(status: 503))
            _ = machine.waited()
        }
        _ = machine.answered(PushAnswer(status: 200, item: row))
        _ = machine.settled(again: false)
        _ = machine.prepared(two, frozenNow: true)
        #expect(machine.answered(PushAnswer(status: 503)) == .wait(.milliseconds(500)))
    }

    @Test func onlyTheFirstAttemptIsCertain() {
        let conflict = PushAnswer(status: 409, item: row)
        for (frozenNow, isRetry, isFirst) in [
            (true, false, true), (false, false, false), (true, true, false),
        ] {
            var machine = PushMachine(limits: limits)
            let one = operation(1, .insert)
            _ = machine.start()
            _ = machine.prepared(one, frozenNow: frozenNow)
            if isRetry {
                _ = machine.answered(PushAnswer(status: 503))
                _ = machine.waited()
            }
            let expected = PushMachine.Action.settleConflict(
                one,
                .row(row),
                status: 409,
                isFirstAttempt: isFirst
            )
            #expect(machine.answered(conflict) == expected)
        }
    }

    @Test func rejectedOnesAreParkedAndOthersGoOn() {
        var machine = PushMachine(limits: limits)
        let one = operation(4)
        let answer = PushAnswer(status: 422, message: "no")
        _ = machine.start()
        _ = machine.prepared(one, frozenNow: true)
        #expect(machine.answered(answer) == .park(one, answer))
        #expect(machine.settled(again: false) == .prepare(after: 4))
        #expect(machine.completed == 0)
    }

    @Test func aReleasedOneIsSentFromItsPlace() {
        var machine = PushMachine(limits: limits)
        let one = operation(4)
        _ = machine.start()
        _ = machine.prepared(one, frozenNow: true)
        _ = machine.answered(PushAnswer(status: 412, item: row))
        #expect(machine.settled(again: true) == .prepare(after: 3))
    }

    @Test func aSettledConflictMayCount() {
        var machine = PushMachine(limits: limits)
        _ = machine.start()
        _ = machine.prepared(operation(4), frozenNow: true)
        _ = machine.answered(PushAnswer(status: 412, item: row))
        #expect(machine.settled(again: false, asCompleted: true) == .prepare(after: 4))
        #expect(machine.completed == 1)
    }

    @Test(arguments: [PushMachine.Stop.network, .cancelled])
    func aMissingAnswerEndsIt(stop: PushMachine.Stop) {
        var machine = PushMachine(limits: limits)
        _ = machine.start()
        _ = machine.prepared(operation(1), frozenNow: true)
        #expect(machine.failed(stop) == .finish(stop))
    }

    @Test func unauthorizedEndsIt() {
        var machine = PushMachine(limits: limits)
        _ = machine.start()
        _ = machine.prepared(operation(1), frozenNow: true)
        #expect(machine.answered(PushAnswer(status: 401)) == .finish(.unauthorized))
    }
}

@Suite struct BackoffTests {
    static let delays: [(Int, Duration?, Duration)] = [
        (1, nil, .milliseconds(500)),
        (2, nil, .seconds(1)),
        (3, nil, .seconds(2)),
        (7, nil, .seconds(30)),
        (1_000_000, nil, .seconds(30)),
        (1, .seconds(7), .seconds(7)),
        (1, .zero, .milliseconds(500)),
        (6, .seconds(7), .seconds(16)),
        (1, .seconds(86_400), .seconds(30)),
    ]

    @Test(arguments: delays)
    func delay(attempt: Int, asked: Duration?, expected: Duration) {
        #expect(Backoff.delay(after: attempt, asked: asked, SyncLimits()) == expected)
    }

    @Test func chanceOnlyAdds() {
        #expect(Backoff.spread(.seconds(8), 0) == .seconds(8))
        #expect(Backoff.spread(.seconds(8), 0.5) == .seconds(9))
        #expect(Backoff.spread(.seconds(8), 1) == .seconds(10))
    }
}

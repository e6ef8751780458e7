// ConflictRules: operation x server state x policy -> outcome, and the operation that is sent after a conflict.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct ConflictRulesTests {
    private static let limits = SyncLimits()
    private static let mine: Row = ["text": "mine", "rank": 3]
    private static let theirs = ServerState.row(["id": "a", "text": "theirs", "version": "v2"])
    private static let same = ServerState.row(
        ["id": "a", "text": "mine", "rank": 3, "complete": true, "version": "v2"]
    )
    private static let tombstone = ServerState.deleted(version: "v3")
    private static let gone = ServerState.deleted(version: nil)

    private static func operation(
        _ kind: OperationKind,
        conflicts: Int = 0
    ) -> QueuedOperation {
        var result = QueuedOperation(id: 1, table: "T", itemID: "a", kind: kind, state: .attempted)
        result.frozen = sampleRequest
        result.basisVersion = "v1"
        result.conflicts = conflicts
        return result
    }

    private func outcome(
        _ operation: QueuedOperation,
        _ server: ServerState,
        _ policy: ConflictPolicy,
        isFirst: Bool = true
    ) -> ConflictOutcome {
        var sent = operation
        sent.outcomeUnknown = !isFirst
        return ConflictRules.outcome(
            sent,
            payload: operation.kind == .delete ? nil : Self.mine,
            server: server,
            policy: policy,
            limits: Self.limits
        )
    }

    @Test(
        "A row that the server already has is not a conflict",
        arguments: [ConflictPolicy.fail, .serverWins, .clientWins]
    )
    func aRowThatTheServerAlreadyHasIsNotAConflict(policy: ConflictPolicy) {
        for isFirst in [true, false] {
            for kind in [OperationKind.insert, .update] {
                let result = outcome(Self.operation(kind), Self.same, policy, isFirst: isFirst)
                #expect(result == .alreadyApplied(Self.same))
            }
            for server in [Self.tombstone, Self.gone] {
                let result = outcome(Self.operation(.delete), server, policy, isFirst: isFirst)
                #expect(result == .alreadyApplied(server))
            }
        }
    }

    @Test(
        "The conflict policy decides whether to park, to take the server's row or to send again",
        arguments: OperationKind.allCases
    )
    func policiesDecideConflicts(kind: OperationKind) {
        let one = Self.operation(kind)
        #expect(outcome(one, Self.theirs, .fail) == .park)
        #expect(outcome(one, Self.theirs, .serverWins) == .takeServer(Self.theirs))
        let again = ConflictRules.onTop(one, Self.theirs)
        #expect(outcome(one, Self.theirs, .clientWins) == .sendAgain(again))
    }

    @Test("An update of a deleted row is a conflict") func anUpdateOfADeletedRowIsAConflict() {
        let one = Self.operation(.update)
        #expect(outcome(one, Self.tombstone, .fail) == .park)
        #expect(outcome(one, Self.tombstone, .serverWins) == .takeServer(Self.tombstone))
        let again = ConflictRules.onTop(one, Self.tombstone)
        #expect(outcome(one, Self.tombstone, .clientWins) == .sendAgain(again))
    }

    @Test("An insert restores a tombstone only at its first attempt")
    func anInsertRestoresATombstoneAtItsFirstAttemptOnly() {
        let one = Self.operation(.insert)
        let again = ConflictRules.onTop(one, Self.tombstone)
        for policy in [ConflictPolicy.fail, .serverWins, .clientWins] {
            #expect(outcome(one, Self.tombstone, policy) == .sendAgain(again))
        }
        #expect(outcome(one, Self.tombstone, .fail, isFirst: false) == .park)
        let own = ServerState.deleted(version: "v3", row: Self.mine)
        for isFirst in [true, false] {
            #expect(outcome(one, own, .fail, isFirst: isFirst) == .alreadyApplied(own))
        }
        let taken = outcome(one, Self.tombstone, .serverWins, isFirst: false)
        #expect(taken == .takeServer(Self.tombstone))
        #expect(outcome(one, Self.gone, .fail) == .park)
    }

    @Test("An insert of a row that the device knew restores an equal tombstone")
    func anInsertOfAKnownRowIsARevival() {
        var one = Self.operation(.insert)
        var tombstone = Self.mine
        tombstone["createdAt"] = .date(Date(timeIntervalSince1970: 5))
        let own = ServerState.deleted(version: "v3", row: tombstone)
        one.knownUntil = 4_999
        #expect(outcome(one, own, .fail) == .alreadyApplied(own))
        one.knownUntil = 5_000
        #expect(outcome(one, own, .fail) == .sendAgain(ConflictRules.onTop(one, own)))
    }

    @Test("A client-wins policy does not apply to an operation of a copied store")
    func anInheritedOperationNeverWins() {
        for kind in OperationKind.allCases {
            var one = Self.operation(kind)
            one.isInherited = true
            #expect(outcome(one, Self.theirs, .clientWins) == .park)
            #expect(outcome(one, Self.theirs, .serverWins) == .takeServer(Self.theirs))
        }
    }

    @Test(
        "An earlier state of the operation on the server is not a conflict",
        arguments: [OperationKind.insert, .update, .delete]
    )
    func anEarlierStateIsNotAConflict(kind: OperationKind) {
        var one = Self.operation(kind)
        one.unknownSent = ["id": "a", "text": "theirs"]
        guard case .row(let row) = Self.theirs else { return }
        for policy in [ConflictPolicy.fail, .serverWins, .clientWins] {
            #expect(outcome(one, Self.theirs, policy, isFirst: false) == .rebase(row))
        }
        #expect(outcome(one, Self.theirs, .fail) == .park)
    }

    @Test("An operation is retried if a read after an unknown outcome shows an unchanged row")
    func anOperationThatDidNotArriveIsSentAgain() {
        let before = ServerState.row(["id": "a", "text": "base", "version": "v1"])
        for (kind, server) in [(.update, before), (.delete, before), (.insert, Self.gone)]
            as [(OperationKind, ServerState)]
        {
            var one = Self.operation(kind)
            one.outcomeUnknown = true
            one.conflicts = Self.limits.conflictsMax
            for policy in [ConflictPolicy.fail, .serverWins, .clientWins, .merge] {
                let result = ConflictRules.outcome(
                    one,
                    payload: kind == .delete ? nil : Self.mine,
                    server: server,
                    wasRead: true,
                    policy: policy,
                    limits: Self.limits
                )
                guard case .retry(let again) = result else {
                    Issue.record("\(kind): \(result)")
                    continue
                }
                #expect(again.kind == kind)
                #expect(again.frozen == nil)
                #expect(!again.outcomeUnknown)
                #expect(again.conflicts == one.conflicts)
            }
        }
    }

    @Test("The client-wins policy parks an operation after several conflicts")
    func clientWinsStopsAfterSeveralConflicts() {
        let last = Self.operation(.update, conflicts: Self.limits.conflictsMax - 1)
        guard case .sendAgain(let again) = outcome(last, Self.theirs, .clientWins) else {
            Issue.record("the last try is left out")
            return
        }
        #expect(again.conflicts == Self.limits.conflictsMax)
        #expect(outcome(again, Self.theirs, .clientWins) == .park)
    }

    /// Kind, server state, and the operation that is sent next: kind, revival, whole row, and base version.
    static let tops: [(OperationKind, ServerState, OperationKind, Bool, Bool, String?)] = [
        (.insert, theirs, .update, false, true, "v2"),
        (.update, theirs, .update, false, true, "v2"),
        (.delete, theirs, .delete, false, false, "v2"),
        (.insert, tombstone, .update, true, true, "v3"),
        (.update, tombstone, .update, true, true, "v3"),
        (.update, gone, .insert, false, true, nil),
    ]

    @Test("An operation is rebased on the server's row after a conflict")
    func operationsAreRebasedOnTheServersRow() {
        for (kind, server, newKind, revives, isWhole, basis) in Self.tops {
            let again = ConflictRules.onTop(Self.operation(kind), server)
            #expect(again.kind == newKind, "\(kind) \(server)")
            #expect(again.revives == revives, "\(kind) \(server)")
            #expect(again.sendsWholeRow == isWhole, "\(kind) \(server)")
            #expect(again.basisVersion == basis, "\(kind) \(server)")
            #expect(again.frozen == nil)
            #expect(again.state == .pending)
            #expect(again.conflicts == 1)
        }
    }
}

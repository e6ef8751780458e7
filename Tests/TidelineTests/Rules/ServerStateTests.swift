// ServerState: decides which of two states of a row is the later one.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct ServerStateTests {
    private static func row(_ version: Int, hasTime: Bool = true) -> ServerState {
        var row = localRow("a", version)
        if !hasTime { row[SystemColumn.updatedAt] = nil }
        return .row(row)
    }

    /// An operation on version 1 that was sent; a pull brought `pulled` while it was in the queue.
    private static func sent(
        _ kind: OperationKind,
        _ pulled: ServerState?,
        isRepeat: Bool,
        ifMatch: String? = "\"v1\""
    ) -> QueuedOperation {
        var operation = QueuedOperation(
            id: 1,
            table: "T",
            itemID: "a",
            kind: kind,
            state: .attempted
        )
        operation.frozen = sampleRequest
        operation.frozen?.ifMatch = ifMatch
        operation.basis.latest = pulled
        operation.attempts = isRepeat ? 2 : 1
        operation.outcomeUnknown = isRepeat
        return operation
    }

    /// The replayed answer may be older than the row that a pull returned.
    @Test("A newer tombstone takes precedence over a replayed answer")
    func aNewerTombstoneOutlivesAStoredAnswer() {
        let known = ServerState.deleted(version: "v3")
        let stored = ServerState(ServerState.pulledDeletion.stored)
        for pulled in [ServerState.pulledDeletion, stored, known] {
            let update = Self.sent(.update, pulled, isRepeat: true)
            #expect(ServerState.newest(after: Self.row(2), to: update) == pulled)
            let insert = Self.sent(.insert, pulled, isRepeat: true, ifMatch: nil)
            #expect(ServerState.newest(after: Self.row(2), to: insert) == pulled)
        }
    }

    /// The first response said that the server does not have the updated row, so the update became an insert.
    @Test("The replayed answer to an insert takes precedence over the response before it")
    func theAnswerToAnInsertCounts() {
        let missing = ServerState.deleted(version: nil)
        for known in [missing, ServerState(missing.stored)] {
            let insert = Self.sent(.insert, known, isRepeat: true, ifMatch: nil)
            #expect(ServerState.newest(after: Self.row(2), to: insert) == Self.row(2))
        }
    }

    @Test("A restored row takes precedence over the replayed answer to a delete")
    func aRevivedRowOutlivesTheStoredAnswerToADelete() {
        for answer in [ServerState.deleted(version: nil), .deleted(version: "v2")] {
            for hasTime in [false, true] {
                let revived = Self.row(3, hasTime: hasTime)
                let operation = Self.sent(.delete, revived, isRepeat: true)
                #expect(ServerState.newest(after: answer, to: operation) == revived)
            }
        }
    }

    @Test("The row with the later update time takes precedence") func theLaterRowCountsByItsTime() {
        let operation = Self.sent(.update, Self.row(3), isRepeat: true)
        #expect(ServerState.newest(after: Self.row(2), to: operation) == Self.row(3))
        #expect(ServerState.newest(after: Self.row(4), to: operation) == Self.row(4))
    }

    /// An older copy of the file was put back: the update was sent once since then, and another writer changed the row
    /// in the millisecond of the first answer.
    @Test(
        "A pulled state takes precedence over an answer with the same update time",
        arguments: [false, true],
        [false, true]
    )
    func anotherStateOutlivesAnAnswerWithTheSameTime(isRepeat: Bool, isDeleted: Bool) {
        var later = localRow("a", 3)
        later[SystemColumn.updatedAt] = localRow("a", 2)[SystemColumn.updatedAt]
        let pulled = isDeleted ? ServerState.deleted(version: "v3") : .row(later)
        let operation = Self.sent(.update, pulled, isRepeat: isRepeat)
        #expect(ServerState.newest(after: Self.row(2), to: operation) == pulled)
    }

    @Test("A replayed answer takes precedence over its operation's base row and own row")
    func theAnswerOutlivesItsBase() {
        let pulled = Self.row(1, hasTime: false)
        let operation = Self.sent(.update, pulled, isRepeat: true)
        #expect(ServerState.newest(after: Self.row(2), to: operation) == Self.row(2))
        let own = Self.sent(.update, Self.row(2, hasTime: false), isRepeat: true)
        #expect(ServerState.newest(after: Self.row(2), to: own) == Self.row(2))
        let tombstone = ServerState.deleted(version: "v1")
        let revival = Self.sent(.update, tombstone, isRepeat: true)
        #expect(ServerState.newest(after: Self.row(2), to: revival) == Self.row(2))
    }

    /// This is so even if an earlier attempt of the operation may have arrived.
    @Test("The response to a new request takes precedence over an earlier state")
    func theAnswerToANewRequestCounts() {
        var operation = Self.sent(.delete, Self.row(3), isRepeat: false)
        operation.outcomeUnknown = true
        let gone = ServerState.deleted(version: nil)
        #expect(ServerState.newest(after: gone, to: operation) == gone)
    }

    /// The answer to a first attempt is never a replayed answer.
    @Test("The response to a first attempt takes precedence over the known state")
    func theAnswerToAFirstAttemptCounts() {
        let operation = Self.sent(.update, .deleted(version: nil), isRepeat: false)
        #expect(ServerState.newest(after: Self.row(2), to: operation) == Self.row(2))
        #expect(
            ServerState.newest(after: Self.row(2), to: Self.sent(.update, nil, isRepeat: true))
                == Self.row(2)
        )
    }
}

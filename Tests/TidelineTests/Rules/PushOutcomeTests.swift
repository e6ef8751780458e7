// PushOutcome: status and body of a response, and their meaning for each kind of operation.

import Testing
import Tideline
import TidelineCore

@Suite struct PushOutcomeTests {
    /// The kind of body that an answer has.
    enum Body: Sendable, CaseIterable {
        case none
        case row
        case tombstone
        case foreign
        case noTable
    }

    static let row: Row = ["id": "a", "text": "x", "version": "v2", "deleted": false]
    static let tombstone: Row = ["id": "a", "text": "x", "version": "v3", "deleted": true]

    static func answer(_ status: Int, _ body: Body) -> PushAnswer {
        switch body {
        case .none: PushAnswer(status: status)
        case .row: PushAnswer(status: status, item: row)
        case .tombstone: PushAnswer(status: status, item: tombstone)
        case .foreign: PushAnswer(status: status, hasBodyWithoutRow: true)
        case .noTable:
            PushAnswer(status: status, message: "x", lacksTable: true, hasBodyWithoutRow: true)
        }
    }

    private static func outcome(_ status: Int, _ body: Body, _ kind: OperationKind) -> PushOutcome {
        let operation = QueuedOperation(id: 1, table: "T", itemID: "a", kind: kind)
        return answer(status, body).outcome(of: operation)
    }

    private static let accepted = PushOutcome.accepted(.row(row))
    private static let acceptedGone = PushOutcome.accepted(ServerState(tombstone))
    private static let conflict = PushOutcome.conflict(.row(row), wasRead: false)
    private static let conflictGone = PushOutcome.conflict(ServerState(tombstone), wasRead: false)
    private static let conflictLost = PushOutcome.conflict(.deleted(version: nil), wasRead: false)
    private static let gone = PushOutcome.accepted(.deleted(version: nil))

    /// Statuses, a body, and the outcome for insert, update and delete.
    static let table: [([Int], Body, PushOutcome, PushOutcome, PushOutcome)] = [
        ([200, 201, 204], .row, accepted, accepted, .accepted(.deleted(version: "v2"))),
        (
            [200], .tombstone, acceptedGone, acceptedGone, .accepted(.deleted(version: "v3"))
        ),
        ([200, 202], .none, .retry, .retry, gone),
        ([204], .none, .read(.written), .read(.written), gone),
        ([200, 201], .foreign, .retry, .retry, .retry),
        ([100, 301, 302, 304, 307], .none, .retry, .retry, .retry),
        ([302], .foreign, .retry, .retry, .retry),
        ([401], .none, .unauthorized, .unauthorized, .unauthorized),
        ([401], .row, .unauthorized, .unauthorized, .unauthorized),
        ([404], .none, .read(.gone), .read(.gone), .read(.gone)),
        ([410], .none, .rejected, conflictLost, gone),
        ([404, 410], .foreign, .retry, .retry, .retry),
        ([404], .noTable, .rejected, .rejected, .rejected),
        ([410], .tombstone, .rejected, conflictGone, gone),
        ([409, 412], .row, conflict, conflict, conflict),
        ([409, 412], .tombstone, conflictGone, conflictGone, conflictGone),
        ([409, 412], .none, .rejected, .rejected, .rejected),
        ([409, 412], .foreign, .rejected, .rejected, .rejected),
        ([408, 429, 500, 501, 502, 503, 504, 599], .none, .retry, .retry, .retry),
        ([500], .row, .retry, .retry, .retry),
        (
            [400, 402, 403, 405, 413, 415, 422, 428, 431, 451], .none, .rejected, .rejected,
            .rejected
        ),
        ([400], .row, .rejected, .rejected, .rejected),
    ]

    @Test("Each response has its outcome for each kind of operation")
    func responsesHaveTheirOutcomes() {
        for (statuses, body, insert, update, delete) in Self.table {
            for status in statuses {
                for (kind, outcome) in [
                    (OperationKind.insert, insert), (.update, update), (.delete, delete),
                ] {
                    let found = Self.outcome(status, body, kind)
                    #expect(found == outcome, "\(kind) \(status) \(body)")
                }
            }
        }
    }

    /// A 410, or a 404 that reports the row as missing, accepts a delete.
    @Test("An operation is accepted only by a 2xx, or a delete by a missing row")
    func noOtherAnswerIsASuccess() {
        for status in 100..<600 {
            for body in Body.allCases {
                for kind in OperationKind.allCases {
                    guard case .decided(.accepted) = Self.outcome(status, body, kind) else {
                        continue
                    }
                    let isGone =
                        kind == .delete
                        && (status == 410 || status == 404 && body != .none && body != .foreign)
                    #expect((200..<300).contains(status) || isGone, "\(kind) \(status) \(body)")
                    #expect(isGone || body != .foreign, "\(kind) \(status) \(body)")
                }
            }
        }
    }

    /// A server that names each request that it executed did not execute one whose answer has no name.
    @Test(
        "An empty success without a sign of execution leads to a follow-up read",
        arguments: [200, 204]
    )
    func anEmptySuccessWithoutANameLeadsToAFollowUpRead(status: Int) {
        let delete = QueuedOperation(id: 1, table: "T", itemID: "a", kind: .delete)
        let empty = PushAnswer(status: status)
        #expect(empty.outcome(of: delete, namesRequests: true) == .read(.gone))
        #expect(empty.outcome(of: delete) == Self.gone)
        var named = empty
        named.wasAcceptedAsRequest = true
        #expect(named.outcome(of: delete, namesRequests: true) == Self.gone)
    }

    @Test(
        "A 412 to a rejected retry leads to a follow-up read, not to a conflict",
        arguments: OperationKind.allCases
    )
    func aRejectedRetryLeadsToAFollowUpRead(kind: OperationKind) {
        let answer = PushAnswer(status: 412, wasRejectedAsRepeat: true)
        let operation = QueuedOperation(id: 1, table: "T", itemID: "a", kind: kind)
        #expect(answer.outcome(of: operation) == .read(.row))
    }

    /// A follow-up request, its answer, and the meaning for an update of version v1.
    static let followUps: [(FollowUpRead, PushAnswer, PushOutcome)] = [
        (.written, PushAnswer(status: 200, item: row), .accepted(.row(row))),
        (.written, PushAnswer(status: 200, item: old), .conflict(.row(old), wasRead: true)),
        (.written, PushAnswer(status: 200, item: tombstone), .accepted(ServerState(tombstone))),
        (.written, PushAnswer(status: 404), .read(.gone)),
        (
            .written, PushAnswer(status: 404, lacksRow: true),
            .conflict(.deleted(version: nil), wasRead: true)
        ),
        (.row, PushAnswer(status: 404, message: "x"), .read(.gone)),
        (.row, PushAnswer(status: 200, item: row), .conflict(.row(row), wasRead: true)),
        (
            .row, PushAnswer(status: 410, item: tombstone),
            .conflict(ServerState(tombstone), wasRead: true)
        ),
        (.row, PushAnswer(status: 410), .conflict(.deleted(version: nil), wasRead: true)),
        (.row, PushAnswer(status: 404, hasBodyWithoutRow: true), .retry),
        (.row, PushAnswer(status: 404, message: "x", lacksTable: true), .retry),
        (.row, PushAnswer(status: 503), .retry),
        (.row, PushAnswer(status: 200), .retry),
        (.row, PushAnswer(status: 401), .unauthorized),
        (
            .gone, PushAnswer(status: 404, isPage: true),
            .conflict(.deleted(version: nil), wasRead: true)
        ),
        (
            .gone, PushAnswer(status: 200, item: row, isPage: true),
            .conflict(.row(row), wasRead: true)
        ),
        (.gone, PushAnswer(status: 200, item: old, isPage: true), .retry),
        (.gone, PushAnswer(status: 404), .retry),
        (.gone, PushAnswer(status: 403), .rejected),
        (.gone, PushAnswer(status: 200), .retry),
        // The rejection was caused by another operation of the group.
        (.undone, PushAnswer(status: 200, item: old), .rejected),
        (.undone, PushAnswer(status: 200, item: row), .conflict(.row(row), wasRead: false)),
        (
            .undone, PushAnswer(status: 410, item: tombstone),
            .conflict(ServerState(tombstone), wasRead: false)
        ),
        (
            .undone, PushAnswer(status: 404, lacksRow: true),
            .conflict(.deleted(version: nil), wasRead: false)
        ),
        (.undone, PushAnswer(status: 404, message: "x", lacksTable: true), .rejected),
        (.undone, PushAnswer(status: 403), .rejected),
        (.undone, PushAnswer(status: 404, message: "x"), .retry),
        (.undone, PushAnswer(status: 200), .retry),
        (.undone, PushAnswer(status: 503), .retry),
        (.undone, PushAnswer(status: 401), .unauthorized),
    ]

    private static let old: Row = ["id": "a", "text": "base", "version": "v1"]

    @Test("Each response to a follow-up read has its outcome")
    func followUpReadsHaveTheirOutcomes() {
        var operation = QueuedOperation(id: 1, table: "T", itemID: "a", kind: .update)
        operation.frozen = sampleRequest
        for (read, answer, outcome) in Self.followUps {
            #expect(read.outcome(of: operation, answer) == outcome, "\(read) \(answer.status)")
        }
    }
}

// PushAnswer.verdict: status and body -> what the answer means for each kind of operation.

import Testing
import Tideline
import TidelineCore

@Suite struct PushVerdictTests {
    typealias Verdict = PushAnswer.Verdict

    /// What the answer's body was.
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
        case .foreign: PushAnswer(status: status, hasForeignBody: true)
        case .noTable:
            PushAnswer(status: status, message: "x", lacksTable: true, hasForeignBody: true)
        }
    }

    private static let accepted = Verdict.accepted(.row(row))
    private static let acceptedGone = Verdict.accepted(ServerState(tombstone))
    private static let conflict = Verdict.conflict(.row(row))
    private static let conflictGone = Verdict.conflict(ServerState(tombstone))
    private static let conflictLost = Verdict.conflict(.deleted(version: nil))
    private static let gone = Verdict.accepted(.deleted(version: nil))

    /// Statuses, a body, and the verdict for insert, update and delete.
    static let table: [([Int], Body, Verdict, Verdict, Verdict)] = [
        ([200, 201, 204], .row, accepted, accepted, .accepted(.deleted(version: "v2"))),
        (
            [200], .tombstone, acceptedGone, acceptedGone, .accepted(.deleted(version: "v3"))
        ),
        ([200, 202, 204], .none, .retry, .retry, gone),
        ([200, 201], .foreign, .retry, .retry, .retry),
        ([100, 301, 302, 304, 307], .none, .retry, .retry, .retry),
        ([302], .foreign, .retry, .retry, .retry),
        ([401], .none, .unauthorized, .unauthorized, .unauthorized),
        ([401], .row, .unauthorized, .unauthorized, .unauthorized),
        ([404, 410], .none, .rejected, conflictLost, gone),
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

    @Test func verdicts() {
        for (statuses, body, insert, update, delete) in Self.table {
            for status in statuses {
                let answer = Self.answer(status, body)
                #expect(answer.verdict(for: .insert) == insert, "insert \(status) \(body)")
                #expect(answer.verdict(for: .update) == update, "update \(status) \(body)")
                #expect(answer.verdict(for: .delete) == delete, "delete \(status) \(body)")
            }
        }
    }

    /// Goal: whatever comes, an operation is accepted only by 2xx, or as a delete by 404 and 410.
    @Test func nothingElseIsSuccess() {
        for status in 100..<600 {
            for body in Body.allCases {
                for kind in OperationKind.allCases {
                    guard case .accepted = Self.answer(status, body).verdict(for: kind) else {
                        continue
                    }
                    let isGone = kind == .delete && (status == 404 || status == 410)
                    #expect((200..<300).contains(status) || isGone, "\(kind) \(status) \(body)")
                    #expect(isGone || body != .foreign, "\(kind) \(status) \(body)")
                }
            }
        }
    }
}

// Attempts: the effect of a lost, late or malformed answer on an operation and on later edits.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct AttemptTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy = .fail) async throws -> Device {
        try await Device(transport, conflicts: policy)
    }

    @Test("The first attempt freezes an operation, and a later edit is sent separately")
    func theFirstAttemptFreezesAnOperation() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "one", rank: 1))
        transport.add(.lost)
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.queue() == ["insert a attempted"])
        try await device.todos().update(id: "a") { $0.text = "two" }
        #expect(try await device.queue() == ["insert a attempted", "update a"])
        transport.add(
            .json(409, serverRow("a", 1, text: "one", rank: 1)),
            .json(200, serverRow("a", 2, text: "two", rank: 1))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 3)
        #expect(transport.sent[0] == transport.sent[1])
        #expect(transport.sent[2].description == "PATCH /tables/Todo/a \"v1\" {\"text\":\"two\"}")
        #expect(try await device.rows() == [localRow("a", 2, text: "two", rank: 1)])
        #expect(try await device.queue() == [])
    }

    @Test("An attempted update is resent with the same bytes and version")
    func anUpdateIsFrozenWithItsVersion() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "one" }
        transport.add(.lost)
        _ = try await device.push()
        try await device.todos().update(id: "a") { $0.rank = 9 }
        try await device.todos().update(id: "a") { $0.rank = 10 }
        #expect(try await device.queue() == ["update a attempted", "update a"])
        transport.add(
            .json(200, serverRow("a", 2, text: "one")),
            .json(200, serverRow("a", 3, text: "one", rank: 10))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[0] == transport.sent[1])
        #expect(transport.sent[2].description == "PATCH /tables/Todo/a \"v2\" {\"rank\":10}")
    }

    @Test("A delete after an attempted insert is a separate operation")
    func aDeleteAfterAnAttemptIsASeparateOperation() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "one"))
        transport.add(.lost)
        _ = try await device.push()
        try await device.todos().delete(id: "a")
        #expect(try await device.queue() == ["insert a attempted", "delete a"])
        transport.add(.json(201, serverRow("a", 4, text: "one")), .status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == ["POST", "POST", "DELETE"])
        #expect(transport.sent[2].ifMatch == "\"v4\"")
        #expect(try await device.rows() == [])
    }

    @Test("An insert after an attempted delete is a separate operation")
    func anInsertAfterAnAttemptedDeleteIsASeparateOperation() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        transport.add(.lost)
        _ = try await device.push()
        try await device.todos().insert(Todo(id: "a", text: "anew"))
        #expect(try await device.queue() == ["delete a attempted", "insert a"])
        transport.add(
            .status(204),
            .json(409, serverRow("a", 2, deleted: true)),
            .json(200, serverRow("a", 3, text: "anew"))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == ["DELETE", "DELETE", "POST", "PUT"])
        #expect(transport.sent[3].target == "/tables/Todo/a?__includedeleted=true")
        #expect(transport.sent[3].ifMatch == "\"v2\"")
        #expect(try await device.rows() == [localRow("a", 3, text: "anew")])
    }

    @Test("An edit made while its row is sent survives and is sent next")
    func anEditDuringThePushIsKept() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "sent" }
        let todos = try device.todos()
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { $0.rank = 5 }
                return .json(200, serverRow("a", 2, text: "sent", #","by":"server""#))
            },
            .run { request in
                let local = try await todos.read(id: "a")
                #expect(local?.text == "sent")
                #expect(local?.rank == 5)
                #expect(local?.version == "v2")
                #expect(request.description == "PATCH /tables/Todo/a \"v2\" {\"rank\":5}")
                let more = #","by":"server""#
                return .json(200, serverRow("a", 3, text: "sent", rank: 5, more))
            }
        )
        #expect(try await device.push() == nil)
        #expect(transport.unused == 0)
        var row = localRow("a", 3, text: "sent", rank: 5)
        row["by"] = "server"
        #expect(try await device.rows() == [row])
    }

    @Test("An edit made during the push does not overwrite values that the server changed")
    func anEditDuringThePushMeetsTheServersChanges() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "sent" }
        let todos = try device.todos()
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { $0.complete = true }
                return .json(200, serverRow("a", 2, text: "trimmed by server", rank: 7))
            },
            .json(200, serverRow("a", 3, text: "trimmed by server", rank: 7))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].body == #"{"complete":true}"#)
    }

    @Test("A 401 response ends the push and parks nothing")
    func unauthorizedParksNothing() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        try await device.todos().insert(Todo(id: "b"))
        transport.add(.status(401))
        let error = try await device.push()
        #expect(error?.status == .unauthorized)
        #expect(error?.errors.isEmpty == true)
        #expect(try await device.queue() == ["insert a attempted", "insert b attempted"])
        #expect(device.waits.all.isEmpty)
    }

    @Test(
        "Requests to a busy server are retried, and nothing is parked",
        arguments: [408, 429, 500, 503]
    )
    func requestsToABusyServerAreRetriedAndNothingIsParked(status: Int) async throws {
        let transport = ScriptedTransport(otherwise: .status(status))
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        try await device.todos().insert(Todo(id: "b"))
        let error = try await device.push()
        #expect(error?.status == .networkFailure)
        #expect(error?.errors.isEmpty == true)
        // The first operation is sent four times; then another one shows whether the first one is the cause.
        #expect(transport.sent.count == 5)
        #expect(Set(transport.sent).count == 2)
        #expect(device.waits.all == [.milliseconds(500), .seconds(1), .seconds(2)])
        #expect(try await device.queue() == ["insert a attempted", "insert b attempted"])
    }

    @Test("A push waits for as many seconds as Retry-After requests")
    func theServerMayAskForALongerWait() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(
            .status(503, ["Retry-After": "7"]),
            .status(429, ["retry-after": "30"]),
            .status(503, ["Retry-After": "Fri, 20 Nov 2026 20:32:22 GMT"]),
            .json(201, serverRow("a", 1))
        )
        #expect(try await device.push() == nil)
        #expect(device.waits.all == [.seconds(7), .seconds(30), .seconds(2)])
    }

    @Test("A push waits until the time in Retry-After, measured by the server's wall clock")
    func theServerMayAskForAWaitUntilATime() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        func busy(until second: Int) -> ScriptedTransport.Answer {
            let day = "Fri, 20 Nov 2026 20:32:"
            return .status(503, ["Retry-After": "\(day)\(second) GMT", "Date": "\(day)20 GMT"])
        }
        transport.add(busy(until: 29), busy(until: 10), .json(201, serverRow("a", 1)))
        #expect(try await device.push() == nil)
        #expect(device.waits.all == [.seconds(9), .seconds(1)])
        try await device.todos().insert(Todo(id: "b"))
        transport.add(busy(until: 59))
        #expect(try await device.push()?.status == .networkFailure)
    }

    @Test("A requested wait that is longer than the push ends it")
    func aWaitLongerThanThePushEndsIt() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.status(429, ["Retry-After": "9999"]))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(device.waits.all.isEmpty)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test(
        "A missing response ends the push and leaves the operation attempted",
        arguments: [ScriptedTransport.Answer.lost, .broken]
    )
    func aMissingAnswerEndsThePush(answer: ScriptedTransport.Answer) async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(answer)
        let error = try await device.push()
        #expect(error?.status == .networkFailure)
        #expect(error?.cause is TransportError)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    /// A captive portal's page, another row, or plain text is not a success.
    static let strange: [(Int, String)] = [
        (200, "<html>Sign in to the hotel</html>"), (200, "{\"ok\":true}"), (201, ""),
        (200, "[]"), (200, serverRow("another", 1)), (200, "null"), (200, serverRow("", 1)),
    ]

    @Test("A malformed success response does not complete an insert", arguments: strange)
    func aMalformedSuccessIsNotASuccess(status: Int, body: String) async throws {
        let transport = ScriptedTransport(otherwise: .json(status, body))
        let device = try await Device(transport)
        try await device.seed([localRow("b", 1), localRow("c", 1)])
        try await device.todos().insert(Todo(id: "a"))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("A captive portal's page does not complete a delete")
    func aPortalsPageIsNotADelete() async throws {
        let transport = ScriptedTransport(otherwise: .json(200, "<html></html>"))
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.queue() == ["delete a attempted"])
    }

    @Test("A delete succeeds if the response contains the deleted row")
    func aDeleteMayBeAnsweredWithTheRow() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        transport.add(.json(200, serverRow("a", 2, deleted: true)))
        #expect(try await device.push() == nil)
    }

    @Test("A delete of a row that is already deleted succeeds", arguments: [404, 410])
    func aDeleteOfADeletedRowSucceeds(status: Int) async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        transport.add(.status(status))
        if status >= 400 { transport.add(page([])) }
        #expect(try await device.context.push().completed == 1)
        #expect(try await device.queue() == [])
    }

    @Test("An empty 404 from a gateway does not complete a delete")
    func anEmpty404OfAnotherServerIsNotADelete() async throws {
        let transport = ScriptedTransport(otherwise: .status(404))
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        #expect(try await device.push()?.status == .networkFailure)
        #expect(transport.sent[1].target.hasPrefix("/tables/Todo?$filter=id%20eq%20"))
        #expect(try await device.queue() == ["delete a attempted"])
    }

    @Test("A cancelled push leaves its operation in the queue")
    func aCancelledPushEndsAndLosesNothing() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        let push = Mutex<Task<PushError?, any Error>?>(nil)
        transport.add(
            .run { _ in
                try await until { push.withLock({ $0 }) != nil }
                push.withLock { $0 }?.cancel()
                return .status(503)
            }
        )
        let task = Task { try await device.push() }
        push.withLock { $0 = task }
        let error = try await task.value
        #expect(error?.status == .cancelled)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("The version of a row is read from the ETag if the body has none")
    func theVersionMayBeInTheETag() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(
            .json(201, #"{"id":"a","text":"","complete":false}"#, ["ETag": "\"v\\\"5\""]),
            .json(200, #"{"id":"a","text":"x","complete":false}"#, ["ETag": "\"v6\""])
        )
        #expect(try await device.push() == nil)
        try await device.todos().update(id: "a") { $0.text = "x" }
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].ifMatch == "\"v\\\"5\"")
        #expect(try await device.rows().first?.version == "v6")
    }

    /// A server that fails to process every batch for a while.
    private final class FailingServer: Transport {
        private let inner: any Transport
        private let isFailing = Mutex(false)

        init(_ inner: any Transport) { self.inner = inner }

        func fail(_ fails: Bool) { isFailing.withLock { $0 = fails } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.url.path().hasSuffix("/$batch"), isFailing.withLock({ $0 }) else {
                return try await inner.send(request)
            }
            let problem = #"{"title":"Internal Server Error","status":500}"#
            let body = #"{"responses":[{"id":"1","status":500,"body":\#(problem)}]}"#
            return TransportResponse(status: 200, body: Array(body.utf8))
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    /// Found by the simulation, seed 10301.
    @Test("A row from a pull stays even if an older response says that it left its query")
    func anOlderAnswerLeavesTheQuery() async throws {
        // Each commit is later than the one before.
        try await withRestorableServer { server in
            let tap = BatchTap(server)
            let failing = FailingServer(tap)
            let device = try await Device(failing, conflicts: .serverWins)
            let other = try await Device(server)
            try await other.client.table(Todo.self).insert(Todo(id: "a", text: "first"))
            func pull() async throws {
                try await device.todos().pull(queryID: "open", where: { !$0.complete })
            }
            try await pull()
            // The row leaves the query on the server, and the answer is lost.
            try await device.todos().update(id: "a") { $0.complete = true }
            tap.add(.dropAnswer)
            _ = try await device.push()
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try await other.client.table(Todo.self).update(id: "a") { row in
                row.complete = false
                row.text = "theirs"
            }
            // A pull shows that the row is back, while the operation is pending.
            failing.fail(true)
            try? await pull()
            failing.fail(false)
            // The stored answer to the first operation arrives, and the second operation gives way.
            #expect(try await device.push() == nil)
            for _ in 0..<2 { try await pull() }
            let row = try #require(try await device.todos().read(id: "a"))
            #expect(row.text == "theirs" && !row.complete)
        }
    }
}

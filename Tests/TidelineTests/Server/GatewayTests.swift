// A gateway that answers instead of the server: its answers drop no row and no edit.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct GatewayTests {
    /// Passes reads to the server, and answers writes itself while it is closed.
    private final class Gateway: Transport {
        private let inner: any Transport
        private let closed: Mutex<TransportResponse?>
        /// Only writes that contain this text are answered by the gateway.
        private let trigger: String?

        init(_ inner: any Transport, trigger: String? = nil) {
            self.inner = inner
            self.trigger = trigger
            closed = Mutex(nil)
        }

        func close(_ answer: TransportResponse) { closed.withLock { $0 = answer } }
        func open() { closed.withLock { $0 = nil } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.method != "GET", let answer = closed.withLock({ $0 }) else {
                return try await inner.send(request)
            }
            if request.url.path().hasSuffix("/$batch") { return TransportResponse(status: 404) }
            let text = request.url.path() + String(decoding: request.body ?? [], as: UTF8.self)
            guard trigger.map(text.contains) ?? true else { return try await inner.send(request) }
            return answer
        }
    }

    /// Answers without a write: no such path, a success without a body, an unknown retry.
    static let answers = [
        TransportResponse(status: 404),
        TransportResponse(status: 204),
        TransportResponse(status: 412, headers: ["Repeatability-Result": "rejected"]),
    ]

    static let policies: [ConflictPolicy] = [
        .fail, .serverWins, .clientWins, .merge, .custom { _ in .server },
    ]

    @Test("Inserts stay queued when a gateway responds in place of the server", arguments: policies)
    func insertsThatWereNotExecutedStay(policy: ConflictPolicy) async throws {
        for answer in Self.answers {
            let server = try await makeServer()
            let gateway = Gateway(server.transport)
            let device = try await Device(gateway, conflicts: policy)
            for id in ["a", "b", "c"] {
                try await device.todos().insert(Todo(id: id, text: "mine"))
            }
            gateway.close(answer)
            for _ in 1...2 {
                let error = try #require(try await device.push())
                #expect(error.status == .networkFailure)
                #expect(error.completed == 0)
                #expect(error.errors.isEmpty)
                #expect((error.cause as? SyncError)?.statusCode == answer.status)
            }
            #expect(!device.waits.all.isEmpty)
            #expect(try await device.rows().map { $0["text"] } == ["mine", "mine", "mine"])
            #expect(try await device.context.pendingOperations().count == 3)
            gateway.open()
            #expect(try await device.context.push().completed == 3)
            #expect(try await device.rows().allSatisfy { $0.version != nil })
        }
    }

    @Test(
        "An edit stays queued when a gateway responds in place of the server",
        arguments: policies
    )
    func editsThatWereNotExecutedStay(policy: ConflictPolicy) async throws {
        for answer in Self.answers {
            let server = try await makeServer()
            let gateway = Gateway(server.transport)
            let device = try await Device(gateway, conflicts: policy)
            try await device.todos().insert(Todo(id: "a", text: "first"))
            try await device.context.push()
            try await device.todos().update(id: "a") { $0.text = "mine" }
            gateway.close(answer)
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure)
            #expect(error.errors.isEmpty)
            #expect((error.cause as? SyncError)?.statusCode == answer.status)
            #expect(try await device.todos().read(id: "a")?.text == "mine")
            gateway.open()
            #expect(try await device.context.push().completed == 1)
            #expect(try await device.client.table(Todo.self).read(id: "a")?.text == "mine")
        }
    }

    @Test(
        "A delete stays queued when a gateway responds in place of the server",
        arguments: policies,
        [false, true]
    )
    func deletesThatWereNotExecutedStay(policy: ConflictPolicy, isNextRun: Bool) async throws {
        for answer in Self.answers + [TransportResponse(status: 200)] {
            let server = try await makeServer()
            let gateway = Gateway(server.transport)
            var device = try await Device(gateway, conflicts: policy)
            try await device.todos().insert(Todo(id: "a", text: "first"))
            try await device.context.push()
            try await device.todos().delete(id: "a")
            if isNextRun {
                device = try await Device(gateway, store: device.store, conflicts: policy)
            }
            gateway.close(answer)
            #expect(try await device.push()?.status == .networkFailure)
            #expect(try await device.rows().isEmpty)
            gateway.open()
            #expect(try await device.context.push().completed == 1)
            #expect(try await device.client.table(Todo.self).read(id: "a") == nil)
        }
    }

    @Test("An operation that a gateway intercepts does not block other rows")
    func aRowThatIsNotExecutedDoesNotBlockOthers() async throws {
        let server = try await makeServer()
        let gateway = Gateway(server.transport, trigger: "poison")
        let device = try await Device(gateway, conflicts: .serverWins)
        try await device.todos().insert(Todo(id: "a", text: "poison"))
        for id in ["b", "c"] { try await device.todos().insert(Todo(id: id, text: "fine")) }
        gateway.close(TransportResponse(status: 204))
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure)
        #expect(error.completed == 2)
        #expect(try await device.context.pendingOperations().map(\.itemID) == ["a"])
        #expect(try await device.todos().read(id: "a")?.text == "poison")
    }

    // MARK: - Incomplete rows

    /// Incomplete rows that a success may return.
    static let parts = [
        #"{"id":"a"}"#,
        #"{"id":"a","version":"v2"}"#,
        #"{"id":"a","text":"mine","version":"v2"}"#,
    ]

    @Test(
        "A success response with an incomplete row is followed by a read of the row",
        arguments: parts,
        [true, false]
    )
    func anIncompleteRowIsReadAgain(part: String, isInsert: Bool) async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        if isInsert {
            try await device.todos().insert(
                Todo(id: "a", text: "mine", complete: true, rank: 3)
            )
        } else {
            var row = localRow("a", 1, rank: 3)
            row["complete"] = true
            try await device.seed([row])
            try await device.todos().update(id: "a") { $0.text = "mine" }
        }
        let whole = serverRow("a", 2, text: "mine", rank: 3).replacing(
            "\"complete\":false",
            with: "\"complete\":true"
        )
        transport.add(.json(isInsert ? 201 : 200, part), .json(200, whole))
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == [isInsert ? "POST" : "PATCH", "GET"])
        let todo = try #require(try await device.todos().read(id: "a"))
        #expect(todo.text == "mine" && todo.complete && todo.rank == 3 && todo.version == "v2")
    }

    @Test(
        "A 409 or 412 without the server's changed row is not a conflict",
        arguments: [409, 412],
        [
            #"{"id":"a","version":"v2"}"#,
            #"{"id":"a","text":"theirs","version":"v2"}"#,
            #"{"id":"a","text":"Milk","complete":false,"rank":3,"version":"v1"}"#,
        ]
    )
    func aRejectionWithoutTheRowIsNotAConflict(status: Int, part: String) async throws {
        for policy in Self.policies {
            let server = try await makeServer()
            let gateway = Gateway(server.transport)
            let device = try await Device(gateway, conflicts: policy)
            try await device.todos().insert(Todo(id: "a", text: "Milk", rank: 3))
            try await device.context.push()
            try await device.todos().update(id: "a") { $0.text = "mine" }
            let version = try #require(try await device.todos().read(id: "a")?.version)
            gateway.close(
                TransportResponse(
                    status: status,
                    headers: ["Content-Type": "application/json"],
                    body: Array(part.replacing("v1", with: version).utf8)
                )
            )
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure)
            #expect(error.errors.isEmpty)
            let todo = try #require(try await device.todos().read(id: "a"))
            #expect(todo.text == "mine" && todo.rank == 3)
            gateway.open()
            #expect(try await device.context.push().completed == 1)
            #expect(try await device.client.table(Todo.self).read(id: "a")?.text == "mine")
        }
    }

    @Test("The local row stays unchanged if no response contains the complete row")
    func aRowThatIsNeverReturnedChangesNothing() async throws {
        let transport = ScriptedTransport(otherwise: .json(200, #"{"id":"a"}"#))
        let device = try await Device(transport, conflicts: .serverWins)
        try await device.todos().insert(Todo(id: "a", text: "mine", complete: true))
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure)
        #expect((error.cause as? SyncError)?.statusCode == 200)
        #expect(try await device.todos().read(id: "a")?.text == "mine")
        #expect(try await device.queue() == ["insert a attempted"])
    }
}

// Unknown outcomes: the state that is stored with an operation, and the follow-up reads.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct OutcomeTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy = .fail) async throws -> Device {
        try await Device(transport, conflicts: policy)
    }

    @Test("An insert that arrived succeeds even if another device then deleted its row")
    func anInsertThatWasDeletedSinceSucceeds() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.lost, .json(409, serverRow("a", 2, text: "mine", deleted: true)))
        _ = try await device.push()
        #expect(try await device.push() == nil)
        #expect(try await device.rows().isEmpty)
        #expect(try await device.queue().isEmpty)
    }

    /// Device A's insert arrived, its answer was lost, device B deleted the row, and A edits it: under `.fail` only the
    /// app restores it.
    @Test("An edit does not restore a row that another device deleted")
    func anEditDoesNotRestoreADeletedRow() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        let tombstone = ScriptedTransport.Answer.json(
            409,
            serverRow("a", 2, text: "mine", deleted: true)
        )
        transport.add(.lost)
        _ = try await device.push()
        for text in ["edited", "again"] {
            try await device.todos().update(id: "a") { $0.text = text }
            // The insert succeeded and the row was deleted; the edit meets the tombstone.
            if text == "edited" { transport.add(tombstone) }
            transport.add(.json(410, #"{"error":"Deleted."}"#))
            #expect(try await device.push()?.status == .operationErrors)
        }
        let error = try #require(try await device.context.operationErrors().first)
        try await error.updateOperationAndRetry(with: Todo(id: "a", text: "back"))
        transport.add(tombstone, .json(200, serverRow("a", 3, text: "back")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.method == "PUT")
    }

    /// The insert arrived, its answer was lost, and the retry was rejected for another reason: the delete applies to
    /// the row on the server, whose version is read first.
    @Test(
        "The delete of an insert that may have arrived first reads the row's version",
        arguments: [200, 410, 404]
    )
    func theDeleteOfAnInsertThatMayHaveArrivedIsSent(status: Int) async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.lost, .status(403))
        _ = try await device.push()
        #expect(try await device.push()?.status == .operationErrors)
        try await device.todos().delete(id: "a")
        #expect(try await device.queue() == ["delete a"])
        let row = serverRow("a", 5, text: "mine")
        let isGone = #"{"error":"It is not there.","code":"noSuchRow"}"#
        transport.add(.json(status, status == 200 ? row : isGone))
        if status == 200 { transport.add(.status(204)) }
        #expect(try await device.push() == nil)
        #expect(try await device.queue().isEmpty)
        #expect(transport.sent[2].description.hasPrefix("GET /tables/Todo/a?"))
        #expect(transport.sent.count == (status == 200 ? 4 : 3))
        if status == 200 {
            #expect(transport.sent[3].description == "DELETE /tables/Todo/a \"v5\" -")
        }
    }

    @Test("The delete of a row that another device changed is a conflict")
    func theDeleteOfARowThatAnotherDeviceChangedIsAConflict() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.lost, .status(403))
        _ = try await device.push()
        _ = try await device.push()
        try await device.todos().delete(id: "a")
        transport.add(.json(200, serverRow("a", 5, text: "theirs")))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.kind == .delete)
        #expect(error.serverItem?["text"] == "theirs")
    }

    @Test(
        "An edit is sent as an update if its rejected insert had arrived",
        arguments: [ConflictPolicy.fail, .serverWins, .clientWins]
    )
    func anEditMeetsItsOwnEarlierState(policy: ConflictPolicy) async throws {
        let device = try await device(policy)
        try await device.todos().insert(Todo(id: "a", text: "one", rank: 1))
        transport.add(.lost, .status(422))
        _ = try await device.push()
        _ = try await device.push()
        try await device.todos().update(id: "a") { $0.text = "two" }
        transport.add(
            .json(409, serverRow("a", 1, text: "one", rank: 1)),
            .json(200, serverRow("a", 2, text: "two", rank: 1))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[3].description == "PATCH /tables/Todo/a \"v1\" {\"text\":\"two\"}")
        #expect(try await device.rows() == [localRow("a", 2, text: "two", rank: 1)])
    }

    @Test("A 204 response to an insert or update is followed by a read of the row")
    func aSuccessWithoutARowIsRead() async throws {
        let device = try await device()
        try await device.seed([localRow("b", 1)])
        try await device.todos().insert(Todo(id: "a", text: "new"))
        try await device.todos().update(id: "b") { $0.text = "mine" }
        transport.add(
            .status(204),
            .json(200, serverRow("a", 1, text: "new")),
            .status(204),
            .json(200, serverRow("b", 3, text: "newer still"))
        )
        #expect(try await device.context.push().completed == 2)
        #expect(transport.sent.map(\.method) == ["POST", "GET", "PATCH", "GET"])
        #expect(
            try await device.rows() == [
                localRow("a", 1, text: "new"), localRow("b", 3, text: "newer still"),
            ]
        )
    }

    @Test("An update is sent again if the server responded with 204 but wrote nothing")
    func aSuccessThatWroteNothingIsRetried() async throws {
        let device = try await device()
        try await device.seed([localRow("b", 1)])
        try await device.todos().update(id: "b") { $0.text = "mine" }
        transport.add(
            .status(204),
            .json(200, serverRow("b", 1)),
            .json(200, serverRow("b", 2, text: "mine"))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == ["PATCH", "GET", "PATCH"])
        #expect(transport.sent[0].requestID != transport.sent[2].requestID)
    }

    /// 412 with `Repeatability-Result: rejected`: the server no longer knows the outcome.
    @Test("A follow-up read finds the outcome that the server no longer knows")
    func theRowDecidesARejectedRetry() async throws {
        let rejected = ScriptedTransport.Answer.status(412, ["Repeatability-Result": "rejected"])
        let device = try await device()
        try await device.seed([localRow("b", 1), localRow("c", 1), localRow("d", 1)])
        try await device.todos().update(id: "b") { $0.text = "mine" }
        try await device.todos().update(id: "c") { $0.text = "mine" }
        try await device.todos().update(id: "d") { $0.text = "mine" }
        transport.add(
            rejected,
            .json(200, serverRow("b", 2, text: "mine")),
            rejected,
            .json(200, serverRow("c", 1)),
            .json(200, serverRow("c", 2, text: "mine")),
            rejected,
            .json(200, serverRow("d", 2, text: "theirs"))
        )
        let error = try #require(try await device.push())
        #expect(error.completed == 2)
        #expect(error.errors.map(\.itemID) == ["d"])
        #expect(error.errors.first?.serverItem?["text"] == "theirs")
    }

    @Test("An operation has the same idempotency key across attempts and restarts")
    func requestIDsAreKept() async throws {
        try await withTemporaryFile { path in
            let first = try await Device(transport, store: SQLiteStore(path: path))
            try await first.todos().insert(Todo(id: "a", text: "one"))
            transport.add(.lost)
            _ = try await first.push()
            let second = try await Device(transport, store: SQLiteStore(path: path))
            transport.add(.status(503), .json(201, serverRow("a", 1, text: "one")))
            #expect(try await second.push() == nil)
            try await second.todos().update(id: "a") { $0.text = "two" }
            transport.add(.json(200, serverRow("a", 2, text: "two")))
            #expect(try await second.push() == nil)
            let ids = transport.sent.map(\.requestID)
            #expect(Set(ids[0...2]).count == 1)
            #expect(UUID(uuidString: ids[0] ?? "") != nil)
            #expect(ids[3] != ids[0])
        }
    }

    @Test("A push sends a row that is edited continuously at most twice")
    func aRowThatIsEditedContinuouslyDoesNotProlongThePush() async throws {
        let turns = Turns()
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        let todos = try device.todos()
        try await todos.update(id: "a") { $0.rank = 0 }
        for status in [400, 400, 400, 200, 200, 200] {
            transport.add(
                .run { _ in
                    let turn = turns.next()
                    try await todos.update(id: "a") { $0.rank = turn }
                    return status == 400
                        ? .status(400) : .json(200, serverRow("a", turn + 1, rank: turn - 1))
                }
            )
        }
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 2)
        #expect(try await device.queue() == ["update a"])
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 4)
        #expect(try await device.queue() == ["update a"])
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 6)
        #expect(try await device.queue() == ["update a"])
    }

    @Test("An operation that the server cannot process does not block other rows")
    func aFailingOperationIsSentAfterTheOthers() async throws {
        let failing = ScriptedTransport.Answer.run { request in
            request.body?.contains("poison") == true
                ? .status(500)
                : .json(201, serverRow(request.body?.contains("\"b\"") == true ? "b" : "c", 1))
        }
        let transport = ScriptedTransport(otherwise: failing)
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "poison"))
        try await device.todos().insert(Todo(id: "b"))
        try await device.todos().insert(Todo(id: "c"))
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure)
        #expect(error.completed == 2)
        #expect(error.errors.isEmpty)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("A push that starts reports its end on every path")
    func everyPushThatBeginsEnds() async throws {
        for answer in [
            ScriptedTransport.Answer.lost, .status(401), .status(400), .broken,
            .json(201, serverRow("a", 1)),
        ] {
            let device = try await Device(ScriptedTransport([answer]))
            try await device.todos().insert(Todo(id: "a"))
            var events = device.context.events.makeAsyncIterator()
            _ = try await device.push()
            #expect(try await events.next() == .pushStarted(pending: 1))
            while let event = try await events.next() {
                if event.kind == .pushFinished { break }
            }
        }
        let device = try await Device(
            transport,
            endpoint: try #require(URL(string: "http://example.com"))
        )
        try await device.todos().insert(Todo(id: "a"))
        var events = device.context.events.makeAsyncIterator()
        #expect(await code { _ = try await device.push() } == .insecureEndpoint)
        #expect(try await events.next() == .pushStarted(pending: 1))
        #expect(try await events.next() == .pushFinished(completed: 0, parked: 0))
    }

    @Test("The description of 40 errors is shorter than 1,500 characters")
    func theDescriptionOfManyErrorsIsShort() async throws {
        let transport = ScriptedTransport(
            otherwise: .json(400, "{\"error\":\"\(String(repeating: "x", count: 5000))\"}")
        )
        let device = try await Device(transport)
        for number in 0..<40 { try await device.todos().insert(Todo(id: "\(number)")) }
        let error = try #require(try await device.push())
        #expect(error.errors.count == 40)
        #expect(error.description.count < 1500)
        #expect(error.description.contains("37 more"))
    }

    /// Found by the simulation, seed 1361.
    @Test(
        "An insert that was edited after a lost attempt is not dropped if its row was deleted",
        arguments: [ConflictPolicy.fail, .merge, .clientWins]
    )
    func editedSinceTheAttempt(policy: ConflictPolicy) async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, conflicts: policy)
        try await device.todos().insert(Todo(id: "a", text: "first"))
        // The request arrives, and its answer is lost; a proxy then rejects the same request.
        transport.add(.lost)
        _ = try await device.push()
        transport.add(.json(403, #"{"title":"Forbidden","status":403}"#))
        #expect(try await device.push()?.errors.map(\.itemID) == ["a"])
        try await device.todos().update(id: "a") { $0.text = "second" }
        transport.add(
            .json(409, serverRow("a", 3, text: "first", deleted: true)),
            .json(200, serverRow("a", 4, text: "second"))
        )
        let error = try await device.push()
        #expect(try await device.todos().read(id: "a")?.text == "second")
        if policy == .clientWins {
            #expect(error == nil)
            #expect(transport.sent.last?.method == "PUT")
        } else {
            #expect(error?.errors.map(\.serverCopy) == [.deleted])
        }
    }
}

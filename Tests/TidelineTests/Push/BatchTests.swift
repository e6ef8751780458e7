// Push in batches: the contents of a batch, the effect of each answer, interrupted batches, and servers without
// batches.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct BatchTests {
    private func filled(_ device: Device, _ count: Int) async throws {
        for number in 0..<count {
            try await device.todos().insert(Todo(id: "row \(number)", text: "text \(number)"))
        }
    }

    private func limits(_ rows: Int) -> SyncLimits {
        var limits = SyncLimits()
        limits.batchRowsFirst = rows
        limits.batchRowsMax = rows * 4
        return limits
    }

    @Test("Batches grow while they succeed and contain the operations of all tables")
    func aQueueIsSentInGrowingBatches() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport)
        let device = try await Device(transport, limits: limits(2))
        try await filled(device, 9)
        try await device.client.syncTable(Note.self).insert(Note(id: "note", body: "x"))
        #expect(try await device.context.push().completed == 10)
        #expect(transport.sizes == [2, 4, 4])
        #expect(try await device.queue().isEmpty)
        #expect(try await device.rows().allSatisfy { $0.version != nil })
        #expect(try await device.rows("Note").first?.version != nil)
    }

    @Test("The byte limit of a batch reduces its number of operations")
    func aLargeBodyMakesSmallBatches() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport)
        var limits = limits(100)
        limits.batchBytesMax = 1000
        let device = try await Device(transport, limits: limits)
        for number in 0..<5 {
            let text = String(repeating: "x", count: number == 2 ? 5000 : 400)
            try await device.todos().insert(Todo(id: "\(number)", text: text))
        }
        #expect(try await device.push() == nil)
        #expect(transport.sizes == [2, 2])
    }

    @Test("No operation is executed twice if a batch is interrupted at any point", arguments: 0...6)
    func aBatchMayBeInterruptedAnywhere(arrived: Int) async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport, [.cut(arrived)])
        let device = try await Device(transport, limits: limits(6))
        try await filled(device, 6)
        #expect(try await device.context.push().completed == 6)
        let rows = try await device.client.table(Todo.self).read()
        #expect(rows.count == 6)
        #expect(try await device.queue().isEmpty)
        #expect(transport.sizes.first == 6)
        // The server keeps the first version of the executed operations: none was executed twice.
        let local = try await device.todos().read()
        #expect(Set(local.map(\.version)) == Set(rows.map(\.version)))
    }

    @Test("Only the operations without a response are sent again after a partial batch")
    func unansweredRequestsAreSentAgain() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport, [.partial(2)])
        let device = try await Device(transport, limits: limits(5))
        try await filled(device, 5)
        #expect(try await device.context.push().completed == 5)
        #expect(transport.sizes == [5, 3])
    }

    @Test("A batch whose responses exceed the limit continues with smaller batches at once")
    func largeAnswersMakeSmallBatches() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport, answersMax: 2)
        let device = try await Device(transport, limits: limits(12))
        try await filled(device, 12)
        #expect(try await device.context.push().completed == 12)
        #expect(transport.sizes.prefix(4) == [12, 2, 4, 2])
        #expect(device.waits.all.isEmpty)
        #expect(try await device.queue().isEmpty)
        #expect(try await device.client.table(Todo.self).read().count == 12)
    }

    @Test("A push ends if the server has no space for a single response of a batch")
    func aBatchWithoutSpaceForOneAnswerEndsThePush() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport, answersMax: 0)
        let device = try await Device(transport, limits: limits(12))
        try await filled(device, 3)
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.queue().count == 3)
    }

    @Test("Each operation of a batch has its own outcome")
    func eachOperationHasItsOwnOutcome() async throws {
        let script = ScriptedTransport()
        let transport = BatchAdapter(script)
        let device = try await Device(transport)
        try await device.seed([localRow("b", 1), localRow("c", 1)])
        try await device.todos().insert(Todo(id: "a", text: "new"))
        try await device.todos().update(id: "b") { $0.text = "mine" }
        try await device.todos().delete(id: "c")
        try await device.todos().insert(Todo(id: "d", text: "bad"))
        script.add(
            .json(201, serverRow("a", 1, text: "new")),
            .json(412, serverRow("b", 2)),
            .status(204),
            .json(422, #"{"error":"too long"}"#)
        )
        let error = try #require(try await device.push())
        #expect(error.completed == 2)
        #expect(error.errors.map(\.itemID) == ["b", "d"])
        #expect(error.errors.map(\.statusCode) == [412, 422])
        #expect(transport.sizes == [4])
        #expect(script.sent.allSatisfy { $0.requestID != nil })
        #expect(Set(script.sent.map(\.requestID)).count == 4)
    }

    @Test("An edit made during a batch is sent next") func anEditDuringABatchIsKept() async throws {
        let script = ScriptedTransport()
        let transport = BatchAdapter(script)
        let device = try await Device(transport)
        let todos = try device.todos()
        try await filled(device, 3)
        script.add(
            .json(201, serverRow("row 0", 1, text: "text 0")),
            .run { _ in
                try await todos.update(id: "row 0") { $0.rank = 5 }
                return .json(201, serverRow("row 1", 1, text: "text 1"))
            },
            .json(201, serverRow("row 2", 1, text: "text 2")),
            .json(200, serverRow("row 0", 2, text: "text 0", rank: 5))
        )
        #expect(try await device.push() == nil)
        #expect(script.sent.last?.description == "PATCH /tables/Todo/row%200 \"v1\" {\"rank\":5}")
    }

    /// The second operation is based on the response to the first one.
    @Test("A batch contains at most one operation of a row")
    func twoOperationsOfARowAreTwoRequests() async throws {
        let script = ScriptedTransport([.lost])
        let transport = BatchAdapter(script)
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "one"))
        _ = try await device.push()
        try await device.todos().update(id: "a") { $0.text = "two" }
        try await device.todos().insert(Todo(id: "b"))
        script.add(
            .json(201, serverRow("a", 1, text: "one")),
            .json(200, serverRow("a", 2, text: "two")),
            .json(201, serverRow("b", 1))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sizes == [2])
        #expect(script.sent[2].ifMatch == "\"v1\"")
    }

    static let noBatches: [TransportResponse] = [
        TransportResponse(status: 404), TransportResponse(status: 405),
        TransportResponse(status: 501), TransportResponse(status: 200, body: Array("<p>".utf8)),
        TransportResponse(status: 200, body: Array("{}".utf8)), TransportResponse(status: 400),
    ]

    @Test(
        "The client remembers across restarts that a server does not support batches",
        arguments: 0..<6
    )
    func thatAServerHasNoBatchesIsStored(index: Int) async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let transport = BatchAdapter(server.transport, [.answer(Self.noBatches[index])])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await filled(device, 3)
            #expect(try await device.context.push().completed == 3)
            #expect(transport.sizes == [3])
            let restarted = try await Device(transport, store: SQLiteStore(path: path))
            for number in 10..<13 { try await restarted.todos().insert(Todo(id: "\(number)")) }
            #expect(try await restarted.push() == nil)
            #expect(transport.sizes == [3])
            var limits = SyncLimits()
            limits.batchRetryTime = .zero
            let later = try await Device(
                BatchAdapter(server.transport, [.answer(Self.noBatches[index])]),
                limits: limits
            )
            try await filled(later, 3)
            _ = try await later.push()
            for number in 20..<23 { try await later.todos().insert(Todo(id: "\(number)")) }
            #expect(try await later.push()?.status != .networkFailure)
        }
    }

    @Test("A batch that is rejected with 413 is sent again in smaller batches")
    func aBatchThatIsTooLargeBecomesSmaller() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(
            server.transport,
            [.answer(TransportResponse(status: 413)), .answer(TransportResponse(status: 413))]
        )
        let device = try await Device(transport, limits: limits(40))
        try await filled(device, 12)
        #expect(try await device.push() == nil)
        #expect(transport.sizes == [12, 10, 2, 4, 6])
    }

    @Test("A response that matches no request of the batch is ignored")
    func anAnswerThatMatchesNoRequestIsIgnored() async throws {
        let server = try await makeServer()
        let body = #"{"responses":[{"id":"-9223372036854775808","status":200}]}"#
        let answer = TransportResponse(status: 200, body: Array(body.utf8))
        let device = try await Device(BatchAdapter(server.transport, [.answer(answer)]))
        try await filled(device, 3)
        #expect(try await device.push() == nil)
    }

    @Test("A batch is retried with increasing waits after 503 and 429")
    func aBatchIsRetriedOnABusyServer() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(
            server.transport,
            [.answer(TransportResponse(status: 503)), .answer(TransportResponse(status: 429))]
        )
        let device = try await Device(transport)
        try await filled(device, 3)
        #expect(try await device.push() == nil)
        #expect(transport.sizes == [3, 3, 3])
        #expect(device.waits.all == [.milliseconds(500), .seconds(1)])
    }

    @Test("A lost request loses no response of the requests sent in parallel")
    func singleRequestsMayOverlap() async throws {
        var limits = SyncLimits()
        limits.parallelOperations = 4
        let transport = ScriptedTransport(
            otherwise: .run { request in
                let id = (0..<10).first { request.body?.contains("\"row \($0)\"") == true } ?? 0
                return id == 6 ? .lost : .json(201, serverRow("row \(id)", id + 1))
            }
        )
        let device = try await Device(transport, limits: limits)
        try await filled(device, 10)
        #expect(try await device.push()?.status == .networkFailure)
        #expect(transport.sent.count == 8)
        #expect(
            try await device.queue() == [
                "insert row 6 attempted", "insert row 8 attempted", "insert row 9 attempted",
            ]
        )
    }

    @Test("A queue of 700 operations is sent in batches of at most 200")
    func aLongQueueIsSentInSlices() async throws {
        let server = try await makeServer()
        let transport = BatchAdapter(server.transport)
        let device = try await Device(transport, limits: limits(50))
        try await filled(device, 700)
        #expect(try await device.context.push().completed == 700)
        #expect(transport.sizes == [50, 100, 200, 200, 150])
    }
}

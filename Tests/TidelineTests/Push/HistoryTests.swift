// Sequences of events in which a change could get lost: each was constructed to break a guarantee.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct HistoryTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy = .fail) async throws -> Device {
        try await Device(transport, conflicts: policy)
    }

    /// The insert arrived, its response was lost, and another device changed the row before the delete.
    @Test(
        "A delete after an insert with a lost response deletes a row that has changed since",
        arguments: [ConflictPolicy.fail, .clientWins, .serverWins]
    )
    func aDeleteAfterAnInsertOfUnknownOutcomeIsSent(policy: ConflictPolicy) async throws {
        let device = try await device(policy)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.lost)
        #expect(try await device.push()?.status == .networkFailure)
        try await device.todos().delete(id: "a")
        transport.add(.json(409, serverRow("a", 2, text: "theirs")), .status(204))
        #expect(try await device.push() == nil)
        let last = try #require(transport.sent.last)
        #expect(last.method == "DELETE")
        #expect(last.ifMatch == "\"v2\"")
        #expect(try await device.rows().isEmpty)
    }

    @Test("An edit that reverts an operation in flight does not overwrite the server's row")
    func anEditRevertedInFlightOverwritesNothing() async throws {
        let device = try await device(.serverWins)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        try await device.todos().update(id: "a") { $0.text = "new" }
        transport.add(
            .run { _ in
                try await device.todos().update(id: "a") {
                    $0.text = "old"
                    $0.rank = 2
                }
                return .json(412, serverRow("a", 2, text: "theirs", rank: 1))
            },
            .json(200, serverRow("a", 3, text: "theirs", rank: 2))
        )
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.description == "PATCH /tables/Todo/a \"v2\" {\"rank\":2}"
        )
        #expect(try await device.todos().read(id: "a")?.text == "theirs")
    }

    @Test("A reverted value does not overwrite a row that another device restored")
    func anEditRevertedAfterADeletionOverwritesNothing() async throws {
        let device = try await device(.serverWins)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        try await device.todos().update(id: "a") { $0.text = "new" }
        transport.add(
            .run { _ in
                try await device.todos().update(id: "a") { $0.text = "newer" }
                return .json(410, #"{"error":"Gone."}"#)
            },
            .run { _ in
                try await device.todos().update(id: "a") {
                    $0.text = "old"
                    $0.rank = 2
                }
                return .json(412, serverRow("a", 3, text: "theirs", rank: 1))
            },
            .json(200, serverRow("a", 4, text: "theirs", rank: 2))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].ifMatch == "\"v1\"")
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.description == "PATCH /tables/Todo/a \"v3\" {\"rank\":2}"
        )
        #expect(try await device.todos().read(id: "a")?.text == "theirs")
    }

    @Test("Reverting a parked update removes the row if its tombstone was pulled")
    func aTombstoneOfARowWithAParkedOperationIsKept() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1, text: "old")])
        try await device.todos().update(id: "a") { $0.text = "new" }
        transport.add(.status(403))
        #expect(try await device.push()?.status == .operationErrors)
        transport.add(page([serverRow("a", 2, deleted: true)]))
        try await device.todos().pull(queryID: "all")
        try await device.todos().update(id: "a") { $0.text = "old" }
        #expect(try await device.push() == nil)
        #expect(try await device.rows().isEmpty)
        #expect(try await device.queue().isEmpty)
    }

    @Test("An insert and a delete that were never sent do not remove another device's row")
    func anotherDevicesRowOutlivesAnInsertThatWasNeverSent() async throws {
        let device = try await device()
        transport.add(
            .run { _ in
                // The page is being received while the app inserts a row with the same id.
                try await device.todos().insert(Todo(id: "settings", text: "mine"))
                return page([serverRow("settings", 1, text: "theirs")])
            }
        )
        try await device.todos().pull(queryID: nil)
        try await device.todos().delete(id: "settings")
        #expect(try await device.queue().isEmpty)
        #expect(try await device.rows().map { $0["text"] } == ["theirs"])
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 1)
    }

    @Test(
        "An insert over a tombstone restores the row after a 503 response",
        arguments: [ConflictPolicy.fail, .clientWins, .serverWins]
    )
    func aRowInsertedAgainIsRestoredAfterABusyServer(policy: ConflictPolicy) async throws {
        let device = try await device(policy)
        try await device.todos().insert(Todo(id: "a", text: "second life"))
        transport.add(
            .status(503),
            .json(409, serverRow("a", 2, text: "first life", deleted: true)),
            .json(200, serverRow("a", 3, text: "second life"))
        )
        #expect(try await device.push() == nil)
        let last = try #require(transport.sent.last)
        #expect(last.method == "PUT")
        #expect(last.ifMatch == "\"v2\"")
        #expect(try await device.rows().map { $0["text"] } == ["second life"])
    }

    @Test("An edit keeps its older base version when the operation in flight is rejected")
    func anOlderBasisOutlivesARejection() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1, text: "old")])
        transport.add(
            .run { _ in
                var stale = Todo(id: "a", text: "stale")
                stale.version = "v0"
                try await device.todos().update(stale)
                return .status(400)
            },
            .json(412, serverRow("a", 1, text: "old"))
        )
        try await device.todos().update(id: "a") { $0.rank = 1 }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v0\"")
    }

    @Test("A local row without a server row is inserted by its next edit")
    func anItemKeptWithoutAServerRowIsInsertedByItsNextEdit() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "refused"))
        transport.add(.status(400))
        let error = try #require(try await device.push()?.errors.first)
        try await error.cancelOperationAndUpdateItem(Todo(id: "a", text: "kept"))
        try await device.todos().update(id: "a") { $0.text = "edited" }
        transport.add(.json(201, serverRow("a", 1, text: "edited")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.method == "POST")
    }

    @Test("Operations are retried after a proxy responds with an HTML page", arguments: [404, 410])
    func anOperationIsRetriedAfterAProxysPage(status: Int) async throws {
        let device = try await device(.serverWins)
        try await device.seed([localRow("a", 1), localRow("b", 1)])
        try await device.todos().delete(id: "a")
        try await device.todos().update(id: "b") { $0.text = "edited" }
        let page = ScriptedTransport.Answer.response(
            status,
            ["Content-Type": "text/html"],
            "<html>nginx</html>"
        )
        let answer = ScriptedTransport.Answer.run {
            $0.method == "DELETE" ? .status(204) : .json(200, serverRow("b", 2, text: "edited"))
        }
        transport.add(page, page, answer, answer, answer, answer)
        for _ in 0..<2 { _ = try await device.push() }
        #expect(try await device.queue().isEmpty)
        #expect(try await device.rows().map { $0["text"] } == ["edited"])
    }

    @Test("Operations of an undeclared table stay queued and do not block other tables")
    func operationsOfAnUnnamedTableWait() async throws {
        let store = MemoryStore()
        let first = try await Device(transport, store: store)
        try await first.client.syncTable(Note.self).insert(Note(id: "n", body: "later"))
        try await first.todos().insert(Todo(id: "a", text: "now"))
        let second = try await Device(transport, store: store, tables: [Todo.self])
        transport.add(.json(201, serverRow("a", 1, text: "now")))
        let left = try #require(try await second.push())
        #expect(left.completed == 1)
        #expect(left.errors.map(\.itemID) == ["n"])
        #expect(try await second.queue() == ["insert n"])
        let third = try await Device(transport, store: store)
        transport.add(.json(201, #"{"id":"n","body":"later","version":"v1"}"#))
        #expect(try await third.push() == nil)
        #expect(try await third.queue().isEmpty)
    }
}

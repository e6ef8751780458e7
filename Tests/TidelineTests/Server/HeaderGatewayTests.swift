// Gateways that drop header fields of requests or responses: sync works without them, and no edit is lost or
// overwritten.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct HeaderGatewayTests {
    /// Drops header fields whose lowercase names begin with one of some texts.
    private struct Gateway: Transport {
        let inner: any Transport
        let request: [String]
        let response: [String]

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            var passed = request
            passed.headers = Self.kept(request.headers, self.request)
            let answer = try await inner.send(passed)
            return TransportResponse(
                status: answer.status,
                headers: Self.kept(answer.headers, response),
                body: answer.body
            )
        }

        private static func kept(_ headers: HTTPFields, _ dropped: [String]) -> HTTPFields {
            var kept = HTTPFields()
            for field in headers
            where !dropped.contains(where: field.name.lowercased().hasPrefix) {
                kept.append(field.name, field.value)
            }
            return kept
        }
    }

    static let requests: [[String]] = [
        [], ["accept"], ["repeatability-"], ["prefer"], ["if-"], ["tideline-"],
        ["repeatability-", "prefer", "if-", "tideline-", "x-"],
    ]
    static let responses: [[String]] = [
        [], ["tideline-"], ["repeatability-"], ["etag"], ["content-type"],
        ["tideline-", "repeatability-", "etag", "last-modified", "location", "x-", "odata-"],
    ]

    @Test(
        "Devices behind a gateway that drops header fields have the same rows as the server",
        arguments: requests,
        responses
    )
    func headerFieldsAreDropped(request: [String], response: [String]) async throws {
        let server = try await makeServer()
        let gateway = Gateway(inner: server.transport, request: request, response: response)
        let device = try await Device(gateway, conflicts: .fail)
        let other = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        let todos = try device.todos()
        for id in ["a", "b", "c"] { try await todos.insert(Todo(id: id, text: "mine")) }
        #expect(try await device.push() == nil)
        try await todos.pull(queryID: "all")
        #expect(try await device.rows().count == 3)
        #expect(try await device.rows().allSatisfy { $0.version != nil })

        // An edit of a row that another device changed is a conflict, and a delete of it too.
        for id in ["a", "b"] {
            let theirs = try #require(try await other.read(id: id))
            _ = try await other.update(theirs.with { $0.text = "theirs" })
        }
        try await todos.update(id: "a") { $0.text = "stale" }
        try await todos.delete(id: "b")
        let error = try #require(try await device.push())
        #expect(error.status == .operationErrors)
        #expect(Set(error.errors.map(\.itemID)) == ["a", "b"])
        #expect(error.errors.allSatisfy { $0.serverItem?["text"] == "theirs" })
        for id in ["a", "b"] { #expect(try await other.read(id: id)?.text == "theirs") }
        for error in error.errors { try await error.cancelOperationAndDiscardItem() }

        // Edits and deletes that are not stale are accepted.
        try await todos.update(id: "a") { $0.text = "newer" }
        try await todos.delete(id: "c")
        #expect(try await device.push() == nil)
        #expect(try await other.read(id: "a")?.text == "newer")
        #expect(try await other.read(id: "c") == nil)
        let last = try #require(try await other.read(id: "b"))
        try await other.delete(last)
        try await todos.pull(queryID: "all")
        #expect(try await device.rows().map(\.id) == ["a"])
        #expect(try await device.queue() == [])
    }

    @Test("A gateway that drops the type of the body parks nothing")
    func contentTypeIsDropped() async throws {
        let server = try await makeServer()
        let store = MemoryStore()
        let gateway = Gateway(inner: server.transport, request: ["content-type"], response: [])
        let behind = try await Device(gateway, store: store)
        for id in ["a", "b", "c"] { try await behind.todos().insert(Todo(id: id, text: "mine")) }
        let error = try #require(try await behind.push())
        #expect(error.status == .networkFailure)
        #expect(error.errors.isEmpty)
        #expect((error.cause as? SyncError)?.statusCode == 415)
        let device = try await Device(server.transport, store: store)
        #expect(try await device.context.push().completed == 3)
    }

    @Test("Behind a gateway that drops 'Prefer', a conflict parks only its own operation")
    func aConflictParksItsOwnOperation() async throws {
        let server = try await makeServer()
        let gateway = Gateway(inner: server.transport, request: ["prefer"], response: [])
        let device = try await Device(gateway, conflicts: .fail)
        let other = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        let taken = [0, 1, 57, 99]
        for number in taken {
            _ = try await other.insert(Todo(id: "row-\(number)", text: "theirs"))
        }
        for number in 0..<100 {
            try await device.todos().insert(Todo(id: "row-\(number)", text: "mine"))
        }
        let error = try #require(try await device.push())
        #expect(error.status == .operationErrors)
        #expect(Set(error.errors.map(\.itemID)) == Set(taken.map { "row-\($0)" }))
        #expect(try await other.count() == 100)
    }
}

extension Todo {
    fileprivate func with(_ change: (inout Todo) -> Void) -> Todo {
        var todo = self
        change(&todo)
        return todo
    }
}

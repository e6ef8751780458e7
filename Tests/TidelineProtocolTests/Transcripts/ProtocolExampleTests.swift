// The example exchanges in docs/protocol.md, checked against the server.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct ProtocolExampleTests {
    @Test("The server matches the example of repeated requests in the protocol document")
    func repeatedRequests() async throws {
        var example = try ProtocolExample("Repeated requests", blocks: 2)
        let server = try await TestServer()
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"tea"}"#)
        let version: HTTPFields = ["If-Match": try #require(created.headers["ETag"])]
        var again = example
        let first = try await example.send(server, replacing: version)
        try example.check(first)
        let second = try await again.send(server, replacing: version)
        try again.check(second)
        #expect(first.body == second.body && first.headers["ETag"] == second.headers["ETag"])
        #expect(example.isEmpty)
    }

    @Test("The server matches the example of a batch in the protocol document")
    func batches() async throws {
        var example = try ProtocolExample("Batches")
        let server = try await TestServer()
        try example.check(try await example.send(server))
        #expect(example.isEmpty)
        #expect(await server.send("GET", "/tables/TodoItem").ids == ["milk"])
    }

    @Test("The server matches the example of a delta in the protocol document") func delta()
        async throws
    {
        var example = try ProtocolExample("Delta")
        let server = try await TestServer()
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let list = try await example.send(server)
        try example.check(list)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"c"}"#)
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        let link = "/tables/TodoItem?" + (list.deltaLink ?? "")
        try example.check(try await example.send(server, target: link))
        #expect(example.isEmpty)
    }

    @Test("The server matches the example of a digest in the protocol document")
    func verify() async throws {
        var example = try ProtocolExample("Verify")
        let server = try await TestServer()
        for id in ["a", "b", "c"] {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        try example.check(try await example.send(server))
        #expect(example.isEmpty)
    }

    /// The head comes from the route, the stream from the event loop.
    @Test("The server matches the example of an event stream in the protocol document")
    func live() async throws {
        var example = try ProtocolExample("Live")
        let server = try await TestServer()
        let answer = try await example.send(server)
        let shown = try example.next(isRequest: false)
        #expect(shown.start == "HTTP/1.1 \(answer.status) OK")
        for field in shown.fields { #expect(answer.headers[field.name] == field.value) }
        let stream = try #require(answer.stream)
        let board = server.handler.service.settings.traffic.events
        var feed = board.attach {}
        var listener = stream.listener(feed)
        var bytes = listener.opening(feed.timestamps)
        _ = await server.send("POST", "/tables/TodoItem", "{}")
        listener.note(feed.refresh())
        bytes += listener.next(feed.timestamps)
        bytes += EventListener.heartbeat
        board.detach(feed)
        let sent = String(decoding: bytes, as: UTF8.self)
        let lines = shown.lines.joined(separator: "\n")
        #expect(ProtocolExample.fits("\n" + sent, lines), "\(sent) is not \(lines)")
        #expect(example.isEmpty)
    }
}

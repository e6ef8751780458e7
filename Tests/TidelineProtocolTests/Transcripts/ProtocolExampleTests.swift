// The example exchanges in docs/PROTOCOL.md, checked against the server.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct ProtocolExampleTests {
    @Test("The server matches the example of repeated requests in the protocol document")
    func repeatedRequests() async throws {
        var example = try ProtocolExample("Repeated requests", blocks: 2)
        let door = try await Door()
        let made = await door.send("POST", "/tables/TodoItem", #"{"id":"a","text":"tea"}"#)
        let version: HTTPFields = ["If-Match": try #require(made.headers["ETag"])]
        var again = example
        let first = try await example.send(door, replacing: version)
        try example.check(first)
        let second = try await again.send(door, replacing: version)
        try again.check(second)
        #expect(first.body == second.body && first.headers["ETag"] == second.headers["ETag"])
        #expect(example.isEmpty)
    }

    @Test("The server matches the example of a batch in the protocol document")
    func batches() async throws {
        var example = try ProtocolExample("Batches")
        let door = try await Door()
        try example.check(try await example.send(door))
        #expect(example.isEmpty)
        #expect(await door.send("GET", "/tables/TodoItem").ids == ["milk"])
    }

    @Test("The server matches the example of a delta in the protocol document") func delta()
        async throws
    {
        var example = try ProtocolExample("Delta")
        let door = try await Door()
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let list = try await example.send(door)
        try example.check(list)
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"c"}"#)
        _ = await door.send("DELETE", "/tables/TodoItem/a")
        let link = "/tables/TodoItem?" + (list.deltaLink ?? "")
        try example.check(try await example.send(door, target: link))
        #expect(example.isEmpty)
    }

    @Test("The server matches the example of a digest in the protocol document")
    func verify() async throws {
        var example = try ProtocolExample("Verify")
        let door = try await Door()
        for id in ["a", "b", "c"] {
            _ = await door.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        try example.check(try await example.send(door))
        #expect(example.isEmpty)
    }

    /// The head comes from the route, the stream from the event loop.
    @Test("The server matches the example of an event stream in the protocol document")
    func live() async throws {
        var example = try ProtocolExample("Live")
        let door = try await Door()
        let answer = try await example.send(door)
        let shown = try example.next(isRequest: false)
        #expect(shown.start == "HTTP/1.1 \(answer.status) OK")
        for field in shown.fields { #expect(answer.headers[field.name] == field.value) }
        let stream = try #require(answer.stream)
        let board = door.handler.service.settings.traffic.events
        var feed = board.attach {}
        var listener = stream.listener(feed)
        var bytes = listener.opening(feed.stamps)
        _ = await door.send("POST", "/tables/TodoItem", "{}")
        listener.mark(feed.refresh())
        bytes += listener.next(feed.stamps)
        bytes += EventListener.heartbeat
        board.detach(feed)
        let sent = String(decoding: bytes, as: UTF8.self)
        let lines = shown.lines.joined(separator: "\n")
        #expect(ProtocolExample.fits("\n" + sent, lines), "\(sent) is not \(lines)")
        #expect(example.isEmpty)
    }
}

// LiveTests: streams of change events over a socket: the events of each listener, and the end of a stream.

import Foundation
import Testing
import Tideline
import TidelineServer

@Suite(.serialized) struct LiveTests {
    private static let secret = "0123456789abcdef0123456789abcdef0123456789abcdef"

    private static func configuration() throws -> ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.database = .memory
        configuration.tables = ["a", "b", "Third"].map {
            TableDefinition($0, columns: [ColumnDefinition("text", .string)])
        }
        configuration.tables[2].softDelete = false
        configuration.log.level = .error
        return configuration
    }

    private struct Running: Sendable {
        var port: Int
        var wire: Wire

        func write(_ table: String, _ id: String = UUID().uuidString) async throws {
            let answer = try await wire.send("POST", "/tables/\(table)", #"{"id":"\#(id)"}"#)
            #expect(answer.status == 201)
        }
    }

    private static func withServer(
        _ configuration: ServerConfiguration,
        _ body: (Running) async throws -> Void
    ) async throws {
        let server = TidelineServer(configuration: configuration)
        let url = try await server.start()
        let running = Running(
            port: try #require(url.port),
            wire: Wire(endpoint: url, transport: CurlTransport())
        )
        do {
            try await body(running)
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    private static func listen(
        _ port: Int,
        _ target: String = "/$events?tables=a,b",
        _ headers: String = ""
    ) async throws -> Listener {
        try await blocking { Listener(try EventReader(port, target, headers)) }
    }

    @Test("A new listener at the limit ends the first stream of the caller with the most streams")
    func listenersMakeRoom() async throws {
        var configuration = try Self.configuration()
        configuration.http.listenersMax = 4
        configuration.loops = 1
        configuration.proxies.trusted = ["127.0.0.1"]
        try await Self.withServer(configuration) { server in
            func listen(_ address: String) async throws -> Listener {
                try await Self.listen(
                    server.port,
                    "/$events?tables=a",
                    "X-Forwarded-For: \(address)\r\n"
                )
            }
            var many: [Listener] = []
            for _ in 0..<4 { many.append(try await listen("10.0.0.1")) }
            #expect(many.allSatisfy { $0.reader.status == 200 })
            // The caller itself displaces none of its own streams.
            #expect(try await listen("10.0.0.1").reader.status == 503)
            let first = try await listen("10.0.0.2")
            #expect(first.reader.status == 200)
            #expect(try await many[0].change() == nil, "the first one has ended")
            let second = try await listen("10.0.0.2")
            #expect(second.reader.status == 200)
            #expect(try await many[1].change() == nil)
            // Both callers have two streams.
            #expect(try await listen("10.0.0.2").reader.status == 503)
            let third = try await listen("10.0.0.3")
            #expect(third.reader.status == 200)
            // The streams that stayed report changes.
            try await server.write("a")
            #expect(try await third.change() == "a")
        }
    }

    @Test("A listener is notified of inserts and deletes in each of its tables")
    func changesAreReported() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            let listener = try await Self.listen(server.port, "/%24events?tables=A,b&tables=third")
            #expect(listener.reader.status == 200)
            #expect(listener.reader.head.contains("\r\nContent-Type: text/event-stream"))
            #expect(listener.reader.head.contains("\r\nCache-Control: no-store"))
            try await server.write("a")
            #expect(try await listener.change() == "a")
            try await server.write("Third", "x")
            #expect(try await listener.change() == "Third")
            // A permanently deleted row is a change of the table, too.
            #expect(try await server.wire.send("DELETE", "/tables/Third/x").status == 204)
            #expect(try await listener.change() == "Third")
            try await server.write("b")
            #expect(try await listener.change() == "b")
        }
    }

    /// The system buffers little for a listener, so most changes wait as a bit for their table.
    @Test("A listener that does not read gets few events for many changes")
    func aListenerThatDoesNotReadGetsOneEventForManyChanges() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            let port = server.port
            let listener = try await blocking {
                Listener(try EventReader(port, "/$events?tables=a,b", receiveBuffer: 4096))
            }
            let writes = 1000
            for _ in 0..<writes { try await server.write("a") }
            try await server.write("b")
            var events = 0
            while try await listener.change() == "a" { events += 1 }
            #expect(events > 0 && events < writes / 2, "\(events)")
        }
    }

    @Test("A listener is not notified of changes in other tables")
    func otherTablesAreNotReported() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            let listener = try await Self.listen(server.port, "/$events?tables=b")
            try await server.write("a")
            try await server.write("Third")
            try await server.write("b")
            #expect(try await listener.change() == "b")
        }
    }

    @Test("A reconnected listener is notified of the tables that changed meanwhile")
    func aReconnectedListenerGetsWhatItMissed() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            var listener = try await Self.listen(server.port)
            try await server.write("a")
            #expect(try await listener.change() == "a")
            let id = try #require(listener.reader.lastID)
            listener = try await Self.listen(server.port, "/$events?tables=b", "")
            try await server.write("b")
            #expect(try await listener.change() == "b")
            // Also if the tables are in another order.
            let header = "Last-Event-ID: \(id)\r\n"
            listener = try await Self.listen(server.port, "/$events?tables=b,a", header)
            #expect(try await listener.change() == "b")
            try await server.write("a")
            #expect(try await listener.change() == "a")
            // It has received everything, so the next event is for a new change.
            let now = "Last-Event-ID: \(try #require(listener.reader.lastID))\r\n"
            listener = try await Self.listen(server.port, "/$events?tables=a,b", now)
            try await server.write("b")
            #expect(try await listener.change() == "b")
            listener = try await Self.listen(
                server.port,
                "/$events?tables=a,b",
                "Last-Event-ID: nobody-knows\r\n"
            )
            #expect(try await listener.change() == "a")
            #expect(try await listener.change() == "b")
        }
    }

    @Test("An event ID is valid after a restart and shows which tables changed")
    func idsAreValidAcrossRestarts() async throws {
        try await withWorkspace { workspace in
            var configuration = try Self.configuration()
            configuration.database = .sqlite(path: workspace.path("a.db"))
            var id = ""
            try await Self.withServer(configuration) { server in
                let listener = try await Self.listen(server.port)
                try await server.write("a")
                try await server.write("b")
                var tables: Set<String> = []
                while tables.count < 2 { tables.insert(try await listener.change() ?? "") }
                id = try #require(listener.reader.lastID)
            }
            try await Self.withServer(configuration) { server in
                try await server.write("b")
                let header = "Last-Event-ID: \(id)\r\n"
                let listener = try await Self.listen(server.port, "/$events?tables=a,b", header)
                #expect(try await listener.change() == "b")
                try await server.write("a")
                #expect(try await listener.change() == "a")
            }
        }
    }

    @Test(
        "Invalid requests for events are rejected",
        arguments: [
            ("/$events?tables=a,none", 404), ("/$events", 400), ("/$events?tables=", 400),
            ("/$events?tables=a,,b", 200), ("/$events?tables=closed", 403),
            ("/$events/x?tables=a", 404),
        ]
    )
    func invalidRequestsAreRejected(_ target: String, _ status: Int) async throws {
        var configuration = try Self.configuration()
        var closed = TableDefinition("closed", columns: [])
        closed.permissions.read = .disabled
        configuration.tables.append(closed)
        try await Self.withServer(configuration) { server in
            let reader = try await Self.listen(server.port, target).reader
            #expect(reader.status == status)
        }
    }

    @Test("Only GET and HEAD are allowed for events")
    func otherMethodsAreNotAllowed() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            let target = "/$events?tables=a"
            let post = try await server.wire.send("POST", target, "{}")
            #expect(post.status == 405 && post.headers["Allow"] == "GET, HEAD")
            let options = try await server.wire.send("OPTIONS", target)
            #expect(options.headers["Allow"] == "GET, HEAD")
            let head = try await server.wire.send("HEAD", target)
            #expect(head.status == 200 && head.headers["Content-Type"] == "text/event-stream")
        }
    }

    @Test("An HTTP/1.0 client receives events") func version10() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            let port = server.port
            let listener = try await blocking {
                Listener(try EventReader(port, "/$events?tables=a", version: "1.0"))
            }
            try await server.write("a")
            #expect(try await listener.change() == "a")
        }
    }

    @Test("A listener receives heartbeats between changes") func heartbeats() async throws {
        var configuration = try Self.configuration()
        configuration.http.eventsHeartbeat = .milliseconds(300)
        try await Self.withServer(configuration) { server in
            let listener = try await Self.listen(server.port)
            var beats = 0
            while beats < 2 {
                let block = try await listener.block()
                #expect(block?.data == nil)
                if block?.comment != nil { beats += 1 }
            }
            try await server.write("a")
            #expect(try await listener.change() == "a")
        }
    }

    @Test("A half-closed listener still receives events, and a disconnected one is not counted")
    func disconnectedListenersAreDetected() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            func open() async throws -> Int? {
                let text = String(
                    decoding: try await server.wire.send("GET", "/metrics").body,
                    as: UTF8.self
                )
                let line = text.split(separator: "\n").last { $0.hasPrefix("tideline_listeners ") }
                return line.flatMap { Int($0.dropFirst("tideline_listeners ".count)) }
            }
            let half = try await Self.listen(server.port)
            half.reader.connection.finishSending()
            var leaving: Listener? = try await Self.listen(server.port)
            #expect(leaving?.reader.status == 200)
            #expect(try await open() == 2)
            leaving = nil
            try await eventually("one listener") { try await open() == 1 ? () : nil }
            try await server.write("b")
            #expect(try await half.change() == "b")
        }
    }

    @Test("Listeners have a separate limit and do not count as connections")
    func listenersHaveASeparateLimit() async throws {
        var configuration = try Self.configuration()
        configuration.http.listenersMax = 2
        configuration.http.connectionsMax = 2
        configuration.loops = 1
        try await Self.withServer(configuration) { server in
            let first = try await Self.listen(server.port)
            let second = try await Self.listen(server.port)
            let third = try await Self.listen(server.port)
            #expect(first.reader.status == 200 && second.reader.status == 200)
            #expect(third.reader.status == 503)
            try await server.write("a")
            #expect(try await first.change() == "a")
            #expect(try await second.change() == "a")
        }
    }

    @Test("A caller cannot exceed its maximum number of listeners")
    func aCallerHasAShareOfTheListeners() async throws {
        var configuration = try Self.configuration()
        configuration.http.callerListenersMax = 2
        try await Self.withServer(configuration) { server in
            let first = try await Self.listen(server.port)
            var second: Listener? = try await Self.listen(server.port)
            #expect(first.reader.status == 200 && second?.reader.status == 200)
            #expect(try await Self.listen(server.port).reader.status == 429)
            second = nil
            // The server has to detect that it has disconnected.
            try await eventually("room for another one") {
                try await Self.listen(server.port).reader.status == 200 ? () : nil
            }
            try await server.write("a")
            #expect(try await first.change() == "a")
        }
    }

    @Test("A server that stops ends event streams with a retry time")
    func drainEndsStreamsThatCanBeResumed() async throws {
        let server = TidelineServer(configuration: try Self.configuration())
        let port = try #require(try await server.start().port)
        let listener = try await Self.listen(port)
        _ = try await listener.block()
        await server.stop()
        let last = try await listener.block()
        #expect(last?.retry.flatMap { Int($0) } != nil)
        #expect(try await listener.block() == nil)
    }

    @Test("An event stream requires a token and ends when the token expires")
    func streamsNeedATokenAndEndWithIt() async throws {
        try await withWorkspace { workspace in
            _ = try workspace.file("jwt.key", Self.secret)
            let text = #"""
                {
                  "listen": "127.0.0.1:0", "database": "sqlite::memory:", "log": { "level": "error" },
                  "authentication": { "secretFile": "jwt.key", "leewaySeconds": 0 },
                  "tables": {
                    "a": { "columns": {}, "permissions": { "read": "anonymous" } },
                    "b": { "columns": {} }
                  }
                }
                """#
            let file = try workspace.file("a.json", text)
            let configuration = try ServerConfiguration(
                json: Array(text.utf8),
                directory: workspace.directory
            )
            try await Self.withServer(configuration) { server in
                #expect(
                    try await Self.listen(server.port, "/$events?tables=a").reader.status == 200
                )
                #expect(
                    try await Self.listen(server.port, "/$events?tables=b").reader.status == 401
                )
                let created = try await workspace.run(
                    .tideline,
                    ["token", "--config", file, "--subject", "olga", "--expires", "2"]
                )
                let token = created.output.trimmingCharacters(in: .whitespacesAndNewlines)
                let header = "Authorization: Bearer \(token)\r\n"
                let listener = try await Self.listen(server.port, "/$events?tables=b", header)
                #expect(listener.reader.status == 200, "\(created.error)")
                // The stream ends when the token expires.
                #expect(try await listener.change() == nil)
                let late = try await Self.listen(server.port, "/$events?tables=b", header)
                #expect(late.reader.status == 401)
            }
        }
    }

    @Test("A page of an allowed origin may listen for events")
    func pagesOfOtherOriginsMayListen() async throws {
        var configuration = try Self.configuration()
        configuration.cors.origins = ["https://app.example"]
        try await Self.withServer(configuration) { server in
            let header = "Origin: https://app.example\r\n"
            let listener = try await Self.listen(server.port, "/$events?tables=a", header)
            #expect(
                listener.reader.head.contains(
                    "\r\nAccess-Control-Allow-Origin: https://app.example"
                )
            )
        }
    }

    @Test("Each of 200 listeners is notified of each changed table")
    func manyListenersGetEveryLastChange() async throws {
        try await Self.withServer(try Self.configuration()) { server in
            var listeners: [Listener] = []
            for _ in 0..<200 { listeners.append(try await Self.listen(server.port)) }
            for number in 0..<30 { try await server.write(number.isMultiple(of: 3) ? "b" : "a") }
            for listener in listeners {
                var heard: Set<String> = []
                while heard.count < 2 { heard.insert(try await listener.change() ?? "end") }
                #expect(heard == ["a", "b"])
            }
        }
    }
}

/// Unchecked because it is used by one thread at a time: the test awaits each step.
private struct Listener: @unchecked Sendable {
    let reader: EventReader

    init(_ reader: EventReader) { self.reader = reader }

    func block() async throws -> EventReader.Event? {
        try await blocking { [self] in try reader.block() }
    }

    func change() async throws -> String? {
        try await blocking { [self] in try reader.change() }
    }
}

// ServerSignalTests: on SIGTERM and SIGINT the server finishes the requests under way.

import Foundation
import Testing
import Tideline
import TidelineTestKit

extension ProcessTests {
    struct ServerSignalTests {
        private static let body = #"{"id":"slow","text":"\#(String(repeating: "x", count: 5000))"}"#

        private static let head = """
            POST /tables/TodoItem HTTP/1.1\r
            Host: a\r
            Content-Type: application/json\r
            Expect: 100-continue\r
            Content-Length: \(body.utf8.count)\r
            \r

            """

        /// A connection on which half of an insert was sent.
        private func halfUpload(_ port: Int) throws -> RawConnection {
            let connection = try RawConnection(port: port)
            try connection.send(Self.head)
            // The server has read the head, so that the signal does not arrive before it.
            let answer = String(decoding: try connection.receive(), as: UTF8.self)
            guard answer == "HTTP/1.1 100 Continue\r\n\r\n" else { throw TestFailure(answer) }
            try connection.send(String(Self.body.prefix(2000)))
            return connection
        }

        @Test(
            "A server that stops waits for the rest of a slow upload",
            arguments: [SIGTERM, SIGINT]
        )
        func slowUploadIsFinished(signal: Int32) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let (port, process) = (server.port, server.process)
                let answer = try await blocking {
                    let connection = try self.halfUpload(port)
                    process.send(signal)
                    try self.waitUntilRefused(port)
                    try connection.send(String(Self.body.dropFirst(2000)))
                    return String(decoding: try connection.rest(), as: UTF8.self)
                }
                #expect(answer.hasPrefix("HTTP/1.1 201 "))
                #expect(answer.lowercased().contains("connection: close"))
                let end = try await process.wait(within: .seconds(5))
                #expect(end == .exit(0))
                let again = try await server.restart()
                let row = try await again.wire.send("GET", "/tables/TodoItem/slow")
                #expect((row.object["text"] as? String)?.count == 5000)
            }
        }

        @Test("A stopping server reports that it is not ready while it still serves requests")
        func readinessEndsBeforeTheServer() async throws {
            try await withWorkspace { workspace in
                let configuration = ServerProcess.configuration.replacing(
                    "\"pageBytes\": 33554432",
                    with: "\"drainNotice\": 5"
                )
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: configuration
                )
                #expect(try await server.wire.send("GET", "/health/ready").status == 200)
                server.process.send(SIGTERM)
                let rejection = try await eventually("readiness ends") {
                    let answer = try await server.wire.send("GET", "/health/ready")
                    return answer.status == 503 ? answer : nil
                }
                #expect(rejection.headers["Retry-After"] != nil)
                #expect(try await server.wire.send("GET", "/health").status == 200)
                let insert = try await server.wire.send("POST", "/tables/TodoItem", "{}")
                #expect(insert.status == 201)
                #expect(try await server.process.wait(within: .seconds(20)) == .exit(0))
            }
        }

        private func waitUntilRefused(_ port: Int) throws {
            try blockingUntil(within: .seconds(10)) { !Loopback.accepts(port: port) }
        }

        @Test("A server that stops sends the rest of a large response")
        func largeResponseIsFinished() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let text = String(repeating: "y", count: 900_000)
                for number in 0..<24 {
                    let body = #"{"id":"n\#(number)","text":"\#(text)"}"#
                    let answer = try await server.wire.send("POST", "/tables/TodoItem", body)
                    #expect(answer.status == 201)
                }
                let (port, process) = (server.port, server.process)
                let received = try await blocking {
                    let connection = try RawConnection(port: port, receiveBuffer: 16 << 10)
                    try connection.send("GET /tables/TodoItem HTTP/1.1\r\nHost: a\r\n\r\n")
                    let first = try connection.receive(atMost: 1000)
                    process.send(SIGTERM)
                    try self.waitUntilRefused(port)
                    return first + (try connection.rest())
                }
                #expect(received.count > 24 * 900_000)
                #expect(received.suffix(2).elementsEqual(#"l}"#.utf8))
                let end = try await process.wait(within: .seconds(5))
                #expect(end == .exit(0))
            }
        }

        @Test("A server that stops does not wait for connections without a request")
        func idleConnectionsAreClosed() async throws {
            // Far longer than the test waits for the end of the server.
            let configuration = ServerProcess.configuration.replacing(
                "\"limits\": {",
                with: "\"limits\": { \"drainTime\": 600,"
            )
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: configuration
                )
                let port = server.port
                let connection = try await blocking { SendableConnection(try self.idle(port)) }
                let end = try await server.stop()
                #expect(end == .exit(0))
                let rest = try await blocking { try connection.connection.rest() }
                #expect(rest.isEmpty)
            }
        }

        private func idle(_ port: Int) throws -> RawConnection {
            let connection = try RawConnection(port: port)
            try connection.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try connection.receive()
            return connection
        }

        @Test("A server that stops waits for an unfinished request only until the drain limit")
        func drainHasALimit() async throws {
            let configuration = ServerProcess.configuration.replacing(
                "\"limits\": {",
                with: "\"limits\": { \"drainTime\": 1,"
            )
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: configuration
                )
                let port = server.port
                let connection = try await blocking {
                    SendableConnection(try self.halfUpload(port))
                }
                let started = ContinuousClock.now
                let end = try await server.stop()
                #expect(end == .exit(0))
                #expect(ContinuousClock.now - started > .milliseconds(500))
                withExtendedLifetime(connection) {}
            }
        }

        @Test("A server continues to serve after the reader of its log exits")
        func aLostLogDoesNotStopTheServer() async throws {
            try await withWorkspace { workspace in
                let pipe = workspace.path("log")
                #expect(mkfifo(pipe, 0o600) == 0)
                let reader = open(pipe, O_RDONLY | O_NONBLOCK)
                let file = try workspace.file("a.json", ServerProcess.configuration)
                let server = try await ServerProcess.start(
                    ["--config", file, "--database", "sqlite:" + workspace.path("a.db")],
                    listen: "127.0.0.1:0",
                    in: workspace,
                    errors: pipe
                )
                close(reader)
                for _ in 0..<3 {
                    let answer = try await server.wire.send("POST", "/tables/Note", "{}")
                    #expect(answer.status == 201)
                }
                let end = try await server.stop()
                #expect(end == .exit(0))
            }
        }

        @Test("A second signal ends the server without waiting for requests")
        func secondSignalEndsAtOnce() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let (port, process) = (server.port, server.process)
                let connection = try await blocking {
                    SendableConnection(try self.halfUpload(port))
                }
                process.send(SIGTERM)
                try await blocking { try self.waitUntilRefused(port) }
                #expect(process.end == nil)
                process.send(SIGINT)
                let end = try await process.wait(within: .seconds(5))
                #expect(end == .exit(1))
                withExtendedLifetime(connection) {}
            }
        }
    }
}

/// Unchecked because it is used by one thread at a time, which passes it on to the next.
private struct SendableConnection: @unchecked Sendable {
    let connection: RawConnection

    init(_ connection: RawConnection) { self.connection = connection }
}

// TakeOverTests: a server takes over the socket of another one, under load.
//
// Goal: not one request fails. Method: the test holds the listening socket, as systemd does, and starts real servers
// with it. Callers send one request after the other, on connections that they keep for as long as the server does, and
// accept only 200 and 201.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit

extension ProcessTests {
    struct TakeOverTests {
        private static let callers = 8
        /// This many requests are answered before, between and after the servers' starts.
        private static let requests = 200

        /// The next server is started while the first one serves, or after it has ended.
        @Test(
            "A new server process takes over the socket and the database file",
            arguments: [true, false]
        )
        func aServerTakesOverAFile(_ overlaps: Bool) async throws {
            try await withWorkspace { workspace in
                try await takeOver(
                    in: workspace,
                    database: "sqlite:" + workspace.path("a.db"),
                    overlaps
                )
            }
        }

        @Test(
            "A new server process takes over the socket while both use one PostgreSQL database",
            .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
        )
        func twoServersUsePostgresAtOnce() async throws {
            try await withWorkspace { workspace in
                let database = try PostgresCluster.shared().database()
                try await takeOver(in: workspace, database: database, true)
            }
        }

        private func takeOver(
            in workspace: Workspace,
            database: String,
            _ overlaps: Bool
        ) async throws {
            let (socket, port) = try Loopback.listen()
            defer { close(socket) }
            let file = try workspace.file("a.json", ServerProcess.configuration)
            func start() throws -> ChildProcess {
                try workspace.start(
                    .tideline,
                    ["serve", "--config", file, "--database", database],
                    handing: socket
                )
            }
            let first = try start()
            try await listens(first, on: port)
            let load = Load(port: port)
            for caller in 0..<Self.callers { load.run(caller) }
            try await answered(load, atLeast: Self.requests)
            var server = first
            for _ in 0..<3 {
                let next: ChildProcess
                if overlaps {
                    next = try start()
                    if !database.hasPrefix("sqlite:") { try await listens(next, on: port) }
                    server.send(SIGTERM)
                    #expect(try await server.wait() == .exit(0))
                } else {
                    server.send(SIGTERM)
                    #expect(try await server.wait() == .exit(0))
                    next = try start()
                }
                try await listens(next, on: port)
                try await answered(load, atLeast: load.count + Self.requests)
                server = next
            }
            let (written, failures) = try await load.stop()
            #expect(failures == [])
            let wire = Wire(
                endpoint: try #require(URL(string: "http://127.0.0.1:\(port)")),
                transport: CurlTransport()
            )
            let rows = try await wire.allRows("Note").compactMap { $0["id"] as? String }
            #expect(Set(rows) == written && rows.count == written.count)
            server.send(SIGTERM)
            #expect(try await server.wait() == .exit(0))
        }

        private func listens(_ process: ChildProcess, on port: Int) async throws {
            _ = try await eventually("a server that listens; \(process.error)") {
                if let end = process.end { throw TestFailure("\(end): \(process.error)") }
                return process.output.hasPrefix("listening on http://127.0.0.1:\(port)\n")
                    ? () : nil
            }
        }

        private func answered(_ load: Load, atLeast count: Int) async throws {
            _ = try await eventually("\(count) answers, \(load.failures)") {
                load.count >= count || !load.failures.isEmpty ? () : nil
            }
        }
    }
}

/// Callers that write and read, each on a thread.
private final class Load: Sendable {
    private struct State {
        var answers = 0
        var written: Set<String> = []
        var failures: [String] = []
        var running = 0
        var isStopped = false
    }

    private let port: Int
    private let state = Mutex(State())

    init(port: Int) { self.port = port }

    var count: Int { state.withLock { $0.answers } }

    var failures: [String] { state.withLock { $0.failures } }

    func run(_ caller: Int) {
        state.withLock { $0.running += 1 }
        Thread.detachNewThread { [self] in
            var connection: RawConnection?
            var number = 0
            while !state.withLock({ $0.isStopped }) {
                number += 1
                let id = number % 3 == 0 ? nil : "c\(caller)-\(number)"
                do {
                    let used = try connection ?? RawConnection(port: port)
                    connection = try ask(used, id) ? used : nil
                    state.withLock { state in
                        state.answers += 1
                        if let id { state.written.insert(id) }
                    }
                } catch {
                    connection = nil
                    state.withLock { $0.failures.append("\(error)") }
                }
            }
            state.withLock { $0.running -= 1 }
        }
    }

    /// The written rows, and the failures.
    func stop() async throws -> (written: Set<String>, failures: [String]) {
        state.withLock { $0.isStopped = true }
        _ = try await eventually("the end of the callers") {
            state.withLock { $0.running == 0 } ? () : nil
        }
        return state.withLock { ($0.written, $0.failures) }
    }

    /// Writes a row, or reads a list; returns whether the server keeps the connection open.
    private func ask(_ connection: RawConnection, _ id: String?) throws -> Bool {
        if let id {
            let body = #"{"id":"\#(id)"}"#
            try connection.send(
                """
                POST /tables/Note HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r
                Content-Length: \(body.utf8.count)\r\n\r\n\(body)
                """
            )
        } else {
            try connection.send("GET /tables/Note?$top=2 HTTP/1.1\r\nHost: a\r\n\r\n")
        }
        var bytes: [UInt8] = []
        while true {
            let text = String(decoding: bytes, as: UTF8.self)
            if let end = text.range(of: "\r\n\r\n") {
                let head = text[..<end.lowerBound].lowercased()
                let lengths = head.split(separator: "\r\n").filter {
                    $0.hasPrefix("content-length: ")
                }
                let length = lengths.first.flatMap { Int($0.dropFirst(16)) } ?? 0
                if text[end.upperBound...].utf8.count >= length {
                    guard text.hasPrefix("HTTP/1.1 20\(id == nil ? 0 : 1) ") else {
                        throw TestFailure(text)
                    }
                    return !head.contains("connection: close")
                }
            }
            let more = try connection.receive()
            guard !more.isEmpty else { throw TestFailure("ended after '\(text)'") }
            bytes += more
        }
    }
}

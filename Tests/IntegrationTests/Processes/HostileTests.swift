// HostileTests: malicious requests to the built server. It responds as documented, without 5xx, and serves the next
// caller.

import Foundation
import Testing
import Tideline
import TidelineTestKit

extension ProcessTests {
    struct HostileTests {
        /// The statuses of all responses on a connection, which both sides then close.
        private static func statuses(of raw: [UInt8], _ port: Int) throws -> [Int] {
            let connection = try RawConnection(port: port)
            // The server may close the connection before everything is sent.
            try? connection.send(raw)
            connection.finishSending()
            var bytes: [UInt8] = []
            do {
                while case let chunk = try connection.receive(), !chunk.isEmpty { bytes += chunk }
            } catch {
                // A reset, if the server did not read everything. It never leaves the connection open.
                let isReset = "\(error)".hasSuffix("errno \(ECONNRESET)")
                #expect(isReset, "\(error): \(String(decoding: raw.prefix(60), as: UTF8.self))")
            }
            return String(decoding: bytes, as: UTF8.self)
                .split(separator: "HTTP/1.1 ")
                .compactMap { Int($0.prefix(3)) }
                // On a busy machine the test checks whether the server still waits.
                .filter { $0 != 100 }
        }

        /// The server's own time limits end no connection of the test.
        private static let configuration = ServerProcess.configuration.replacing(
            "\"limits\": {",
            with: """
                "limits": { "headerTime": 3600, "requestTime": 3600, "idleTime": 3600, "drainTime": 5,
                """
        )
        .replacing("\"pageSize\": 40\n", with: "\"pageSize\": 40, \"indexes\": [[\"due\"]]\n")

        private static func isServing(_ port: Int) throws -> Bool {
            let raw = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            let found = try statuses(of: Array(raw.utf8), port)
            #expect(found == [200])
            return found == [200]
        }

        @Test("Hostile requests are rejected quickly, and the server continues to serve")
        func hostileRequestsAreRejected() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let port = server.port
                try await blocking {
                    for example in HostileCase.all {
                        let statuses = try Self.statuses(of: example.raw, port)
                        #expect(example.statuses.contains(statuses), "\(example.name): \(statuses)")
                    }
                    #expect(try Self.isServing(port))
                }
                #expect(server.requests.allSatisfy { $0.status < 500 })
                let end = try await server.stop()
                #expect(end == .exit(0))
            }
        }

        @Test("Callers that never finish a request do not delay other callers")
        func slowCallersDelayNoOtherCaller() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let port = server.port
                try await blocking {
                    let post = "POST /tables/Note HTTP/1.1\r\nHost: a\r\n"
                    let beginnings = [
                        "", "G", "GET / HTTP/1.1\r\nHost: a\r\nX: ",
                        post + "Content-Length: 100000\r\n\r\n{",
                        post + "Transfer-Encoding: chunked",
                        post + "Transfer-Encoding: chunked\r\n\r\nFFFF\r\n",
                    ]
                    let callers = try (0..<300).map { number in
                        let caller = try RawConnection(port: port)
                        try caller.send(beginnings[number % beginnings.count])
                        return caller
                    }
                    var random = SeededGenerator(seed: 1)
                    for _ in 0..<20 {
                        for caller in callers.shuffled(using: &random).prefix(30) {
                            try caller.send("x")
                        }
                        #expect(try Self.isServing(port))
                    }
                    // The other callers were answered while these still sent their requests.
                    for number in stride(from: 2, to: callers.count, by: beginnings.count) {
                        try callers[number].send("\r\n\r\n")
                        let answer = String(decoding: try callers[number].receive(), as: UTF8.self)
                        #expect(answer.hasPrefix("HTTP/1.1 "), "\(answer)")
                    }
                    for (number, caller) in callers.enumerated() where number % 2 == 0 {
                        caller.finishSending()
                    }
                    #expect(try Self.isServing(port))
                }
                #expect(server.requests.allSatisfy { $0.status < 500 })
                // The connections that are still slow are closed in time.
                server.process.send(SIGTERM)
                let end = try await server.process.wait(within: .seconds(30))
                #expect(end == .exit(0))
            }
        }
    }
}

// LargeAnswerTests: the cost of large responses for the built server when callers do not read them.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct LargeAnswerTests {
        /// The private memory of the process, in bytes.
        private static func memory(of process: ChildProcess) throws -> Int {
            let text = try String(
                contentsOfFile: "/proc/\(process.pid)/smaps_rollup",
                encoding: .utf8
            )
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("Pss:") })
            return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) })
                * 1024
        }

        private static func metric(_ name: String, _ wire: Wire) async throws -> Int {
            let answer = try await wire.send("GET", "/metrics")
            let lines = String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
            let line = try #require(lines.first { $0.hasPrefix(name + " ") }, "no \(name)")
            return try #require(Int(line.dropFirst(name.count + 1)))
        }

        @Test(
            "Callers that do not read or that disconnect are counted, and their memory is freed"
        )
        func callersThatDoNotReadCostNothingAfterwards() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let wire = server.wire
                let logBytes = try await Self.metric("tideline_log_bytes", wire)
                let text = String(repeating: "milk and bread, ", count: 6000)
                for number in 0..<40 {
                    let body = #"{"id":"\#(number)","text":"\#(text)"}"#
                    #expect(try await wire.send("POST", "/tables/Note", body).status == 201)
                }
                #expect(try await Self.metric("tideline_log_bytes", wire) > logBytes)
                let names = ["tideline_slow_readers_total", "tideline_hangups_total"]
                for name in names { #expect(try await Self.metric(name, wire) == 0) }
                let before = try Self.memory(of: server.process)
                let port = server.port
                var callers = try await blocking {
                    Callers(
                        connections: try (0..<80).map { _ in
                            let caller = try RawConnection(port: port, receiveBuffer: 4096)
                            try caller.send("GET /tables/Note HTTP/1.1\r\nHost: a\r\n\r\n")
                            return caller
                        }
                    )
                }
                try await eventually("callers that wait for room") {
                    try await Self.metric("tideline_answers_bytes", wire) > 48 << 20 ? () : nil
                }
                for caller in callers.connections[60...] { caller.abort() }
                callers.connections.removeLast(20)
                try await eventually("callers that left") {
                    try await Self.metric(names[1], wire) > 0 ? () : nil
                }
                try await eventually("slow callers that are cut") {
                    try await Self.metric(names[0], wire) > 0 ? () : nil
                }
                callers.connections = []
                try await eventually("released responses") {
                    try await Self.metric("tideline_answers_bytes", wire) == 0 ? () : nil
                }
                var after = 0
                try await eventually("\(before >> 20) MiB before, \(after >> 20) MiB after") {
                    after = try Self.memory(of: server.process)
                    return after < before + (24 << 20) ? () : nil
                }
                #expect(callers.connections.isEmpty)
                #expect(try await server.stop() == .exit(0))
            }
        }
    }
}

/// Unchecked because it is used by one thread at a time: the test awaits each step.
private struct Callers: @unchecked Sendable {
    var connections: [RawConnection]
}

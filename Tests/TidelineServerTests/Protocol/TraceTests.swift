// TraceTests: log entries about a request: its trace, its address, and whether it was slow.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct TraceTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let span = "b7ad6b7169203331"

    @Test(
        "Only a valid trace header is read",
        arguments: [
            ("00-\(trace)-\(span)-01", true), ("00-\(trace)-\(span)-00", true),
            ("01-\(trace)-\(span)-01-more", true), ("00-\(trace)-\(span)-01-more", false),
            ("ff-\(trace)-\(span)-01", false), ("00-\(trace)-\(span)", false), ("", false),
            ("00-\(String(repeating: "0", count: 32))-\(span)-01", false),
            ("00-\(trace)-\(String(repeating: "0", count: 16))-01", false),
            ("00-\(trace.uppercased())-\(span)-01", false), ("0-\(trace)-\(span)-01", false),
            ("00-\(trace)x-\(span)-01", false),
        ]
    )
    func onlyAValidTraceIsRead(_ text: String, _ isRead: Bool) {
        #expect((TraceParent(text)?.trace == Self.trace) == isRead)
        #expect((TraceParent(text)?.span == Self.span) == isRead)
    }

    private static func lines(
        slow: Int64,
        level: ServerLog.Level,
        _ request: ServerRequest
    ) async throws -> [[String: Any]] {
        let lines = Mutex<[[UInt8]]>([])
        let log = ServerLog(
            level: level,
            format: .json,
            slowMicroseconds: slow,
            now: { 0 },
            sink: { line in lines.withLock { $0.append(line) } }
        )
        let server = try await TestServer(log: log)
        lines.withLock { $0 = [] }
        _ = await server.handler.handle(request)
        return lines.withLock { $0 }.compactMap {
            (try? JSONSerialization.jsonObject(with: Data($0))) as? [String: Any]
        }
    }

    @Test("The trace and the address of a request are logged")
    func theTraceAndTheAddressAreLogged() async throws {
        var request = ServerRequest(method: "GET", path: "/tables/TodoItem")
        request.headers["traceparent"] = "00-\(Self.trace)-\(Self.span)-01"
        request.address = "192.0.2.7"
        let lines = try await Self.lines(slow: .max, level: .debug, request)
        let line = try #require(lines.first { $0["message"] as? String == "request" })
        #expect(line["trace"] as? String == Self.trace)
        #expect(line["span"] as? String == Self.span)
        #expect(line["from"] as? String == "192.0.2.7")
        // Of two trace headers, it is unknown which one is meant.
        request.headers.append("Traceparent", "00-\(Self.trace)-\(Self.span)-01")
        let others = try await Self.lines(slow: .max, level: .debug, request)
        #expect(others.allSatisfy { $0["trace"] == nil })
    }

    @Test("A slow request is logged with the names of its options, but not their values")
    func slowRequestsAreLogged() async throws {
        let request = ServerRequest(
            method: "GET",
            path: "/tables/TodoItem",
            query: "$filter=text%20eq%20'secret'&%24top=5&secret=secret"
        )
        let lines = try await Self.lines(slow: 0, level: .warning, request)
        #expect(lines.count == 1)
        #expect(lines.first?["message"] as? String == "slow request")
        #expect(lines.first?["level"] as? String == "warning")
        #expect(lines.first?["options"] as? String == "$filter,$top")
        #expect(!"\(lines)".contains("secret"))
        #expect(try await Self.lines(slow: 0, level: .error, request).isEmpty)
        #expect(try await Self.lines(slow: .max, level: .warning, request).isEmpty)
    }
}

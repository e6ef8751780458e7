// HTTPServerTests: connections, bodies, responses and load, through a socket.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore
import TidelineTestKit

struct HTTPServerTests {
    @Test("A connection is reused for many requests") func connectionIsReused() async throws {
        try await withServer { port in
            let client = try RawClient(port: port)
            for number in 0..<100 {
                let answer = try client.ask(get("/\(number)"))
                #expect(answer.text.hasPrefix("GET|/\(number)|\n"))
                #expect(answer.headers["Date"] != nil)
            }
        }
    }

    @Test("Responses to pipelined requests are sent in the order of the requests")
    func pipelinedRequestsAreAnsweredInOrder() async throws {
        try await withServer(
            handler: { request in
                // The first requests take the longest.
                for _ in 0..<(request.path.count < 4 ? 1000 : 0) { await Task.yield() }
                return await echo(request)
            },
            body: { port in
                let client = try RawClient(port: port)
                try client.send((0..<50).map { get("/\($0 * 10)") }.joined())
                for number in 0..<50 {
                    let answer = try client.answer()
                    #expect(answer?.text.hasPrefix("GET|/\(number * 10)|\n") == true)
                }
            }
        )
    }

    @Test("A request with Connection: close ends the connection", arguments: ["close", "Close"])
    func closeIsHonored(_ value: String) async throws {
        try await withServer { port in
            let client = try RawClient(port: port)
            let answer = try client.ask(get("/", "Connection: \(value)\r\n"))
            #expect(answer.headers["Connection"]?.lowercased() == "close")
            #expect(try client.answer() == nil)
        }
    }

    @Test("An HTTP/1.0 connection is closed unless the caller requests keep-alive")
    func version10ClosesUnlessKeepAliveIsRequested() async throws {
        try await withServer { port in
            let client = try RawClient(port: port)
            #expect(
                try client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").status == 200
            )
            #expect(try client.ask("GET / HTTP/1.0\r\n\r\n").status == 200)
            #expect(try client.answer() == nil)
        }
    }

    @Test("A response to HEAD has a length but no body") func headHasHeadersOnly() async throws {
        try await withServer { port in
            let client = try RawClient(port: port)
            try client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n" + get("/y"))
            let head = try client.answer(toHead: true)
            #expect(head?.status == 200)
            #expect(Int(head?.headers["Content-Length"] ?? "") ?? 0 > 0)
            #expect(try client.answer()?.text.hasPrefix("GET|/y|") == true)
        }
    }

    @Test("Responses with status 204 and 304 have no body", arguments: [204, 304])
    func someResponsesHaveNoBody(_ status: Int) async throws {
        try await withServer(
            handler: { request in
                request.path == "/"
                    ? ServerResponse(status: status, body: [1, 2, 3]) : await echo(request)
            },
            body: { port in
                let client = try RawClient(port: port)
                #expect(try client.ask(get("/")).status == status)
                #expect(try client.ask(get("/next")).text.hasPrefix("GET|/next|") == true)
            }
        )
    }

    @Test("An empty response has a Content-Length of zero")
    func emptyResponsesHaveALength() async throws {
        try await withServer(
            handler: { _ in ServerResponse(status: 404) },
            body: { port in
                let answer = try RawClient(port: port).ask(get("/"))
                #expect(answer.headers["Content-Length"] == "0")
            }
        )
    }

    @Test("An invalid status of a handler is sent as 500", arguments: [0, 99, 100, 600, -1, .max])
    func invalidStatusIs500(_ status: Int) async throws {
        try await withServer(
            handler: { _ in ServerResponse(status: status) },
            body: { port in
                let answer = try RawClient(port: port).ask(get("/"))
                #expect(answer.status == 500)
            }
        )
    }

    @Test("A header value cannot add another header")
    func headerValuesCannotAddHeaders() async throws {
        try await withServer(
            handler: { _ in
                ServerResponse(status: 200, headers: ["X": "1\r\nEvil: 2", "Y": "\u{E9}"])
            },
            body: { port in
                let answer = try RawClient(port: port).ask(get("/"))
                #expect(answer.headers["Evil"] == nil)
                #expect(answer.headers["Y"] == "\u{E9}")
            }
        )
    }

    @Test("Large bodies are received and sent unchanged")
    func largeBodiesAreSentAndReceived() async throws {
        try await withServer(
            handler: { request in
                ServerResponse(status: 200, body: request.body)
            },
            body: { port in
                let body = (0..<(4 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
                let client = try RawClient(port: port)
                for _ in 0..<3 {
                    try client.send(
                        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.count)\r\n\r\n"
                    )
                    try client.send(body)
                    #expect(try client.answer()?.body == body)
                }
            }
        )
    }

    @Test("A chunked body is assembled for the handler")
    func chunkedBodyIsPutTogether() async throws {
        try await withServer { port in
            let client = try RawClient(port: port)
            let body = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }
            try client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in stride(from: 0, to: body.count, by: 777) {
                let part = body[start..<min(start + 777, body.count)]
                try client.send("\(String(part.count, radix: 16))\r\n")
                try client.send(part + Array("\r\n".utf8))
            }
            try client.send("0\r\n\r\n")
            let text = try client.answer()?.text
            #expect(text?.hasSuffix("body=100000:\(checksum(body))\n") == true)
        }
    }

    @Test(
        "A body over the limit is rejected before it is sent",
        arguments: ["POST", "PUT", "PATCH", "DELETE", "GET"]
    )
    func bodyOverTheLimitIsRejectedBeforeItIsSent(_ method: String) async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 1000
        try await withServer(limits: limits) { port in
            for expect in ["", "Expect: 100-continue\r\n"] {
                let client = try RawClient(port: port)
                let answer = try client.ask(
                    "\(method) / HTTP/1.1\r\nHost: a\r\n\(expect)Content-Length: 1001\r\n\r\n"
                )
                #expect(answer.status == 413)
                #expect(answer.headers["Content-Type"] == "application/problem+json")
                #expect(try client.answer() == nil)
            }
        }
    }

    @Test("A caller that expects 100 Continue gets it before the body")
    func expectContinueIsAnswered() async throws {
        try await withServer { port in
            let client = try RawClient(port: port)
            try client.send(
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
            )
            #expect(try client.answer()?.status == 100)
            #expect(try client.ask("abcd").text.contains("body=4:"))
        }
    }

    @Test("A chunked body over the limit is rejected")
    func chunkedBodyOverTheLimitIsRejected() async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 1000
        try await withServer(limits: limits) { port in
            func post(_ count: Int) throws -> RawAnswer? {
                let client = try RawClient(port: port)
                let body = String(repeating: "x", count: count)
                try? client.send(
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        + "\(String(count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
                )
                return try client.answer()
            }
            let statuses = try [1000, 1001, 100_000].map { try post($0)?.status }
            #expect(statuses == [200, 413, 413])
        }
    }

    @Test("A caller that reads after it sent a large body receives the rejection")
    func rejectionOfALargeBodyIsReadable() async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 1000
        try await withServer(limits: limits) { port in
            for _ in 0..<10 {
                let client = try RawClient(port: port)
                try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n")
                try client.send([UInt8](repeating: 0x61, count: 4_000_000))
                #expect(try client.answer()?.status == 413)
            }
        }
    }

    @Test("A caller that never stops sending requests does not starve other callers")
    func endlessPipelineDoesNotStarveOtherCallers() async throws {
        try await withServer(loops: 1) { port in
            let isOver = Mutex(false)
            let answered = Mutex(0)
            let requests = Array(String(repeating: get("/greedy"), count: 1000).utf8)
            let sender = Thread {
                guard let greedy = try? RawClient(port: port) else { return }
                while !isOver.withLock({ $0 }) {
                    do { try greedy.send(requests) } catch { return }
                    for _ in 0..<1000 {
                        guard (try? greedy.answer()) != nil else { return }
                        answered.withLock { $0 += 1 }
                    }
                }
            }
            sender.start()
            try blockingUntil { answered.withLock { $0 } > 0 || sender.isFinished }
            for number in 0..<20 {
                let answer = try RawClient(port: port).ask(get("/\(number)"))
                #expect(answer.text.hasPrefix("GET|/\(number)|"))
            }
            #expect(answered.withLock { $0 } > 0 && !sender.isFinished)
            isOver.withLock { $0 = true }
            try blockingUntil { sender.isFinished }
        }
    }

    @Test("Header fields of a handler neither frame a response nor add a field to it")
    func responsesAreFramedOnce() async throws {
        let fields: HTTPFields = [
            "Content-Length": "1", "transfer-encoding": "chunked", "Connection": "close",
            "Date": "never", "X\r\nY": "1", "X-Bad": "1\r\nY: 2", "": "1", "X-Good": "1",
        ]
        let answer = try await withServer(
            handler: { _ in ServerResponse(status: 200, headers: fields, body: [1, 2, 3]) },
            body: { try RawClient(port: $0).ask(get("/")) }
        )
        #expect(answer.body == [1, 2, 3])
        let names = answer.headers.map(\.name)
        #expect(names.sorted() == ["Content-Length", "Date", "X-Good"])
        #expect(answer.headers["Content-Length"] == "3")
    }

    @Test("Callers that disconnect at any time do not affect other callers")
    func peersThatDisconnectCauseNoHarm() async throws {
        let body = [UInt8](repeating: 0x61, count: 1 << 20)
        let handled = Mutex<Set<String>>([])
        try await withServer(
            handler: { request in
                for _ in 0..<1000 { await Task.yield() }
                handled.withLock { _ = $0.insert(request.path) }
                return ServerResponse(status: 200, body: body)
            },
            body: { port in
                for number in 0..<40 {
                    let client = try RawClient(port: port)
                    try client.send(get("/\(number)"))
                    if number.isMultiple(of: 2) { client.abort() }
                    // Some disconnect while the handler runs, some while the response is being sent.
                    guard number.isMultiple(of: 4) else { continue }
                    try withExtendedLifetime(client) {
                        try blockingUntil { handled.withLock { $0.contains("/\(number)") } }
                    }
                }
                #expect(try RawClient(port: port).ask(get("/")).body.count == body.count)
            }
        )
    }

    @Test("The memory for unfinished bodies is bounded and released")
    func memoryForBodiesOfAllCallersIsBounded() async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 100_000
        limits.bodiesBytesMax = 250_000
        try await withServer(limits: limits, loops: 1) { port in
            let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
            let almost = [UInt8](repeating: 0x61, count: 99_999)
            var callers: [RawClient] = []
            for _ in 0..<2 {
                callers.append(try RawClient(port: port))
                try callers.last?.send(head)
                try callers.last?.send(almost)
            }
            // They are all read before another caller is.
            for _ in 0..<20 { #expect(try RawClient(port: port).ask(get("/")).status == 200) }
            let third = try RawClient(port: port)
            try third.send(head)
            try? third.send(almost)
            #expect(try third.answer()?.status == 503)
            for caller in callers { #expect(try caller.ask("x").status == 200) }
            let fourth = try RawClient(port: port)
            try fourth.send(head)
            try fourth.send(almost)
            #expect(try fourth.ask("x").status == 200)
        }
    }

    @Test(
        "The memory limit for bodies applies to all event loops together",
        .timeLimit(.minutes(10))
    )
    func memoryForBodiesOfAllLoopsIsBoundedTogether() async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 100_000
        limits.bodiesBytesMax = 250_000
        let traffic = ServerTraffic()
        let server = HTTPServer(
            host: "127.0.0.1",
            port: 0,
            limits: limits,
            loops: 4,
            ids: RequestIDs(prefix: "a"),
            traffic: traffic,
            rejected: { _, _ in },
            handler: echo
        )
        let port = try server.start()
        try await blocking {
            let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
            let almost = [UInt8](repeating: 0x61, count: 99_999)
            let callers = try (0..<2).map { _ in
                let caller = try RawClient(port: port)
                try caller.send(head)
                try caller.send(almost)
                return caller
            }
            // Nearly all of both bodies is in memory; the size of a usual head is not counted.
            try blockingUntil { traffic.requestBytes.current >= 190_000 }
            for _ in 0..<8 {
                let other = try RawClient(port: port)
                try other.send(head)
                try? other.send(almost)
                #expect(try other.answer()?.status == 503)
            }
            for caller in callers { #expect(try caller.ask("x").status == 200) }
        }
        await server.drain()
        #expect(traffic.requestBytes.current == 0)
    }

    @Test("The memory for unfinished heads is bounded, and small requests are still served")
    func memoryForHeadsOfAllCallersIsBounded() async throws {
        var limits = HTTPLimits()
        limits.headerBytesMax = 30_000
        limits.bodyBytesMax = 1000
        limits.bodiesBytesMax = 60_000
        try await withServer(limits: limits, loops: 1) { port in
            let head = "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 28_000)
            let callers = try (0..<2).map { _ in
                let caller = try RawClient(port: port)
                try caller.send(head)
                return caller
            }
            // They are all read before another caller is.
            for _ in 0..<20 { #expect(try RawClient(port: port).ask(get("/")).status == 200) }
            let third = try RawClient(port: port)
            try third.send(head)
            #expect(try third.answer()?.status == 503)
            #expect(try RawClient(port: port).ask(get("/")).status == 200)
            for caller in callers { #expect(try caller.ask("\r\n\r\n").status == 200) }
            #expect(try RawClient(port: port).ask(head + "\r\n\r\n").status == 200)
        }
    }

    @Test("The memory for requests that wait for an earlier one is bounded")
    func memoryForPipelinedRequestsIsBounded() async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 1000
        limits.bodiesBytesMax = 60_000
        try await withServer(
            limits: limits,
            loops: 1,
            handler: { request in
                // A slow handler, which ends early if its request is rejected.
                if request.path == "/slow" { try? await Task.sleep(for: .seconds(1)) }
                return ServerResponse(status: 200)
            },
            body: { port in
                let ahead = String(repeating: get("/"), count: 1500)
                let first = try RawClient(port: port)
                try first.send(get("/slow") + ahead)
                #expect(try RawClient(port: port).ask(get("/")).status == 200)
                let second = try RawClient(port: port)
                try second.send(get("/slow") + ahead)
                #expect(try second.answer()?.status == 503)
                for _ in 0...1500 { #expect(try first.answer()?.status == 200) }
            }
        )
    }

    @Test("A connection over the limit waits until another one is closed")
    func connectionsOverTheLimitWait() async throws {
        var limits = HTTPLimits()
        limits.connectionsMax = 2
        try await withServer(limits: limits, loops: 1) { port in
            var clients = try (0..<2).map { _ in try RawClient(port: port) }
            for client in clients { #expect(try client.ask(get("/")).status == 200) }
            let third = try RawClient(port: port)
            try third.send(get("/third"))
            clients.removeLast()
            #expect(try third.answer()?.text.hasPrefix("GET|/third|") == true)
        }
    }
}

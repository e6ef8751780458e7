// HTTPLifeTests: start, deadlines and drain of a server, through a socket.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore
import TidelineTestKit

struct HTTPStartTests {
    private static func server(_ host: String, _ port: Int = 0) -> HTTPServer {
        HTTPServer(host: host, port: port, limits: HTTPLimits(), handler: echo)
    }

    @Test(
        "A server listens on a host name or address",
        arguments: [
            ("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"),
            ("::1", "::1"), ("[::1]", "::1"),
        ]
    )
    func listensOn(_ host: String, reachedAt peer: String) async throws {
        let server = Self.server(host)
        let port = try server.start()
        let status = try await blocking {
            try RawClient(port: port, host: peer).ask(get("/")).status
        }
        #expect(status == 200)
        await server.drain()
    }

    /// An address that no other test uses, so that none takes the port in between; a Mac has only one.
    private static let ownHost: String = {
        #if os(Linux)
        return "127.0.0.2"
        #else
        return "127.0.0.1"
        #endif
    }()

    @Test("A port in use is an error that names the address")
    func portInUseIsAnError() async throws {
        let first = Self.server(Self.ownHost)
        let port = try first.start()
        let second = Self.server(Self.ownHost, port)
        let error = #expect(throws: HTTPServerError.self) { try second.start() }
        #expect(error?.code == .addressInUse)
        #expect(error?.message.contains("\(Self.ownHost):\(port)") == true)
        await first.drain()
        #expect(try second.start() == port)
        await second.drain()
    }

    @Test("A second start of a server is an error, also after it was drained")
    func secondStartIsAnError() async throws {
        let server = Self.server("127.0.0.1")
        _ = try server.start()
        #expect(throws: HTTPServerError.self) { try server.start() }
        await server.drain()
        let error = #expect(throws: HTTPServerError.self) { try server.start() }
        #expect(error?.code == .alreadyStarted)
    }

    @Test(
        "An invalid or unavailable address is rejected",
        arguments: [
            ("example", 0, HTTPServerError.Code.addressInvalid),
            ("", 0, .addressInvalid),
            ("127.0.0.1", 65_536, .addressInvalid),
            ("127.0.0.1", -1, .addressInvalid),
            ("192.0.2.1", 0, .addressUnavailable),
        ]
    )
    func invalidAddressIsRejected(_ host: String, _ port: Int, _ code: HTTPServerError.Code) {
        let error = #expect(throws: HTTPServerError.self) { try Self.server(host, port).start() }
        #expect(error?.code == code)
    }
}

struct HTTPDeadlineTests {
    /// Sends bytes with pauses; returns whether the server closes the connection before the last of them.
    private static func isClosed(whileSlow client: RawClient) -> Bool {
        for _ in 0..<80 {
            do { try client.send("x") } catch { return true }
            // A slow caller: the deadlines of connections are times of a real clock.
            usleep(50_000)
        }
        return false
    }

    @Test("A caller that sends its request head too slowly is disconnected")
    func slowHeadIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            #expect(Self.isClosed(whileSlow: client))
        }
    }

    @Test(
        "A caller with an unfinished request gets a timeout response",
        arguments: [
            "GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\nContent-Length: 10\r\n\r\nabc",
        ]
    )
    func slowRequestIsAnswered(_ raw: String) async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        limits.requestTimeMax = .milliseconds(300)
        let answer = try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            try client.send(raw)
            let answer = try client.answer()
            #expect(try client.rest() == "")
            return answer
        }
        #expect(answer?.status == 408)
        #expect(answer?.headers["Connection"] == "close")
        #expect(answer?.headers["X-Request-ID"] == "mine")
        #expect(answer?.headers["Content-Type"] == "application/problem+json")
    }

    @Test("A caller that sends a later request head too slowly is disconnected")
    func slowHeadOfALaterRequestIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            #expect(try client.ask(get("/")).status == 200)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            #expect(Self.isClosed(whileSlow: client))
        }
    }

    @Test("A connection on which the caller sends nothing is closed")
    func silentConnectionIsClosed() async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            // The client waits for ten seconds, and no other deadline is as short.
            let answer = try RawClient(port: port).answer()
            #expect(answer == nil)
        }
    }

    @Test("A caller that sends its body too slowly is disconnected")
    func slowBodyIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.requestTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n")
            #expect(Self.isClosed(whileSlow: client))
        }
    }

    @Test("A chunk line that never ends is rejected, and the server continues to serve")
    func endlessChunkLineIsDisconnected() async throws {
        try await withServer { port in
            for line in [
                String(repeating: "0", count: 100_000),
                "1;" + String(repeating: "x", count: 100_000),
            ] {
                let client = try RawClient(port: port)
                try? client.send(
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + line
                )
                // The server closes the connection with unread bytes, which may reset it before the answer is read.
                #expect(try client.answer()?.status ?? 400 == 400)
                #expect(try RawClient(port: port).ask(get("/")).status == 200)
            }
        }
    }

    @Test("A caller that has shut down its sending side still gets the response")
    func halfClosedCallersAreAnswered() async throws {
        try await withServer { port in
            let others = try (0..<50).map { _ in try RawClient(port: port) }
            for _ in 0..<50 {
                let client = try RawClient(port: port)
                try client.send(get("/"))
                client.finishSending()
                #expect(try client.answer()?.status == 200)
            }
            #expect(others.count == 50)
        }
    }

    @Test("An idle connection is closed after a response")
    func idleConnectionIsClosed() async throws {
        var limits = HTTPLimits()
        limits.idleTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            #expect(try client.ask(get("/")).status == 200)
            // The client waits for ten seconds, and no other deadline is as short.
            #expect(try client.answer() == nil)
        }
    }

    @Test("A caller that does not read its response is disconnected")
    func peerThatDoesNotReadIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.idleTimeMax = .milliseconds(300)
        let traffic = ServerTraffic(answersBytesMax: limits.answersBytesMax)
        let entered = ServerTraffic.Counter()
        try await withServer(
            limits: limits,
            traffic: traffic,
            handler: { _ in
                entered.add()
                return ServerResponse(status: 200, body: Array(repeating: 0, count: 48 << 20))
            },
            body: { port in
                let client = try RawClient(port: port)
                try client.send(get("/"))
                try blockingUntil { entered.current == 1 }
                try blockingUntil { traffic.connections.current == 0 }
                #expect(throws: RawClientError.self) { try client.answer() }
            }
        )
    }

    @Test("A slow handler is cancelled, and its caller gets status 503")
    func slowHandlerIsCancelledAndAnsweredFor() async throws {
        let wasCancelled = Mutex(false)
        var limits = HTTPLimits()
        limits.handlerTimeMax = .milliseconds(300)
        try await withServer(
            limits: limits,
            handler: { request in
                guard request.path == "/slow" else { return await echo(request) }
                do {
                    try await Task.sleep(for: .seconds(3600))
                } catch {
                    wasCancelled.withLock { $0 = true }
                }
                return await echo(request)
            },
            body: { port in
                let client = try RawClient(port: port)
                let answer = try client.ask(get("/slow"))
                #expect(answer.status == 503)
                #expect(answer.headers["Content-Type"] == "application/problem+json")
                #expect(try client.ask(get("/next")).text.hasPrefix("GET|/next|"))
            }
        )
        #expect(wasCancelled.withLock { $0 })
    }

    @Test("The late response of a slow handler is not sent")
    func lateAnswerOfASlowHandlerIsDropped() async throws {
        var limits = HTTPLimits()
        // Long enough for the short ones on a busy machine.
        limits.handlerTimeMax = .seconds(3)
        let gate = AsyncGate()
        let returned = ServerTraffic.Counter()
        try await withServer(
            limits: limits,
            handler: { request in
                guard request.path == "/stubborn" else { return await echo(request) }
                await gate.wait()
                defer { returned.add() }
                return await echo(request)
            },
            body: { port in
                let client = try RawClient(port: port)
                #expect(try client.ask(get("/stubborn")).status == 503)
                for number in 0..<20 {
                    if number == 10 {
                        gate.open()
                        try blockingUntil { returned.current == 1 }
                    }
                    let answer = try client.ask(get("/short?\(number)"))
                    #expect(answer.text.hasPrefix("GET|/short|\(number)\n"))
                }
            }
        )
    }
}

struct HTTPDrainTests {
    private static func isRejected(_ port: Int) -> Bool {
        do {
            _ = try RawClient(port: port)
            return false
        } catch {
            return (error as? RawClientError)?.systemError == ECONNREFUSED
        }
    }

    @Test("A drain finishes a running request, closes idle connections and accepts no new one")
    func requestUnderWayIsFinishedAndTheRestRejected() async throws {
        let (isOpen, gate) = AsyncStream<Void>.makeStream()
        let (entered, enter) = AsyncStream<Void>.makeStream()
        let (idle, isIdle) = AsyncStream<Void>.makeStream()
        let server = HTTPServer(host: "127.0.0.1", port: 0, limits: HTTPLimits()) { request in
            if request.path == "/slow" {
                enter.finish()
                for await _ in isOpen {}
            }
            return await echo(request)
        }
        let port = try server.start()
        async let idleEnd = blocking {
            let client = try RawClient(port: port)
            #expect(try client.ask(get("/")).status == 200)
            isIdle.finish()
            return try client.answer() == nil
        }
        async let slow = blocking {
            let client = try RawClient(port: port)
            let answer = try client.ask(get("/slow"))
            #expect(try client.answer() == nil)
            return answer
        }
        for await _ in entered {}
        for await _ in idle {}
        async let drained: Void = server.drain()
        async let drainedAgain: Void = server.drain()
        try await blocking { try blockingUntil { Self.isRejected(port) } }
        #expect(try await idleEnd)
        gate.finish()
        let answer = try await slow
        #expect(answer.status == 200)
        #expect(answer.headers["Connection"]?.lowercased() == "close")
        _ = await (drained, drainedAgain)
        await server.drain()
    }

    @Test("A drain ends in time although a handler ignores its cancellation")
    func drainEndsInTime() async throws {
        var limits = HTTPLimits()
        limits.drainTimeMax = .milliseconds(300)
        let (entered, enter) = AsyncStream<Void>.makeStream()
        // The handler ignores its cancellation.
        let gate = AsyncGate()
        let server = HTTPServer(host: "127.0.0.1", port: 0, limits: limits) { request in
            enter.finish()
            await gate.wait()
            return await echo(request)
        }
        let port = try server.start()
        async let slow = blocking { try RawClient(port: port).ask(get("/slow")).status }
        for await _ in entered {}
        await server.drain()
        #expect(try await slow == 503)
        gate.open()
    }

    @Test("A handler that is cancelled at shutdown runs to its end")
    func cancelledHandlersEnd() async throws {
        var limits = HTTPLimits()
        limits.drainTimeMax = .milliseconds(300)
        let (entered, enter) = AsyncStream<Void>.makeStream()
        let (ended, end) = AsyncStream<Void>.makeStream()
        let server = HTTPServer(host: "127.0.0.1", port: 0, limits: limits) { request in
            enter.finish()
            try? await Task.sleep(for: .seconds(3600))
            end.finish()
            return await echo(request)
        }
        let port = try server.start()
        async let slow = blocking { try RawClient(port: port).ask(get("/slow")).status }
        for await _ in entered {}
        await server.drain()
        for await _ in ended {}
        #expect(try await slow == 503)
    }

    @Test("A drain of an idle server does not last until its time limit", .timeLimit(.minutes(10)))
    func drainOfAnIdleServerIsQuick() async throws {
        var limits = HTTPLimits()
        limits.drainTimeMax = .seconds(3600)
        let server = HTTPServer(host: "127.0.0.1", port: 0, limits: limits, handler: echo)
        _ = try server.start()
        await server.drain()
    }
}

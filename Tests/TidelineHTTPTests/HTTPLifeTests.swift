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

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"),
        ("::1", "::1"), ("[::1]", "::1"),
    ])
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

    @Test func portInUseIsAnError() async throws {
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

    @Test func secondStartIsAnError() async throws {
        let server = Self.server("127.0.0.1")
        _ = try server.start()
        #expect(throws: HTTPServerError.self) { try server.start() }
        await server.drain()
        let error = #expect(throws: HTTPServerError.self) { try server.start() }
        #expect(error?.code == .alreadyStarted)
    }

    @Test(arguments: [
        ("example", 0, HTTPServerError.Code.addressInvalid),
        ("", 0, .addressInvalid),
        ("127.0.0.1", 65_536, .addressInvalid),
        ("127.0.0.1", -1, .addressInvalid),
        ("192.0.2.1", 0, .addressUnavailable),
    ])
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

    @Test func slowHeadIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            #expect(Self.isClosed(whileSlow: client))
        }
    }

    /// A caller that has started a request receives the reason.
    @Test(arguments: [
        "GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\nContent-Length: 10\r\n\r\nabc",
    ])
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

    @Test func slowHeadOfALaterRequestIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            #expect(try client.ask(get("/")).status == 200)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            #expect(Self.isClosed(whileSlow: client))
        }
    }

    @Test func silentConnectionIsClosed() async throws {
        var limits = HTTPLimits()
        limits.headerTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            // The client waits for ten seconds, and no other deadline is as short.
            let answer = try RawClient(port: port).answer()
            #expect(answer == nil)
        }
    }

    @Test func slowBodyIsDisconnected() async throws {
        var limits = HTTPLimits()
        limits.requestTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n")
            #expect(Self.isClosed(whileSlow: client))
        }
    }

    @Test func endlessChunkLineIsDisconnected() async throws {
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

    /// A caller that has shut down its sending side still gets the response.
    @Test func halfClosedCallersAreAnswered() async throws {
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

    @Test func idleConnectionIsClosed() async throws {
        var limits = HTTPLimits()
        limits.idleTimeMax = .milliseconds(300)
        try await withServer(limits: limits) { port in
            let client = try RawClient(port: port)
            #expect(try client.ask(get("/")).status == 200)
            // The client waits for ten seconds, and no other deadline is as short.
            #expect(try client.answer() == nil)
        }
    }

    @Test func peerThatDoesNotReadIsDisconnected() async throws {
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

    @Test func slowHandlerIsCancelledAndAnsweredFor() async throws {
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

    @Test func lateAnswerOfASlowHandlerIsDropped() async throws {
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
    private static func isRefused(_ port: Int) -> Bool {
        do {
            _ = try RawClient(port: port)
            return false
        } catch {
            return (error as? RawClientError)?.systemError == ECONNREFUSED
        }
    }

    @Test func requestUnderWayIsFinishedAndTheRestRejected() async throws {
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
        try await blocking { try blockingUntil { Self.isRefused(port) } }
        #expect(try await idleEnd)
        gate.finish()
        let answer = try await slow
        #expect(answer.status == 200)
        #expect(answer.headers["Connection"]?.lowercased() == "close")
        _ = await (drained, drainedAgain)
        await server.drain()
    }

    @Test func drainEndsInTime() async throws {
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

    /// A handler that is cancelled at shutdown runs to its end.
    @Test func cancelledHandlersEnd() async throws {
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

    /// It does not last until its time limit.
    @Test(.timeLimit(.minutes(10))) func drainOfAnIdleServerIsQuick() async throws {
        var limits = HTTPLimits()
        limits.drainTimeMax = .seconds(3600)
        let server = HTTPServer(host: "127.0.0.1", port: 0, limits: limits, handler: echo)
        _ = try server.start()
        await server.drain()
    }
}

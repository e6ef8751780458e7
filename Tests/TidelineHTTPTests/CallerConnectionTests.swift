// CallerConnectionTests: no address locks out other callers: idle connections are closed, and each address has a limit.

import Foundation
import Glibc
import ServerTestSupport
import Synchronization
import Testing
import TidelineHTTP
import TidelineServerCore
import TidelineTestKit

@Suite(.timeLimit(.minutes(10))) struct CallerConnectionTests {
    /// The log lines at level warning.
    private final class Lines: Sendable {
        private let text = Mutex("")

        var log: ServerLog {
            ServerLog(
                level: .warning,
                now: { 0 },
                sink: { line in self.text.withLock { $0 += String(decoding: line, as: UTF8.self) } }
            )
        }

        var all: String { text.withLock { $0 } }
    }

    @Test("The connection that has been idle the longest is closed at the limit")
    func idleConnectionsMakeRoom() async throws {
        var limits = HTTPLimits()
        limits.connectionsMax = 8
        let traffic = ServerTraffic()
        let lines = Lines()
        traffic.warnings.begin(lines.log)
        try await withServer(limits: limits, loops: 1, traffic: traffic) { port in
            var idle: [RawClient] = []
            for _ in 0..<8 {
                let client = try RawClient(port: port)
                #expect(try client.ask(get("/")).status == 200)
                idle.append(client)
            }
            // Each new connection is served, though all other clients stay connected.
            for number in 0..<30 {
                let client = try RawClient(port: port)
                #expect(try client.ask(get("/\(number)")).status == 200)
                idle.append(client)
            }
            // The first ones were closed, the last ones are still open.
            #expect(try idle[0].rest() == "")
            #expect(try idle[37].ask(get("/still")).status == 200)
        }
        #expect(traffic.connectionsEvicted.current >= 30)
        #expect(traffic.callerConnections.most == nil, "all are counted out")
        let warnings = lines.all.split(separator: "\n").filter { $0.contains("limits.connections") }
        #expect(warnings.count == 1 && warnings[0].contains("127.0.0.1"), "\(lines.all)")
    }

    @Test("Connections that send nothing do not lock out other callers")
    func silentConnectionsLockOutNoCaller() async throws {
        var limits = HTTPLimits()
        limits.connectionsMax = 16
        try await withServer(limits: limits, loops: 2) { port in
            let silent = try (0..<60).map { _ in try RawClient(port: port) }
            for _ in 0..<5 {
                let client = try RawClient(port: port)
                #expect(try client.ask(get("/health")).status == 200)
            }
            withExtendedLifetime(silent) {}
        }
    }

    @Test("The health check is served while every connection has a request under way")
    func theHealthCheckIsServedWhileAllConnectionsAreBusy() async throws {
        var limits = HTTPLimits()
        limits.connectionsMax = 2
        let gate = AsyncGate()
        let entered = ServerTraffic.Counter()
        try await withServer(
            limits: limits,
            loops: 1,
            handler: { request in
                if request.path == "/slow" {
                    entered.add()
                    await gate.wait()
                }
                return await echo(request)
            },
            body: { port in
                let busy = try (0..<2).map { _ in try RawClient(port: port) }
                for client in busy { try client.send(get("/slow")) }
                try blockingUntil { entered.current == 2 }
                let probe = try RawClient(port: port)
                #expect(try probe.ask(get("/health")).status == 200)
                let other = try RawClient(port: port)
                #expect(try other.ask(get("/other")).status == 503)
                gate.open()
                for client in busy { #expect(try client.answer()?.status == 200) }
            }
        )
    }

    @Test("An address has at most limits.callerConnections connections")
    func anAddressHasItsShare() async throws {
        var limits = HTTPLimits()
        limits.callerConnectionsMax = 3
        let traffic = ServerTraffic()
        let lines = Lines()
        traffic.warnings.begin(lines.log)
        try await withServer(limits: limits, loops: 2, traffic: traffic) { port in
            var clients = try (0..<3).map { _ in try RawClient(port: port) }
            for client in clients { #expect(try client.ask(get("/")).status == 200) }
            let more = try RawClient(port: port)
            #expect(try more.ask(get("/")).status == 429)
            #expect(try more.rest() == "")
            let probe = try RawClient(port: port)
            #expect(try probe.ask(get("/health")).status == 200)
            clients.removeLast()
            // Two of the three, and the probe.
            try blockingUntil { traffic.connections.current == 3 }
            #expect(try probe.ask(get("/health/ready")).status == 200)
            for client in clients { #expect(try client.ask(get("/")).status == 200) }
        }
        #expect(traffic.connectionsLimited.current == 1)
        #expect(lines.all.contains("limits.callerConnections"))
        #expect(lines.all.contains("127.0.0.1"))
    }

    @Test(
        "The address with the most body bytes loses a request, even behind a proxy",
        arguments: [false, true]
    )
    func bodiesHaveShares(isProxied: Bool) async throws {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 100_000
        limits.bodiesBytesMax = 250_000
        let traffic = ServerTraffic()
        let networks = ["127.0.0.1"].compactMap { IPNetwork($0) }
        let server = HTTPServer(
            host: "127.0.0.1",
            port: 0,
            limits: limits,
            loops: 1,
            ids: RequestIDs(prefix: "a"),
            traffic: traffic,
            proxies: isProxied ? TrustedProxies(networks) : .none,
            rejected: { _, _ in },
            handler: echo
        )
        let port = try server.start()
        try await blocking {
            func head(_ address: String) -> String {
                "POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: \(address)\r\n"
                    + "Content-Length: 100000\r\n\r\n"
            }
            let almost = [UInt8](repeating: 0x61, count: 99_999)
            let hog = try (0..<2).map { _ in
                let client = try RawClient(port: port, host: "127.0.0.1")
                try client.send(head("10.0.0.1"))
                try client.send(almost)
                return client
            }
            try blockingUntil { traffic.requestBytes.current >= 190_000 }
            for number in 0..<3 {
                let other = try RawClient(port: port, host: "127.0.0.1")
                try other.send(head("10.0.0.2"))
                try? other.send(almost)
                // If no proxy is trusted, all connections have one address, and none is closed for the others.
                let isServed = isProxied
                if isServed {
                    #expect(try other.ask("x").status == 200, "\(number)")
                } else {
                    #expect(try other.answer()?.status == 503)
                }
            }
            // One of the two was rejected for the first of the other addresses; the second one continues.
            let answers = try hog.map { client -> Int? in
                try? client.send("x")
                return try client.answer()?.status
            }
            #expect(answers.compactMap { $0 }.sorted() == (isProxied ? [200, 503] : [200, 200]))
        }
        await server.drain()
        #expect(traffic.requestBytes.current == 0 && traffic.callerBytes.most == nil)
    }
}

/// Lets waiting handlers continue once it is open.
final class AsyncGate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}

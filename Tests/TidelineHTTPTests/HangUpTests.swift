// HangUpTests: callers that disconnect while their request runs, and callers that only stop sending.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore

struct HangUpTests {
    /// Waits until it is cancelled.
    private static func waitForCancel() async -> Bool {
        do {
            try await Task.sleep(for: .seconds(3600))
            return false
        } catch {
            return true
        }
    }

    /// Runs a server whose handler reports when it starts and whether it was cancelled.
    private static func wasCancelled(
        by leave: @escaping @Sendable (RawClient) throws -> RawClient?
    ) async throws -> Bool {
        let (entered, enter) = AsyncStream<Void>.makeStream()
        let (results, result) = AsyncStream<Bool>.makeStream()
        let server = HTTPServer(host: "127.0.0.1", port: 0, limits: HTTPLimits()) { _ in
            enter.finish()
            result.yield(await waitForCancel())
            result.finish()
            return ServerResponse(status: 200)
        }
        let port = try server.start()
        let caller = Caller()
        try await blocking {
            let client = try RawClient(port: port)
            try client.send(get("/"))
            caller.client = client
        }
        for await _ in entered {}
        try await blocking { caller.client = try caller.client.flatMap(leave) }
        var cancelled = false
        for await value in results { cancelled = value }
        await server.drain()
        return cancelled
    }

    @Test("A reset connection cancels the handler") func resetCancelsTheHandler() async throws {
        let cancelled = try await Self.wasCancelled { client in
            client.abort()
            return nil
        }
        #expect(cancelled)
    }

    /// A closed connection looks like a half-closed one until data is sent to it.
    @Test("A closed connection cancels the handler") func closeCancelsTheHandler() async throws {
        #expect(try await Self.wasCancelled { _ in nil })
    }

    @Test("A caller that shut down its sending side gets the response of a slow handler")
    func halfClosedCallersOfSlowHandlersAreAnswered() async throws {
        let gate = AsyncGate()
        let (interim, status) = try await withServer(
            handler: { _ in
                await gate.wait()
                return ServerResponse(status: Task.isCancelled ? 500 : 201)
            },
            body: { port in
                let client = try RawClient(port: port)
                try client.send(get("/"))
                client.finishSending()
                var interim = 0
                while true {
                    let status = try client.answer()?.status
                    guard status == 100 else { return (interim, status) }
                    interim += 1
                    gate.open()
                }
            }
        )
        #expect(interim > 0 && status == 201)
    }

    /// HTTP/1.0 has no interim responses.
    @Test("A half-closed HTTP/1.0 caller gets only the final response")
    func halfClosedCallersOfVersion10GetOnlyTheFinalResponse() async throws {
        let answer = try await withServer(
            handler: { _ in
                // A response that is slower than the server's checks of half-closed connections.
                try? await Task.sleep(for: .milliseconds(1200))
                return ServerResponse(status: 201)
            },
            body: { port in
                let client = try RawClient(port: port)
                try client.send("GET / HTTP/1.0\r\n\r\n")
                client.finishSending()
                return try client.rest()
            }
        )
        #expect(answer.hasPrefix("HTTP/1.1 201 "))
    }

    @Test(
        "The response to a cancelled write says that its outcome is unknown",
        arguments: [("GET", false), ("HEAD", false), ("POST", true), ("DELETE", true)]
    )
    func cancelledWritesMayHaveBeenExecuted(_ method: String, _ isUnknown: Bool) async throws {
        var limits = HTTPLimits()
        limits.handlerTimeMax = .milliseconds(300)
        let answer = try await withServer(
            limits: limits,
            handler: { _ in
                _ = await Self.waitForCancel()
                return ServerResponse(status: 200)
            },
            body: { port in
                let client = try RawClient(port: port)
                try client.send("\(method) / HTTP/1.1\r\nHost: a\r\n\r\n")
                return try client.answer(toHead: method == "HEAD")
            }
        )
        #expect(answer?.status == 503 && answer?.headers["Retry-After"] != nil)
        #expect(answer?.text.contains("\"code\":\"outcomeUnknown\"") == isUnknown)
    }
}

/// Unchecked because it is used by one thread at a time: the test awaits each step.
private final class Caller: @unchecked Sendable {
    var client: RawClient?
}

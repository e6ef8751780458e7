// FaultTests: a server that cuts the connection at every point of request and response.
//
// After any fault, a call ends in time with the correct response or error, and the next call of the
// same transport works. These tests show how libcurl retries:
//
// - It never retries on a new connection.
// - If a kept connection ends before any byte of a response, it resends the same request on a new
//   connection, with its whole body, also for PATCH. The server then gets it twice.
// - It ignores a partial status line.
// - It does so whether the kept connection was already closed, or was closed after the server had
//   read the request. Only a request that was still being written may fail instead.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore

enum Fault: String, CaseIterable {
    case afterHeaders
    case withinBody
    case afterBody
    /// libcurl does not recognize it as a response.
    case partialStatus
    case halfField
    case noEndOfHead
    case halfBody
    case halfChunk
    case noLastChunk
    /// A full response before the body was read, then the connection is closed.
    case early
    case never
    case neverReads
    case drips

    var isBeforeResponse: Bool {
        switch self {
        case .afterHeaders, .withinBody, .afterBody, .partialStatus: true
        default: false
        }
    }

    var isSilence: Bool { self == .never || self == .neverReads || self == .drips }
}

#if canImport(CCurl)
extension TransportTests {
    @Suite struct FaultTests {
        struct Cell: Sendable, CustomTestStringConvertible {
            var fault: Fault
            var how: String
            var times = "always"
            var bodyBytes: Int?
            var isReused: Bool

            var method: String { bodyBytes == nil ? "GET" : "PATCH" }
            var testDescription: String {
                "\(fault) \(how) \(times) \(method) \(bodyBytes ?? 0) \(isReused ? "reused" : "fresh")"
            }

            /// How the call may end, and how often the server may have been asked.
            func allows(_ outcome: String, attempts: Int, bodiesComplete: Bool) -> Bool {
                if fault.isBeforeResponse {
                    guard isReused else { return outcome == "connectionLost" && attempts == 1 }
                    let isRepeated = attempts == 2
                    let mayFailWriting = (bodyBytes ?? 0) > 1_000
                    if times == "once", isRepeated { return outcome == "200" && bodiesComplete }
                    return outcome == "connectionLost" && (isRepeated || mayFailWriting)
                }
                guard attempts == 1 else { return false }
                switch fault {
                case .early: return outcome == "413" || outcome == "connectionLost"
                default: return outcome == "incompleteResponse"
                }
            }
        }

        static let cells: [Cell] = Fault.allCases.filter { !$0.isSilence }.flatMap { fault in
            ["fin", "rst"].flatMap { how in
                [nil, 100, 300_000].flatMap { bodyBytes -> [Cell] in
                    let fresh = Cell(fault: fault, how: how, bodyBytes: bodyBytes, isReused: false)
                    var reused = fresh
                    reused.isReused = true
                    var once = reused
                    once.times = "once"
                    guard fault != .withinBody || bodyBytes != nil else { return [] }
                    return fault.isBeforeResponse ? [fresh, reused, once] : [fresh, reused]
                }
            }
        }

        private let server = FaultyServer.shared

        @Test(
            "Each network fault has an allowed outcome, and the next call succeeds",
            arguments: cells
        )
        func endsRightly(_ cell: Cell) async throws {
            let transport = CurlTransport()
            if cell.isReused { try await expectFine(transport) }
            let id = UUID().uuidString
            let outcome = await outcome(of: cell, id, over: transport, timeout: .seconds(8))
            let attempts = server.attempts(of: id)
            let isAllowed = cell.allows(
                outcome,
                attempts: attempts.count,
                bodiesComplete: attempts.last?.bodyBytes == cell.bodyBytes ?? 0
            )
            #expect(isAllowed, "\(cell.testDescription): \(outcome) after \(attempts)")
            try await expectFine(transport)
        }

        @Test("A call to a silent or slow server ends at its timeout")
        func silenceEndsAtTheTimeout() async throws {
            let cells = [Fault.never, .neverReads, .drips].flatMap { fault in
                [nil, 100, 300_000].flatMap { bodyBytes in
                    [false, true].map { isReused in
                        Cell(fault: fault, how: "fin", bodyBytes: bodyBytes, isReused: isReused)
                    }
                }
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for cell in cells { group.addTask { try await expectTimeout(cell) } }
                try await group.waitForAll()
            }
        }

        private func expectTimeout(_ cell: Cell) async throws {
            let transport = CurlTransport()
            if cell.isReused { try await expectFine(transport) }
            let clock = ContinuousClock()
            let start = clock.now
            let outcome = await outcome(
                of: cell,
                UUID().uuidString,
                over: transport,
                timeout: .milliseconds(300)
            )
            let elapsed = clock.now - start
            #expect(outcome == "timedOut")
            // No other limit of a call would end it as a timeout: the server closes silent connections.
            #expect(elapsed >= .milliseconds(250), "\(elapsed)")
            try await expectFine(transport)
        }

        @Test(
            "A call over an idle connection that was cut fails only if its body is large",
            arguments: ["fin", "rst"],
            [nil, 100, 300_000]
        )
        func idleConnectionThatWasCutIsNotNoticed(how: String, bodyBytes: Int?) async throws {
            for delay in [0, 0, 0, 200, 500, 5_000] {
                let transport = CurlTransport()
                let warm = try await transport.send(get("/idle/\(how)"))
                #expect(warm.status == 200)
                // Before, while and after the system learns of the end of the connection.
                usleep(UInt32(delay))
                let id = UUID().uuidString
                let cell = Cell(
                    fault: .afterBody,
                    how: how,
                    times: "none",
                    bodyBytes: bodyBytes,
                    isReused: true
                )
                var request = self.request(of: cell, id, timeout: .seconds(8))
                request.url = server.url("/fault/none/\(how)/once/\(id)")
                let outcome = await outcome(of: request, over: transport)
                let attempts = server.attempts(of: id)
                if bodyBytes == 300_000, attempts.isEmpty {
                    // The connection failed while the large body was written, so the outcome is unknown.
                    #expect(outcome == "connectionLost")
                } else {
                    #expect(outcome == "200")
                    #expect(attempts.map(\.bodyBytes) == [bodyBytes ?? 0])
                }
                try await expectFine(transport)
            }
        }

        @Test(
            "A call over an idle connection that is known to be cut succeeds, whatever its size",
            arguments: ["fin", "rst"],
            [nil, 100, 300_000]
        )
        func idleConnectionThatIsKnownToBeCut(how: String, bodyBytes: Int?) async throws {
            let transport = CurlTransport()
            let (warmID, id) = (UUID().uuidString, UUID().uuidString)
            #expect(try await transport.send(get("/idle/\(how)/\(warmID)")).status == 200)
            await server.arrival(of: warmID)
            let cell = Cell(
                fault: .afterBody,
                how: how,
                times: "none",
                bodyBytes: bodyBytes,
                isReused: true
            )
            var request = self.request(of: cell, id, timeout: .seconds(8))
            request.url = server.url("/fault/none/\(how)/once/\(id)")
            #expect(await outcome(of: request, over: transport) == "200")
            #expect(server.attempts(of: id).map(\.bodyBytes) == [bodyBytes ?? 0])
            try await expectFine(transport)
        }

        /// The second attempt cannot connect, but the first may have been executed.
        @Test("A repeated call that cannot connect still has an unknown outcome")
        func rejectedRepetitionIsStillUnknown() async throws {
            let server = FaultyServer()
            let transport = CurlTransport()
            let warm = try await transport.send(TransportRequest(url: server.url("/ok")))
            #expect(warm.status == 200)
            let last = TransportRequest(method: "PATCH", url: server.url("/last"), body: [1, 2, 3])
            await #expect { try await transport.send(last) } throws: { error in
                let error = error as? TransportError
                return error?.code == .connectionLost && error?.outcomeIsUnknown == true
            }
            // This call certainly sends nothing.
            await #expect { try await transport.send(last) } throws: { error in
                let error = error as? TransportError
                return error?.code == .cannotConnect && error?.outcomeIsUnknown == false
            }
        }

        private func outcome(
            of cell: Cell,
            _ id: String,
            over transport: CurlTransport,
            timeout: Duration
        ) async -> String {
            await outcome(of: request(of: cell, id, timeout: timeout), over: transport)
        }

        private func outcome(
            of request: TransportRequest,
            over transport: CurlTransport
        ) async -> String {
            do {
                return String(try await transport.send(request).status)
            } catch let error as TransportError {
                #expect(error.outcomeIsUnknown, "\(error)")
                #expect(!error.message.contains("fault"), "a message does not contain the path")
                return error.code.description
            } catch {
                return "\(error)"
            }
        }

        private func request(of cell: Cell, _ id: String, timeout: Duration) -> TransportRequest {
            TransportRequest(
                method: cell.method,
                url: server.url("/fault/\(cell.fault)/\(cell.how)/\(cell.times)/\(id)"),
                headers: ["Content-Type": "application/json"],
                body: cell.bodyBytes.map { [UInt8](repeating: 0x61, count: $0) },
                timeout: timeout
            )
        }

        private func get(_ path: String) -> TransportRequest {
            TransportRequest(url: server.url(path))
        }

        private func expectFine(_ transport: CurlTransport) async throws {
            let response = try await transport.send(get("/ok"))
            #expect(response.status == 200)
            #expect(response.body.count == 200)
        }
    }
}
#endif

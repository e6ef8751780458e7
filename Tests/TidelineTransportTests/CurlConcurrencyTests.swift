// CurlConcurrencyTests: many concurrent calls, deadlines, cancellation and speed.

import Foundation
import Testing
import Tideline
import TidelineCore

#if canImport(CCurl)
extension TransportTests {
    @Suite struct CurlConcurrencyTests {
        private let server = FaultyServer.shared
        private let clock = ContinuousClock()

        @Test("One transport serves many tasks at the same time")
        func servesManyTasksAtOnce() async throws {
            let transport = CurlTransport()
            let url = server.url("/echo")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<32 {
                    group.addTask {
                        for call in 0..<20 {
                            let body = Array("call \(call) of task \(task)".utf8)
                            let request = TransportRequest(method: "POST", url: url, body: body)
                            let response = try await transport.send(request)
                            #expect(response.body == body)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }

        @Test("A call that waits for a connection ends at its own deadline and is not sent")
        func aWaitingCallEndsByItsOwnDeadline() async throws {
            var limits = TransportLimits()
            limits.callsMax = 1
            let transport = CurlTransport(limits: limits)
            let id = UUID().uuidString
            let first = Task { try await transport.send(silent(id, timeout: .seconds(600))) }
            await server.arrival(of: id)
            let start = clock.now
            await #expect {
                try await transport.send(silent(timeout: .milliseconds(200)))
            } throws: {
                ($0 as? TransportError)?.code == .cannotConnect
                    && ($0 as? TransportError)?.outcomeIsUnknown == false
            }
            let elapsed = clock.now - start
            #expect(elapsed >= .milliseconds(200), "\(elapsed)")
            // The first call still has the connection.
            first.cancel()
            await #expect(throws: CancellationError.self) { try await first.value }
            let next = try await transport.send(TransportRequest(url: server.url("/ok")))
            #expect(next.status == 200)
        }

        /// A listener with a full queue does not respond, so connecting hangs.
        @Test("Connecting ends at the connect timeout", .timeLimit(.minutes(5)))
        func connectingEndsByTheConnectTimeout() async throws {
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            let port = FaultyServer.bindToLoopback(listener)
            listen(listener, 0)
            defer { close(listener) }
            let fillers = (0..<4).map { _ in Self.connectWithoutWaiting(to: port) }
            defer { for filler in fillers { close(filler) } }
            var limits = TransportLimits()
            limits.connectTimeout = .milliseconds(250)
            let transport = CurlTransport(limits: limits)
            let url = try #require(URL(string: "http://127.0.0.1:\(port)/"))
            let start = clock.now
            let request = TransportRequest(url: url, timeout: .seconds(600))
            await #expect { try await transport.send(request) } throws: {
                ($0 as? TransportError)?.code == .cannotConnect
                    && ($0 as? TransportError)?.outcomeIsUnknown == false
            }
            let elapsed = clock.now - start
            // The call's own timeout would exceed the time limit of the test.
            #expect(elapsed >= .milliseconds(200), "\(elapsed)")
        }

        @Test("A call to a silent server ends at the stall timeout")
        func aStalledCallEnds() async throws {
            var limits = TransportLimits()
            limits.stallTimeout = .seconds(1)
            limits.connectTimeout = .seconds(600)
            let transport = CurlTransport(limits: limits)
            let start = clock.now
            await #expect { try await transport.send(silent(timeout: .seconds(600))) } throws: {
                ($0 as? TransportError)?.code == .timedOut
            }
            let elapsed = clock.now - start
            // A silent connection of the server ends before any other limit.
            #expect(elapsed >= .seconds(1), "\(elapsed)")
        }

        @Test("Cancellation ends a call at once") func cancellationEndsACallAtOnce() async throws {
            let transport = CurlTransport()
            for _ in 0..<5 {
                let id = UUID().uuidString
                let call = Task { try await transport.send(silent(id, timeout: .seconds(600))) }
                await server.arrival(of: id)
                call.cancel()
                await #expect(throws: CancellationError.self) { try await call.value }
            }
            let response = try await transport.send(TransportRequest(url: server.url("/ok")))
            #expect(response.status == 200)
        }

        @Test("A cancelled task sends nothing") func aCancelledTaskSendsNothing() async throws {
            let transport = CurlTransport()
            let id = UUID().uuidString
            let request = TransportRequest(url: server.url("/fault/none/fin/once/\(id)"))
            let call = Task {
                while !Task.isCancelled { await Task.yield() }
                return try await transport.send(request)
            }
            call.cancel()
            await #expect(throws: CancellationError.self) { try await call.value }
            #expect(server.attempts(of: id).isEmpty)
        }

        @Test("Every call ends once, with cancellations and deadlines in any order")
        func cancellationsAtAnyMomentLeaveNothingBehind() async throws {
            // Only the deadlines and cancellations of the test end a call early, however busy the machine is.
            var limits = TransportLimits()
            limits.connectTimeout = .seconds(600)
            limits.stallTimeout = .seconds(600)
            let transport = CurlTransport(limits: limits)
            let url = server.url("/ok")
            let ended = await withTaskGroup(of: Int.self) { group in
                for index in 0..<300 {
                    group.addTask {
                        let hasDeadline = index % 5 == 0
                        let isCancelled = index % 3 == 0
                        let timeout: Duration =
                            hasDeadline ? .microseconds(index * 20) : .seconds(600)
                        let request = TransportRequest(url: url, timeout: timeout)
                        let call = Task { try await transport.send(request).status }
                        if isCancelled {
                            for _ in 0..<index { await Task.yield() }
                            call.cancel()
                        }
                        switch await call.result {
                        case .success(let status): #expect(status == 200)
                        case .failure(is TransportError): #expect(hasDeadline, "call \(index)")
                        case .failure(is CancellationError):
                            #expect(isCancelled, "call \(index)")
                        case .failure(let error): Issue.record(error, "call \(index)")
                        }
                        return 1
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(ended == 300)
            let response = try await transport.send(TransportRequest(url: url))
            #expect(response.status == 200)
        }

        @Test("The threads of released transports end")
        func transportsEndWithTheirThreads() async throws {
            let before = try Self.transportThreads()
            var livingMax = 0
            for _ in 0..<40 {
                let transport = CurlTransport()
                let response = try await transport.send(TransportRequest(url: server.url("/ok")))
                #expect(response.status == 200)
                livingMax = max(livingMax, try Self.transportThreads())
                withExtendedLifetime(transport) {}
            }
            // One reading may miss a thread, because the list changes while it is read.
            #expect(livingMax > 0)
            var waits = 0
            // Other tests may use a few transports at the same time.
            while try Self.transportThreads() > before + 10, waits < 200 {
                // Threads end by themselves, which only the list of the system shows.
                try await Task.sleep(for: .milliseconds(10))
                waits += 1
            }
            #expect(waits < 200)
        }

        @Test("Sequential calls use one connection")
        func sequentialCallsKeepOneConnection() async throws {
            let transport = CurlTransport()
            let request = TransportRequest(url: server.url("/echo"))
            let first = try await transport.send(request).headers["X-Connection"]
            let count = 1_000
            let start = clock.now
            for _ in 0..<count {
                let response = try await transport.send(request)
                #expect(response.headers["X-Connection"] == first)
            }
            let perCall = (clock.now - start) / count
            print("CurlTransport: \(perCall) for a sequential call (with the test's own server)")
        }

        private func silent(
            _ id: String = UUID().uuidString,
            timeout: Duration
        ) -> TransportRequest {
            TransportRequest(url: server.url("/fault/never/fin/always/\(id)"), timeout: timeout)
        }

        private static func transportThreads() throws -> Int {
            let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
            return tasks.count { task in
                let name = try? String(
                    contentsOfFile: "/proc/self/task/\(task)/comm",
                    encoding: .utf8
                )
                return name?.hasPrefix("tideline.http") == true
            }
        }

        private static func connectWithoutWaiting(to port: Int) -> Int32 {
            let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
            let descriptor = socket(AF_INET, kind, 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            address.sin_port = UInt16(port).bigEndian
            withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                    _ = connect(descriptor, generic, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            return descriptor
        }
    }
}
#endif

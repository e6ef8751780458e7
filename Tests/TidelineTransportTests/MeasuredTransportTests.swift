// MeasuredTransportTests: the metrics that an app gets for each call.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore

@Suite struct MeasuredTransportTests {
    /// A transport that responds to every call, or fails it.
    private struct Answering: Transport {
        var status: Int?

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            // The call takes a measurable time on any clock.
            let start = ContinuousClock.now
            while start == .now {}
            guard let status else {
                throw TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false)
            }
            return TransportResponse(status: status, body: [1, 2, 3])
        }
    }

    /// Returns the metrics of a call, and of a stream, which this transport does not support.
    private func told(_ inner: Answering) async throws -> [CallMetrics] {
        let told = Mutex<[CallMetrics]>([])
        let transport = MeasuredTransport(inner) { metrics in
            told.withLock { $0.append(metrics) }
        }
        let url = try #require(URL(string: "https://example.org:8443/tables/T?$filter=secret"))
        let start = ContinuousClock.now
        _ = try? await transport.send(TransportRequest(method: "POST", url: url, body: [0, 0]))
        let around = ContinuousClock.now - start
        _ = try? await transport.stream(TransportRequest(method: "GET", url: url))
        let calls = told.withLock { $0 }
        let duration = try #require(calls.first).duration
        #expect(duration > .zero && duration <= around)
        return calls
    }

    @Test("Each call is reported with its status and the bytes sent and received")
    func eachCallIsTold() async throws {
        let calls = try await told(Answering(status: 201))
        #expect(calls.map(\.method) == ["POST", "GET"])
        #expect(calls.map(\.status) == [201, nil])
        #expect(calls.map(\.sentBytes) == [2, 0])
        #expect(calls.map(\.receivedBytes) == [3, 0])
        #expect(calls.allSatisfy { $0.origin.contains("example.org") })
        #expect(calls.allSatisfy { !"\($0)".contains("secret") })
    }

    @Test("A call that fails is reported, too") func aCallThatFailsIsToldToo() async throws {
        #expect(try await told(Answering(status: nil)).map(\.status) == [nil, nil])
    }
}

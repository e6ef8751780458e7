// MeasuredTransport: what an app is told of each call.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore

@Suite struct MeasuredTransportTests {
    /// Answers every call, or fails it.
    private struct Answering: Transport {
        var status: Int?

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard let status else {
                throw TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false)
            }
            return TransportResponse(status: status, body: [1, 2, 3])
        }
    }

    private func told(_ inner: Answering) async throws -> [CallMetrics] {
        let told = Mutex<[CallMetrics]>([])
        let transport = MeasuredTransport(inner) { metrics in
            told.withLock { $0.append(metrics) }
        }
        let url = try #require(URL(string: "https://example.org:8443/tables/T?$filter=secret"))
        _ = try? await transport.send(TransportRequest(method: "POST", url: url, body: [0, 0]))
        _ = try? await transport.stream(TransportRequest(method: "GET", url: url))
        return told.withLock { $0 }
    }

    @Test func eachCallIsTold() async throws {
        let calls = try await told(Answering(status: 201))
        #expect(calls.map(\.method) == ["POST", "GET"])
        #expect(calls.map(\.status) == [201, nil])
        #expect(calls.map(\.sentBytes) == [2, 0])
        #expect(calls.map(\.receivedBytes) == [3, 0])
        #expect(calls.allSatisfy { $0.origin.contains("example.org") })
        #expect(calls.allSatisfy { !"\($0)".contains("secret") })
    }

    @Test func aCallThatFailsIsToldToo() async throws {
        #expect(try await told(Answering(status: nil)).map(\.status) == [nil, nil])
    }
}

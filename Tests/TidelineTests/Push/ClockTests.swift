// Devices with a wrong wall clock: their writes are accepted.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ClockTests {
    /// Counts the writes that the server rejects because of the time of their first attempt.
    private final class Watch: Transport {
        let inner: any Transport
        let rejected = Mutex(0)

        init(_ inner: any Transport) { self.inner = inner }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let response = try await inner.send(request)
            let text = String(decoding: response.body, as: UTF8.self)
            let count = text.split(separator: "repeatabilityAhead").count - 1
            let old = text.split(separator: "repeatabilityExpired").count - 1
            rejected.withLock { $0 += count + old }
            return response
        }
    }

    @Test(
        "A wrong wall clock delays no write, because the device adopts the server's time",
        arguments: [0, 40, -40, 4000, -4000] as [Int64]
    )
    func aWrongClockDelaysNoWrite(daysAhead: Int64) async throws {
        let server = try await makeServer(ahead: daysAhead * 86_400)
        let watch = Watch(server.transport)
        let device = try await Device(watch)
        for id in ["a", "b", "c"] {
            _ = try await device.todos().insert(Todo(id: id, text: "made"))
        }
        #expect(try await device.push() == nil)
        #expect(try await device.queue() == [])
        let first = watch.rejected.withLock { $0 }
        #expect((first > 0) == (daysAhead != 0))
        try await device.todos().update(id: "a") { $0.text = "edited" }
        try await device.todos().delete(id: "b")
        _ = try await device.todos().insert(Todo(id: "d", text: "made"))
        #expect(try await device.push() == nil)
        #expect(try await device.queue() == [])
        #expect(watch.rejected.withLock { $0 } == first)
        let other = try await Device(server.transport)
        _ = try await other.todos().pull(queryID: nil)
        let rows = try await other.rows().map { [$0["id"], $0["text"]] }
        #expect(rows == [["a", "edited"], ["c", "made"], ["d", "made"]])
    }
}

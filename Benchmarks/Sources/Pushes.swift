// Pushes: pushes of a queue of inserts to the server.

import Foundation
import Tideline

struct Pushes {
    let server: String
    let directory: String
    let count: Int

    private func queue(_ delay: Int = 0) async throws -> Device {
        let slow = delay > 0 ? SlowLink(CurlTransport(), .milliseconds(delay)) : nil
        let device = try await Device.open(in: directory, server: server, transport: slow)
        for start in stride(from: 0, to: count, by: 10_000) {
            let items = (start..<min(count, start + 10_000)).map(TodoItem.numbered)
            try await device.todos.insert(items)
        }
        return device
    }

    /// Measures pushes over a link whose round trip takes `delay` milliseconds.
    func measure(delay: Int) async throws {
        let device = try await queue(delay)
        let usage = Usage()
        let result = try await device.client.syncContext.push()
        let name = "push: \(count) at \(delay) ms"
        Bench.report(name, Double(result.completed) / usage.seconds, "ops/s")
        Bench.report("\(name), time", usage.seconds * 1000, "ms")
        Bench.report("\(name), processor time", usage.processorSeconds * 1000, "ms")
        try await device.remove()
    }

    /// Measures the peak memory of a push of the whole queue.
    func measureMemory() async throws {
        let device = try await queue()
        let before = Memory.megabytes()
        let most = try await Memory.most { try await device.client.syncContext.push() }
        Bench.report("push: memory before \(count)", before, "MB PSS")
        Bench.report("push: memory at most", most, "MB PSS")
        try await device.remove()
    }
}

/// A transport with a delay for each round trip.
private struct SlowLink: Transport {
    private let inner: any Transport
    private let roundTrip: Duration

    init(_ inner: any Transport, _ roundTrip: Duration) {
        self.inner = inner
        self.roundTrip = roundTrip
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await Task.sleep(for: roundTrip)
        return try await inner.send(request)
    }
}

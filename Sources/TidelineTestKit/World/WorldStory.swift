// WorldStory: the events of a simulation, for developers who analyze a violation. Events are
// recorded only on request, because most simulations end without a violation.

import Foundation
import Synchronization
import Tideline

/// The events of a simulation in simulated time, one line each.
final class WorldStory: Sendable {
    private let time: VirtualTime
    private let start: Int64
    private let stored = Mutex<[String]>([])

    init(_ time: VirtualTime) {
        self.time = time
        start = time.now
    }

    var lines: [String] { stored.withLock { $0 } }

    /// Adds an event of a device, the server, or the simulation.
    func add(_ subject: String, _ event: String) {
        let milliseconds = (time.now - start) / 1000
        let seconds = "\(milliseconds / 1000).\(String(milliseconds % 1000 + 1000).dropFirst())"
        let line = "\(seconds) s  \(subject): \(event)"
        stored.withLock { $0.append(line) }
    }
}

/// A device's network, which adds each request and its response to the story.
struct StoryTransport: Transport {
    let inner: any Transport
    let device: String
    let story: WorldStory?

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        add(request)
        do {
            let response = try await inner.send(request)
            story?.add(device, "gets \(response.status) " + Self.text(response.body))
            return response
        } catch {
            story?.add(device, "gets no response")
            throw error
        }
    }

    private func add(_ request: TransportRequest) {
        guard let story else { return }
        var event = "\(request.method) \(request.url.path())"
        if let query = request.url.query(percentEncoded: false) { event += "?\(query)" }
        if let match = request.headers["If-Match"] { event += " If-Match: \(match)" }
        if let body = request.body { event += " " + Self.text(body) }
        story.add(device, "sends " + event)
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        story?.add(device, "listens to events")
        return try await inner.stream(request)
    }

    private static func text(_ body: [UInt8]) -> String {
        String(decoding: body.prefix(2000), as: UTF8.self)
    }
}

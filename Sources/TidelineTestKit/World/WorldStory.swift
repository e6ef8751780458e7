// WorldStory: the events of a world, line by line in simulated time, for a developer who reads a
// violation. Worlds record them only on request: most end well.

import Foundation
import Synchronization
import Tideline

final class WorldStory: Sendable {
    private let time: VirtualTime
    private let start: Int64
    private let stored = Mutex<[String]>([])

    init(_ time: VirtualTime) {
        self.time = time
        start = time.now
    }

    var lines: [String] { stored.withLock { $0 } }

    func tell(_ who: String, _ what: String) {
        let milliseconds = (time.now - start) / 1000
        let seconds = "\(milliseconds / 1000).\(String(milliseconds % 1000 + 1000).dropFirst())"
        let line = "\(seconds) s  \(who): \(what)"
        stored.withLock { $0.append(line) }
    }
}

/// A device's network that adds each request and its answer to the story.
struct StoryTransport: Transport {
    let inner: any Transport
    let who: String
    let story: WorldStory?

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        tell(request)
        do {
            let response = try await inner.send(request)
            story?.tell(who, "gets \(response.status) " + Self.text(response.body))
            return response
        } catch {
            story?.tell(who, "gets no answer")
            throw error
        }
    }

    private func tell(_ request: TransportRequest) {
        guard let story else { return }
        var what = "\(request.method) \(request.url.path())"
        if let query = request.url.query(percentEncoded: false) { what += "?\(query)" }
        if let match = request.headers["If-Match"] { what += " If-Match: \(match)" }
        if let body = request.body { what += " " + Self.text(body) }
        story.tell(who, "sends " + what)
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        story?.tell(who, "listens to events")
        return try await inner.stream(request)
    }

    private static func text(_ body: [UInt8]) -> String {
        String(decoding: body.prefix(2000), as: UTF8.self)
    }
}

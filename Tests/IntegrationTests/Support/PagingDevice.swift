// PagingDevice: a device that only pulls, with delta links or as a classic client, in small pages; and one that pulls
// when an event arrives.

import Foundation
import Synchronization
import Testing
import Tideline

struct PagingDevice: Sendable {
    enum Kind: Sendable {
        /// A list with a delta link, then the link of each response.
        case delta
        /// Rows from the last row's time on, skipping as many as were read at that time.
        case skip
    }

    let name: String
    private let kind: Kind
    private let wire: Wire
    /// The version of each live row.
    private(set) var rows: [String: String] = [:]
    private var link: String?
    private var since = "1970-01-01T00:00:00.000Z"
    private var skipped = 0

    init(_ kind: Kind, _ wire: Wire, _ name: String) {
        self.kind = kind
        self.wire = wire
        self.name = name
    }

    /// Pulls until a page has no changes.
    ///
    /// - Parameter startsOver: Whether the server may reject its link.
    /// - Throws: An error if a response is not one that the device may get.
    mutating func pull(startsOver: Bool = false) async throws {
        switch kind {
        case .delta: try await pullByLinks(startsOver)
        case .skip: try await pullByTime()
        }
    }

    private mutating func pullByLinks(_ startsOver: Bool) async throws {
        while true {
            let target = link ?? "$orderby=updatedAt"
            let answer = try await wire.send(
                "GET",
                target.hasPrefix("http") ? target : "/tables/TodoItem?" + target,
                headers: ["Prefer": "odata.track-changes, maxpagesize=7"]
            )
            if answer.status == 410, startsOver {
                (link, rows) = (nil, [:])
                continue
            }
            try #require(answer.status == 200, "\(name): \(answer.object)")
            try take(answer.rows)
            if let next = answer.object["nextLink"] as? String {
                link = next
                continue
            }
            link = try #require(answer.object["@odata.deltaLink"] as? String)
            return
        }
    }

    private mutating func pullByTime() async throws {
        while true {
            let filter = "$filter=(updatedAt%20ge%20datetimeoffset'\(since)')"
            let answer = try await wire.send(
                "GET",
                "/tables/TodoItem?\(filter)&$orderby=updatedAt&$top=7&$skip=\(skipped)"
                    + "&__includeDeleted=true",
                classic: true
            )
            try #require(answer.status == 200, "\(name): \(answer.object)")
            try take(answer.rows)
            guard let last = answer.rows.last?["updatedAt"] as? String else { return }
            if last == since {
                skipped += answer.rows.count
            } else {
                (since, skipped) = (last, 0)
            }
        }
    }

    private mutating func take(_ page: [[String: Any]]) throws {
        for row in page {
            let id = try #require(row["id"] as? String)
            let isGone = row["@removed"] != nil || row["deleted"] as? Bool == true
            rows[id] = isGone ? nil : try #require(row["version"] as? String)
        }
    }
}

/// A device that listened before its first pull, and pulls after each event.
final class EventDevice: Sendable {
    private struct State {
        var rows: [String: String] = [:]
        var isEnding = false
    }

    let name: String
    private let state = Mutex(State())
    private let work = Mutex<Task<Void, any Error>?>(nil)

    var rows: [String: String] { state.withLock { $0.rows } }

    init(_ device: PagingDevice, _ port: Int) async throws {
        name = device.name
        // One pull is enough for several events that arrived during a pull.
        let (events, told) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        try await withCheckedThrowingContinuation { (ready: CheckedContinuation<Void, any Error>) in
            Thread.detachNewThread {
                defer { told.finish() }
                do {
                    let reader = try EventReader(port, "/$events?tables=TodoItem")
                    ready.resume()
                    while (try? reader.change()) != nil { told.yield() }
                } catch {
                    ready.resume(throwing: error)
                }
            }
        }
        let task = Task { [self] in
            var device = device
            try await device.pull()
            state.withLock { [rows = device.rows] in $0.rows = rows }
            for await _ in events {
                if state.withLock({ $0.isEnding }) { return }
                try await device.pull()
                state.withLock { [rows = device.rows] in $0.rows = rows }
            }
        }
        work.withLock { $0 = task }
    }

    func endAtNextEvent() { state.withLock { $0.isEnding = true } }

    func wait() async throws { try await work.withLock { $0 }?.value }
}

// Route: the resource that a path names.

/// A resource of the server, as a path names it.
package enum Route: Hashable, Sendable {
    case table(String)
    case row(table: String, id: String)
    /// The check of whether the process is running.
    case health
    /// The check of whether the server accepts writes.
    case ready
    case metrics
    /// A batch of requests.
    case batch
    /// The event stream.
    case events
    /// The schema document.
    case schema
    /// An endpoint under `/api`, with the whole path in lower case.
    case endpoint(String)
    /// The page for operators.
    case dashboard
    /// A dashboard request: the segments after `$admin`.
    case admin([String])
    case unknown

    /// Whether the route names a table or a row.
    var isOfTables: Bool {
        switch self {
        case .table, .row, .batch, .schema: true
        case .health, .ready, .metrics, .events, .endpoint, .dashboard, .admin, .unknown: false
        }
    }

    /// The number of segments in the path of a row, and a final empty one.
    private static let segmentsUsual = 4

    /// Splits the path before it decodes each segment, so that `%2F` stays in its segment.
    package init(path: String) throws {
        var segments: [String] = []
        segments.reserveCapacity(Self.segmentsUsual)
        var text = path
        try text.withUTF8 { bytes in
            let slash = UInt8(ascii: "/")
            var before = bytes.firstIndex(of: slash)
            while let start = before.map({ $0 + 1 }) {
                before = bytes[start...].firstIndex(of: slash)
                let part = UnsafeBufferPointer(rebasing: bytes[start..<(before ?? bytes.count)])
                guard let segment = PercentCoding.decode(part) else {
                    throw ServerError.badRequest("The path is not correctly percent-encoded UTF-8.")
                }
                segments.append(segment)
            }
        }
        if segments.last == "" { segments.removeLast() }
        guard let first = segments.first, !segments.contains("") else {
            self = segments.isEmpty && path == "/" ? .dashboard : .unknown
            return
        }
        if ASCII.equal(first, "$admin") {
            self = .admin(Array(segments.dropFirst()))
            return
        }
        if segments.count > 1, ASCII.equal(first, "api") {
            self = .endpoint("/" + segments.joined(separator: "/").lowercased())
            return
        }
        switch segments.count {
        case 1 where ASCII.equal(first, "health"): self = .health
        case 2 where ASCII.equal(first, "health") && ASCII.equal(segments[1], "ready"):
            self = .ready
        case 1 where ASCII.equal(first, "metrics"): self = .metrics
        case 1 where ASCII.equal(first, "$batch"): self = .batch
        case 1 where ASCII.equal(first, "$schema"): self = .schema
        case 1 where ASCII.equal(first, "$events"): self = .events
        case 2 where ASCII.equal(first, "tables"): self = .table(segments[1])
        case 3 where ASCII.equal(first, "tables"): self = .row(table: segments[1], id: segments[2])
        default: self = .unknown
        }
    }
}

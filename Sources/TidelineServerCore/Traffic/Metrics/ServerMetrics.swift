// ServerMetrics: counts requests.
//
// Counters are atomic and relaxed, so that requests take no lock for them. They are read one after the other, so a
// reading may include a request in one counter only.

import TidelineCore

/// The counters of a server's requests since its start, for `GET /metrics`.
package final class ServerMetrics: Sendable {
    /// The kind of a request, by its path and method.
    package enum Operation: Int, Sendable, CaseIterable {
        case list
        case read
        case insert
        case update
        case replace
        case delete
        case undelete
        case digest
        case health
        case metrics
        case endpoint
        case batch
        case events
        case dashboard
        case other
        /// A request that was rejected before routing.
        case refused

        init(_ route: Route?, method: String) {
            switch (route, method) {
            case (.table, "GET"): self = .list
            case (.table, "POST"): self = .insert
            case (.table, "PATCH"), (.row, "PATCH"): self = .update
            case (.row(_, DigestRoute.name), "GET"): self = .digest
            case (.row, "GET"): self = .read
            case (.row, "PUT"): self = .replace
            case (.row, "DELETE"): self = .delete
            case (.row, "POST"): self = .undelete
            case (.health, _), (.ready, _): self = .health
            case (.metrics, _): self = .metrics
            case (.endpoint, _): self = .endpoint
            case (.batch, _): self = .batch
            case (.events, _): self = .events
            case (.dashboard, _), (.admin, _): self = .dashboard
            case (.table, _), (.row, _), (.schema, _), (.unknown, _), (nil, _): self = .other
            }
        }
    }

    private typealias Counter = ServerTraffic.Counter

    private static let statuses = [
        200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 424, 429, 500, 503,
    ]

    private let requests: [Counter]
    private let latencies: [Histogram]
    private let rowsSent = Counter()
    private let rowsWritten = Counter()

    package init() {
        let operations = Operation.allCases.count
        requests = (0..<operations * (Self.statuses.count + 1)).map { _ in Counter() }
        latencies = (0..<operations).map { _ in Histogram() }
    }

    package func record(_ operation: Operation, status: Int, microseconds: Int) {
        record(operation, status: status)
        latencies[operation.rawValue].add(microseconds)
    }

    /// Counts a request that was answered as a part of another one, whose duration is recorded.
    package func record(_ operation: Operation, status: Int) {
        let place = Self.statuses.firstIndex(of: status) ?? Self.statuses.count
        requests[operation.rawValue * (Self.statuses.count + 1) + place].add(1)
    }

    package func sent(rows: Int) { rowsSent.add(rows) }

    package func wroteRow() { rowsWritten.add() }

    // MARK: - Reading

    var rowsSentCount: Int { rowsSent.current }

    var rowsWrittenCount: Int { rowsWritten.current }

    func latency(of operation: Operation) -> Histogram.Reading {
        latencies[operation.rawValue].reading
    }

    /// Returns the number of answers with each status.
    func counts(of operation: Operation) -> [(status: String, count: Int)] {
        (0...Self.statuses.count).map { index in
            let status = index < Self.statuses.count ? String(Self.statuses[index]) : "other"
            let place = operation.rawValue * (Self.statuses.count + 1) + index
            return (status, requests[place].current)
        }
    }

    /// Writes the same counts as members of a JSON object, for the dashboard; each begins with a comma.
    func write(to writer: inout JSONWriter) {
        writer.raw(",\"rowsSent\":")
        writer.integer(Int64(rowsSent.current))
        writer.raw(",\"rowsWritten\":")
        writer.integer(Int64(rowsWritten.current))
        writer.list(",\"bounds\":[", Histogram.times) { $0.integer(Int64($1)) }
        let asked = Operation.allCases.filter { counts(of: $0).contains { $0.count > 0 } }
        writer.list(",\"routes\":[", asked) { writer, operation in
            let reading = latency(of: operation)
            let counts = counts(of: operation).map(\.count)
            let done = Self.statuses.firstIndex { $0 >= 400 } ?? Self.statuses.count
            writer.raw("{\"route\":")
            writer.string("\(operation)")
            writer.raw(",\"microseconds\":")
            writer.integer(Int64(reading.sum))
            writer.raw(",\"requests\":")
            writer.integer(Int64(counts.reduce(0, +)))
            writer.raw(",\"refused\":")
            writer.integer(Int64(counts[done...].reduce(0, +)))
            writer.list(",\"latencies\":[", reading.counts) { $0.integer(Int64($1)) }
            writer.raw("}")
        }
    }
}

// ServerMetrics: what a server has done since its start, for `GET /metrics`.
//
// Counters are atomic and relaxed: a request takes no lock for them. They are read one after the
// other, so a reading may be a request apart in itself.

import TidelineCore

package final class ServerMetrics: Sendable {
    /// What a request wanted, by its path and method.
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
        /// What was refused before a route was looked for.
        case refused

        init(_ route: Route?, method: String) {
            switch (route, method) {
            case (.table, "GET"): self = .list
            case (.table, "POST"): self = .insert
            case (.table, "PATCH"), (.row, "PATCH"): self = .update
            case (.row(_, TableService.digestName), "GET"): self = .digest
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
            default: self = .other
            }
        }
    }

    private typealias Counter = ServerTraffic.Counter

    private static let statuses = [
        200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 424, 429, 500, 503,
    ]

    /// The upper bounds of the histogram's parts in microseconds; one more has none.
    private static let bounds = [
        100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
        10_000_000,
    ]

    private let requests: [Counter]
    private let latencies: [Counter]
    private let times: [Counter]
    private let rowsSent = Counter()
    private let rowsWritten = Counter()

    package init() {
        let operations = Operation.allCases.count
        requests = (0..<operations * (Self.statuses.count + 1)).map { _ in Counter() }
        latencies = (0..<operations * (Self.bounds.count + 1)).map { _ in Counter() }
        times = (0..<operations).map { _ in Counter() }
    }

    package func record(_ operation: Operation, status: Int, microseconds: Int) {
        record(operation, status: status)
        let bucket = Self.bounds.firstIndex { microseconds <= $0 } ?? Self.bounds.count
        latencies[operation.rawValue * (Self.bounds.count + 1) + bucket].add(1)
        times[operation.rawValue].add(microseconds)
    }

    /// Counts a request that was answered as a part of another one, whose time is counted.
    package func record(_ operation: Operation, status: Int) {
        let place = Self.statuses.firstIndex(of: status) ?? Self.statuses.count
        requests[operation.rawValue * (Self.statuses.count + 1) + place].add(1)
    }

    package func sent(rows: Int) { rowsSent.add(rows) }

    package func wroteRow() { rowsWritten.add() }

    // MARK: - Writing

    /// The text format of Prometheus, version 0.0.4.
    package func text(writeQueue: Int, logBytes: Int, traffic: ServerTraffic) -> [UInt8] {
        var writer = JSONWriter(capacity: 16 << 10)
        Self.head(&writer, "tideline_requests_total", "counter", "Requests answered.")
        for operation in Operation.allCases {
            for index in 0...Self.statuses.count {
                let count = requests[operation.rawValue * (Self.statuses.count + 1) + index].current
                guard count > 0 else { continue }
                let status =
                    index < Self.statuses.count ? String(Self.statuses[index]) : "other"
                Self.line(
                    &writer,
                    "tideline_requests_total{route=\"\(operation)\",status=\"\(status)\"}",
                    count
                )
            }
        }
        histogram(&writer)
        Self.head(&writer, "tideline_rows_sent_total", "counter", "Rows sent in lists.")
        Self.line(&writer, "tideline_rows_sent_total", rowsSent.current)
        Self.head(&writer, "tideline_rows_written_total", "counter", "Rows changed by writes.")
        Self.line(&writer, "tideline_rows_written_total", rowsWritten.current)
        Self.head(&writer, "tideline_write_queue_length", "gauge", "Writes that wait.")
        Self.line(&writer, "tideline_write_queue_length", writeQueue)
        Self.head(&writer, "tideline_log_bytes", "gauge", "Size of the write-ahead log's file.")
        Self.line(&writer, "tideline_log_bytes", logBytes)
        Self.write(traffic, &writer)
        return writer.bytes
    }

    private static func write(_ traffic: ServerTraffic, _ writer: inout JSONWriter) {
        for (name, type, help, value) in [
            (
                "tideline_answers_bytes", "gauge", "Bytes of answers that wait for their callers.",
                traffic.answersHeld
            ),
            (
                "tideline_answers_waiting", "gauge", "Answers that wait for room to be made.",
                traffic.memories.reduce(0) { $0 + $1.waiting }
            ),
            (
                "tideline_requests_bytes", "gauge",
                "Bytes of requests under way, without the first 4 KiB of each.",
                traffic.requestBytes.current
            ),
            (
                "tideline_connections", "gauge", "Connections that are open.",
                traffic.connections.current
            ),
            (
                "tideline_callers_limited_total", "counter",
                "Requests refused because their callers asked for too much.",
                traffic.tooMany.current
            ),
            (
                "tideline_slow_readers_total", "counter",
                "Callers cut because they read too slowly while memory was short.",
                traffic.slowReaders.current
            ),
            (
                "tideline_hangups_total", "counter", "Callers that left while their request ran.",
                traffic.hangUps.current
            ),
            (
                "tideline_tls_handshakes_failed_total", "counter",
                "Connections that ended before both sides had agreed on keys.",
                traffic.failedHandshakes.current
            ),
            (
                "tideline_listeners", "gauge", "Streams of events that are open.",
                traffic.listeners.current
            ),
            (
                "tideline_log_lines_lost_total", "counter", "Lines of the log that nobody took.",
                traffic.logLinesLost.current
            ),
        ] {
            head(&writer, name, type, help)
            line(&writer, name, value)
        }
    }

    /// The same as members of a JSON object, for the dashboard; each begins with a comma.
    func write(to writer: inout JSONWriter) {
        writer.raw(",\"rowsSent\":")
        writer.integer(Int64(rowsSent.current))
        writer.raw(",\"rowsWritten\":")
        writer.integer(Int64(rowsWritten.current))
        writer.list(",\"bounds\":[", Self.bounds) { $0.integer(Int64($1)) }
        let statuses = Self.statuses.count
        let asked = Operation.allCases.filter { operation in
            (0...statuses).contains {
                requests[operation.rawValue * (statuses + 1) + $0].current > 0
            }
        }
        writer.list(",\"routes\":[", asked) { writer, operation in
            writer.raw("{\"route\":")
            writer.string("\(operation)")
            writer.raw(",\"microseconds\":")
            writer.integer(Int64(times[operation.rawValue].current))
            let counts = (0...statuses).map {
                requests[operation.rawValue * (statuses + 1) + $0].current
            }
            let done = Self.statuses.firstIndex { $0 >= 400 } ?? statuses
            writer.raw(",\"requests\":")
            writer.integer(Int64(counts.reduce(0, +)))
            writer.raw(",\"refused\":")
            writer.integer(Int64(counts[done...].reduce(0, +)))
            let first = operation.rawValue * (Self.bounds.count + 1)
            writer.list(",\"latencies\":[", latencies[first...first + Self.bounds.count]) {
                $0.integer(Int64($1.current))
            }
            writer.raw("}")
        }
    }

    private func histogram(_ writer: inout JSONWriter) {
        let name = "tideline_request_seconds"
        Self.head(&writer, name, "histogram", "Time from the whole request to its answer.")
        for operation in Operation.allCases {
            let first = operation.rawValue * (Self.bounds.count + 1)
            let counts = latencies[first...first + Self.bounds.count].map(\.current)
            let total = counts.reduce(0, +)
            guard total > 0 else { continue }
            let label = "route=\"\(operation)\""
            var sum = 0
            for (bound, count) in zip(Self.bounds, counts) {
                sum += count
                let le = "le=\"\(Double(bound) / 1_000_000)\""
                Self.line(&writer, "\(name)_bucket{\(label),\(le)}", sum)
            }
            Self.line(&writer, "\(name)_bucket{\(label),le=\"+Inf\"}", total)
            writer.raw("\(name)_sum{\(label)} ")
            writer.raw("\(Double(times[operation.rawValue].current) / 1_000_000)\n")
            Self.line(&writer, "\(name)_count{\(label)}", total)
        }
    }

    private static func head(
        _ writer: inout JSONWriter,
        _ name: String,
        _ type: String,
        _ help: String
    ) {
        writer.raw("# HELP \(name) \(help)\n# TYPE \(name) \(type)\n")
    }

    private static func line(_ writer: inout JSONWriter, _ name: String, _ value: Int) {
        writer.raw("\(name) \(value)\n")
    }
}

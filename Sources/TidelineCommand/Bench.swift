// Bench: the command `bench`.
//
// Each caller has a connection and sends one request after the other, reads and writes of one table. It measures the
// time of the whole request, as a caller sees it. On the server's machine this client takes processor time from the
// server. At the end, even if it was interrupted, it deletes the rows that it inserted.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore

/// A small load test that measures the response times of a server.
struct Bench: Sendable {
    static let connectionsMax = 1000
    static let secondsMax = 600

    let server: URL
    let table: String
    let token: String?
    let authority: String?
    var connections = 8
    var seconds = 10
    /// The percentage of requests that write.
    var writes = 20

    /// The outcomes of requests, with times in microseconds.
    private struct Tally: Sendable {
        var reads: [Int] = []
        var writes: [Int] = []
        /// The rows that were created.
        var ids: [String] = []
        var rejected = 0
        var failed = 0
        /// The reason for the first rejection or failure.
        var reason: String?

        mutating func add(_ other: Tally) {
            reads += other.reads
            writes += other.writes
            ids += other.ids
            rejected += other.rejected
            failed += other.failed
            reason = reason ?? other.reason
        }
    }

    /// The pause after a request that was not served, so that a caller does not loop.
    private static let pause: Duration = .milliseconds(100)

    /// The number of rows that are deleted with one request.
    private static let deletedAtOnce = 100

    /// Sends requests until the time is over or `stop` is raised.
    ///
    /// Returns the report, and whether every request was served.
    func run(stop: StopFlag) async throws -> (report: Report, isClean: Bool) {
        var limits = TransportLimits()
        limits.callsMax = connections
        let transport = CurlTransport(limits: limits, certificateAuthorities: authority)
        let first = try await send("GET", "\(try path())?$top=1", nil, by: transport)
        guard first.status == 200 else {
            throw UsageError("The table cannot be read: \(Self.reason(first))")
        }
        let start = ContinuousClock.now
        let end = start + .seconds(seconds)
        var tally = Tally()
        try await withThrowingTaskGroup(of: Tally.self) { group in
            for caller in 0..<connections {
                group.addTask { try await load(caller, until: end, or: stop, by: transport) }
            }
            for try await one in group { tally.add(one) }
        }
        let time = Self.microseconds(ContinuousClock.now - start)
        let isInterrupted = stop.isRaised
        let left = try await remove(tally.ids, by: transport)
        let report = Report([
            "server": .text(server.absoluteString),
            "table": .text(table),
            "connections": .integer(Int64(connections)),
            "milliseconds": .integer(Int64(time / 1000)),
            "isInterrupted": .flag(isInterrupted),
            "refused": .integer(Int64(tally.rejected)),
            "failed": .integer(Int64(tally.failed)),
            "reason": Report.Item(tally.reason),
            "rowsLeft": .integer(Int64(left)),
            "load": .list([
                Self.report("reads", tally.reads, time), Self.report("writes", tally.writes, time),
            ]),
        ])
        return (report, tally.rejected == 0 && tally.failed == 0 && left == 0)
    }

    private static func report(_ kind: String, _ times: [Int], _ time: Int) -> Report {
        let sorted = times.sorted()
        /// Returns the time within which this many of a thousand requests were answered.
        func within(_ share: Int) -> Report.Item {
            guard !sorted.isEmpty else { return .none }
            let place = (sorted.count * share + 999) / 1000 - 1
            return .integer(Int64(sorted[max(0, place)]))
        }
        return Report([
            "kind": .text(kind),
            "requests": .integer(Int64(times.count)),
            "perSecond": .integer(Int64(times.count) * 1_000_000 / Int64(max(1, time))),
            "p50Microseconds": within(500),
            "p95Microseconds": within(950),
            "p99Microseconds": within(990),
            "maxMicroseconds": within(1000),
        ])
    }

    // MARK: - Callers

    private func load(
        _ caller: Int,
        until end: ContinuousClock.Instant,
        or stop: StopFlag,
        by transport: CurlTransport
    ) async throws -> Tally {
        var tally = Tally()
        let (list, row) = ("\(try path())?$top=50", try path())
        // Spreads the writes, so that the callers do not all write at the same time.
        var number = caller * 100 / connections
        while ContinuousClock.now < end, !stop.isRaised {
            number += 1
            let isWrite = number * writes / 100 != (number - 1) * writes / 100
            let id = "bench-" + ServerEnvironment.live.makeID()
            let start = ContinuousClock.now
            do {
                let answer =
                    isWrite
                    ? try await send("POST", row, #"{"id":"\#(id)"}"#, by: transport)
                    : try await send("GET", list, nil, by: transport)
                let time = Self.microseconds(ContinuousClock.now - start)
                switch (answer.status, isWrite) {
                case (200, false): tally.reads.append(time)
                case (201, true):
                    tally.writes.append(time)
                    tally.ids.append(id)
                default:
                    tally.rejected += 1
                    tally.reason = tally.reason ?? Self.reason(answer)
                    try await Task.sleep(for: Self.pause)
                }
            } catch {
                tally.failed += 1
                tally.reason = tally.reason ?? "\(error)"
                // The write may have taken effect.
                if isWrite { tally.ids.append(id) }
                try await Task.sleep(for: Self.pause)
            }
        }
        return tally
    }

    /// Deletes rows in batches, and returns how many remain.
    private func remove(_ ids: [String], by transport: CurlTransport) async throws -> Int {
        var left = 0
        let row = String(try path().dropFirst())
        for start in stride(from: 0, to: ids.count, by: Self.deletedAtOnce) {
            let some = ids[start..<min(start + Self.deletedAtOnce, ids.count)]
            let requests = some.enumerated().map { place, id in
                #"{"id":"\#(place)","method":"delete","url":"\#(row)/\#(id)"}"#
            }
            let body = #"{"requests":[\#(requests.joined(separator: ","))]}"#
            let answer = try? await send("POST", "/$batch", body, by: transport)
            let parts =
                answer.flatMap { try? JSONSerialization.jsonObject(with: Data($0.body)) }
                .flatMap { ($0 as? [String: Any])?["responses"] as? [[String: Any]] } ?? []
            let gone = parts.count { [200, 204, 404, 410].contains($0["status"] as? Int ?? 0) }
            left += some.count - gone
        }
        return left
    }

    // MARK: - Requests

    private func path() throws -> String {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/"))
        guard let name = table.addingPercentEncoding(withAllowedCharacters: allowed) else {
            throw UsageError("--table: '\(table)' cannot be part of a URL.")
        }
        return "/tables/" + name
    }

    private func send(
        _ method: String,
        _ path: String,
        _ body: String?,
        by transport: CurlTransport
    ) async throws -> TransportResponse {
        let base = server.absoluteString
        let text = (base.hasSuffix("/") ? String(base.dropLast()) : base) + path
        guard let url = URL(string: text) else { throw UsageError("'\(text)' is not a valid URL.") }
        var request = TransportRequest(method: method, url: url, timeout: .seconds(15))
        request.headers["ZUMO-API-VERSION"] = "3.0.0"
        if let token { request.headers["Authorization"] = "Bearer " + token }
        if let body {
            request.headers["Content-Type"] = "application/json"
            if path == "/$batch" { request.headers["Prefer"] = "continue-on-error" }
            request.body = Array(body.utf8)
        }
        return try await transport.send(request)
    }

    /// Returns the server's reason for a rejection.
    private static func reason(_ answer: TransportResponse) -> String {
        let object = (try? JSONSerialization.jsonObject(with: Data(answer.body))) as? [String: Any]
        let said = object?["error"] as? String
        return "status \(answer.status)" + (said.map { ": " + $0 } ?? "")
    }

    private static func microseconds(_ time: Duration) -> Int {
        let (seconds, attoseconds) = time.components
        return Int(clamping: seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
    }
}

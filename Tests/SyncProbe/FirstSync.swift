// FirstSync: a first sync of many tables from a server that makes its pages up, and the memory that it takes.

import Foundation
import Synchronization
import Tideline

/// A server in this process whose tables have as many rows as are asked for, and keep none of them.
final class MadeUpServer: Transport {
    private let rows: Int
    private let served = Mutex<[String: Int]>([:])

    init(rows: Int) { self.rows = rows }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let table = request.url.lastPathComponent
        let size =
            request.headers["Prefer"]
            .flatMap { $0.firstMatch(of: /maxpagesize=(\d+)/) }.flatMap { Int($0.1) } ?? 1000
        let first = served.withLock { served in
            let first = served[table, default: 0]
            served[table] = min(rows, first + size)
            return first
        }
        let last = min(rows, first + size)
        var body = #"{"items":["#
        for number in first..<last {
            if number > first { body += "," }
            let time = String(
                format: "2026-01-01T%02d:%02d:%02d.%03d",
                number / 3_600_000 % 24,
                number / 60_000 % 60,
                number / 1000 % 60,
                number % 1000
            )
            body += """
                {"id":"\(table)-\(number)","text":"The text of row \(number), as long as most are",\
                "complete":false,"rank":\(number),"createdAt":"\(time)Z","updatedAt":"\(time)Z",\
                "version":"AAAAAAAA\(number)","deleted":false}
                """
        }
        body += "]"
        if last < rows, first < last {
            body +=
                #","nextLink":"\#(request.url.scheme ?? "http")://\#(request.url.host() ?? "")"#
                + #"\#(request.url.path())?page=\#(last)""#
        }
        body += "}"
        return TransportResponse(
            status: 200,
            headers: ["Content-Type": "application/json"],
            body: Array(body.utf8)
        )
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw TransportError(.unsupported, "It has no events.", outcomeIsUnknown: false)
    }

    /// Syncs so many tables, and prints how many rows came and the most memory that the process had.
    static func firstSync(_ path: String, tables: Int, rows: Int) async throws {
        guard let endpoint = URL(string: "http://localhost") else { return }
        let client = SyncClient(
            endpoint: endpoint,
            generation: .datasync,
            transport: MadeUpServer(rows: rows)
        )
        let names = (0..<tables).map { "table\($0)" }
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: path),
            tables: [],
            schemas: names.map {
                TableSchema(
                    name: $0,
                    columns: [
                        ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                        ColumnDefinition("rank", .integer),
                    ]
                )
            }
        )
        try await client.syncOnce(deadline: .seconds(3600))
        var count = 0
        for name in names { count += try await client.syncTable(named: name).count() }
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let peak = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        print("rows \(count)")
        print("peak \(peak.filter(\.isNumber))")
    }
}

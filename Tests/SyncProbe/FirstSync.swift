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
        // Bytes, not text: what the made-up server needs is not the device's.
        var body: [UInt8] = []
        body.reserveCapacity((last - first) * 256 + 256)
        body += #"{"items":["#.utf8
        for number in first..<last {
            if number > first { body += ",".utf8 }
            let time = String(
                format: "2026-01-01T%02d:%02d:%02d.%03d",
                number / 3_600_000 % 24,
                number / 60_000 % 60,
                number / 1000 % 60,
                number % 1000
            )
            let row = """
                {"id":"\(table)-\(number)","text":"The text of row \(number), as long as most are",\
                "complete":false,"rank":\(number),"createdAt":"\(time)Z","updatedAt":"\(time)Z",\
                "version":"AAAAAAAA\(number)","deleted":false}
                """
            body += row.utf8
        }
        body += "]".utf8
        if last < rows, first < last {
            let link =
                #","nextLink":"\#(request.url.scheme ?? "http")://\#(request.url.host() ?? "")"#
                + #"\#(request.url.path())?page=\#(last)""#
            body += link.utf8
        }
        body += "}".utf8
        return TransportResponse(
            status: 200,
            headers: ["Content-Type": "application/json"],
            body: body
        )
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw TransportError(.unsupported, "It has no events.", outcomeIsUnknown: false)
    }

    /// Syncs so many tables, and prints how many rows came and the most memory that the process had.
    ///
    /// A server with a port is asked itself; without one the pages are made up.
    static func firstSync(_ path: String, from server: URL, tables: Int, rows: Int) async throws {
        let client =
            server.port == nil
            ? SyncClient(
                endpoint: server,
                generation: .datasync,
                transport: MadeUpServer(rows: rows)
            ) : SyncClient(endpoint: server)
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

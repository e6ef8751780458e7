// PeerTable: reads the whole table of another server, in the largest pages that it supports.

import Foundation
import Tideline

struct PeerTable {
    private enum Kind: String {
        /// Numbered pages of at most 1000 rows, without the total count, which is slower.
        case pocketbase
        /// Pages of at most 10,000 rows, linked by a header.
        case kinto
    }

    private struct Failure: Error {
        var status: Int
    }

    private let root: String
    private let kind: Kind
    private let transport = CurlTransport()

    init(_ root: String, kind: String) throws {
        guard let kind = Kind(rawValue: kind) else { throw URLError(.unsupportedURL) }
        self.root = root
        self.kind = kind
    }

    private func get(_ address: String) async throws -> TransportResponse {
        guard let url = URL(string: address) else { throw URLError(.badURL) }
        let response = try await transport.send(TransportRequest(url: url))
        guard response.status == 200 else { throw Failure(status: response.status) }
        return response
    }

    /// Measures the reads, and then counts the rows.
    func readPages() async throws {
        let start = ContinuousClock.now
        let bodies =
            switch kind {
            case .pocketbase: try await numberedPages()
            case .kinto: try await linkedPages()
            }
        let seconds = (ContinuousClock.now - start).seconds
        let rows = bodies.reduce(0) { $0 + Self.rows($1) }
        let bytes = bodies.reduce(0) { $0 + $1.count }
        Bench.report("pages: rows served", Double(rows) / seconds, "rows/s")
        Bench.report("pages: rows", Double(rows), "rows")
        Bench.report("pages: bytes per row", Double(bytes) / Double(max(rows, 1)), "B")
    }

    /// Reads until a page has no rows.
    private func numberedPages() async throws -> [[UInt8]] {
        var bodies: [[UInt8]] = []
        repeat {
            let query = "page=\(bodies.count + 1)&perPage=1000&sort=id&skipTotal=1"
            bodies.append(
                try await get("\(root)/api/collections/TodoItem/records?\(query)").body
            )
        } while bodies.last.map { $0.count > 200 } == true
        return bodies
    }

    private func linkedPages() async throws -> [[UInt8]] {
        var bodies: [[UInt8]] = []
        var next: String? =
            "\(root)/v1/buckets/b/collections/todo/records?_sort=-last_modified&_limit=10000"
        while let address = next {
            let page = try await get(address)
            bodies.append(page.body)
            next = page.headers["Next-Page"]
        }
        return bodies
    }

    /// Counts the rows of a page by a JSON member that each row has once.
    private static func rows(_ body: [UInt8]) -> Int {
        String(decoding: body, as: UTF8.self).ranges(of: "\"id\":").count
    }
}

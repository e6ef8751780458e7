// PeerTable: the whole table of another server, in the largest pages that it gives.

import Foundation
import Tideline

struct PeerTable {
    private enum Kind: String {
        /// Pages by number, 1000 rows at most; without the count of all rows, which is slower.
        case pocketbase
        /// Pages by a link in a header, 10,000 rows at most.
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

    /// Rows are counted when the time has been taken.
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

    /// Up to a page without rows.
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

    /// Each row has one member of this name.
    private static func rows(_ body: [UInt8]) -> Int {
        String(decoding: body, as: UTF8.self).ranges(of: "\"id\":").count
    }
}

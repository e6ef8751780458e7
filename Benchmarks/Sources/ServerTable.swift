// ServerTable: reads the server's table with plain requests over the SDK's transport.

import Foundation
import Tideline

struct ServerTable {
    private struct Page: Decodable {
        struct Item: Decodable {
            var id: String?
            var version: String?
            var updatedAt: String?
        }

        var items: [Item]
        var nextLink: String?
    }

    private struct Failure: Error {
        var status: Int
    }

    private let root: String
    private let transport = CurlTransport()

    init(_ root: String) { self.root = root }

    /// Returns one page in the datasync dialect, as bytes.
    private func get(
        _ query: String,
        pageSize: Int,
        tracksChanges: Bool = false
    ) async throws -> [UInt8] {
        guard let url = URL(string: "\(root)/tables/TodoItem?\(query)") else {
            throw URLError(.badURL)
        }
        let preference =
            "odata.maxpagesize=\(pageSize)" + (tracksChanges ? ", odata.track-changes" : "")
        let response = try await transport.send(
            TransportRequest(
                url: url,
                headers: ["ZUMO-API-VERSION": "3.0.0", "Prefer": preference]
            )
        )
        guard response.status == 200 else { throw Failure(status: response.status) }
        return response.body
    }

    private func page(_ query: String, pageSize: Int) async throws -> Page {
        let bytes = try await get(query, pageSize: pageSize)
        return try JSONDecoder().decode(Page.self, from: Data(bytes))
    }

    /// Prints when the row in the middle of the table changed, for the workload of pull pages.
    func printMiddle() async throws {
        struct Count: Decodable {
            var count: Int
        }
        let bytes = try await get("$count=true&$top=0", pageSize: 1)
        let count = try JSONDecoder().decode(Count.self, from: Data(bytes)).count
        let middle = try await page(
            "$orderby=updatedAt&$skip=\(count / 2)&$top=1&$select=updatedAt",
            pageSize: 1
        )
        print(middle.items.first?.updatedAt ?? "1970-01-01T00:00:00.000Z")
    }

    /// Prints the paths and ETags of the first rows, for the workload of conditional updates.
    func printTags(_ count: Int) async throws {
        var query = "$select=id,version"
        var left = count
        while left > 0 {
            let page = try await page(query, pageSize: min(left, 1000))
            for item in page.items {
                print("/tables/TodoItem/\(item.id ?? "") \"\(item.version ?? "")\"")
            }
            left -= page.items.count
            guard let link = page.nextLink else { return }
            query = link
        }
    }

    /// Follows the next links through the whole table and counts the rows without decoding them.
    func readPages() async throws {
        let start = ContinuousClock.now
        var (query, rows, bytes) = ("$orderby=updatedAt&__includeDeleted=true", 0, 0)
        while true {
            let body = try await get(query, pageSize: Self.pageRows)
            bytes += body.count
            // Only the end of the text is searched, because a page with a next link is full.
            guard let link = Self.nextLink(body) else {
                rows += try JSONDecoder().decode(Page.self, from: Data(body)).items.count
                break
            }
            rows += Self.pageRows
            query = link
        }
        let seconds = (ContinuousClock.now - start).seconds
        Bench.report("pages: rows served", Double(rows) / seconds, "rows/s")
        Bench.report("pages: rows", Double(rows), "rows")
        Bench.report("pages: bytes per row", Double(bytes) / Double(rows), "B")
    }

    /// Prints the next links to the second page of 50 rows, to the middle and to the last 1000 rows.
    func printLinks(_ query: String) async throws {
        let begin = Self.nextLink(try await get(query, pageSize: 50))
        var links: [String] = []
        var next: String? = query
        while let query = next {
            next = Self.nextLink(try await get(query, pageSize: Self.pageRows))
            if let next { links.append(next) }
        }
        guard let begin, let end = links.last else { throw Failure(status: 200) }
        print("begin\t\(begin)\nmiddle\t\(links[links.count / 2])\nend\t\(end)")
    }

    /// Prints the link to later changes, and the size of its response.
    func printDelta() async throws {
        var (query, link): (String?, String?) = ("$orderby=updatedAt", nil)
        while let next = query {
            let body = try await get(next, pageSize: Self.pageRows, tracksChanges: true)
            query = Self.nextLink(body)
            link = Self.lastLink(body, "@odata.deltaLink")
        }
        guard let link else { throw Failure(status: 200) }
        print("\(link)\t\(try await get(link, pageSize: Self.pageRows).count)")
    }

    private static let pageRows = 1000

    private static func nextLink(_ body: [UInt8]) -> String? { lastLink(body, "nextLink") }

    /// Returns the last member of a page, if it has this name.
    private static func lastLink(_ body: [UInt8], _ name: String) -> String? {
        let end = String(decoding: body.suffix(2000), as: UTF8.self)
        guard end.hasSuffix("\"}"), let mark = end.range(of: "\"\(name)\":\"") else { return nil }
        return String(end[mark.upperBound...].dropLast(2))
    }
}

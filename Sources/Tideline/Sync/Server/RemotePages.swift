// RemotePages: reads the pages of a query directly from a server of any generation.

import Foundation
import TidelineCore

/// The state of a read of all pages of a query.
struct RemotePages: Sendable {
    private let query: TableQuery
    private let schema: TableSchema?
    private let remote: RemoteService
    private let table: String
    /// The link to follow; nil if the client builds the request itself.
    private var link: URL?
    /// The number of rows that have been received.
    private var rowCount = 0

    init(query: TableQuery, schema: TableSchema, remote: RemoteService) {
        self.query = query
        self.schema = schema
        self.remote = remote
        table = schema.name
    }

    /// The number of rows that can still be received before the query's limit is reached.
    var rowsLeft: Int { query.limit.map { max(0, $0 - rowCount) } ?? .max }

    /// The maximum number of rows that are requested with `$top`; every server returns at least
    /// this many.
    private static let topMax = 50

    /// Returns the request for the next page.
    func next(_ dialect: ServerDialect) throws -> RemoteService.Request {
        let rows = max(1, min(rowsLeft, remote.limits.pageRowsMax))
        if let link { return .page(link, rows: rows) }
        var request = query
        if dialect == .classic {
            let top = min(rows, dialect.pageRowsMax ?? rows)
            request.limit = min(top, rowsLeft)
        } else if let limit = query.limit, limit > Self.topMax {
            // A server rejects a `$top` that exceeds its own limit. That limit does not apply to
            // pages with next links.
            request.limit = nil
        }
        if rowCount > 0 {
            request.offset = query.offset + rowCount
        }
        let text = try request.wireText(schema, dialect)
        let url = try remote.endpoint.url(table, query: text.isEmpty ? "" : "?" + text)
        return .page(url, rows: rows)
    }

    /// Moves past a page; returns false if it was the last page.
    mutating func advance(past page: PulledPage, _ dialect: ServerDialect) throws -> Bool {
        rowCount += page.rows.count
        guard !page.rows.isEmpty, rowsLeft > 0 else { return false }
        switch dialect {
        case .datasync:
            guard let next = page.nextLink else { return false }
            let url = try remote.endpoint.url(following: next, table: table)
            guard url != link else { throw SyncError.endlessLinks(table) }
            link = url
        case .classic:
            let asked = min(remote.limits.pageRowsMax, dialect.pageRowsMax ?? .max)
            guard page.nextLink != nil || page.rows.count >= asked else { return false }
            // The next link of the original Node server leads to the path `/` on another port.
            let following = page.nextLink.flatMap { next in
                let url = try? remote.endpoint.url(following: next, table: table)
                let own = try? remote.endpoint.url(table)
                return url?.path() == own?.path() ? url : nil
            }
            guard following == nil || following != link else {
                throw SyncError.endlessLinks(table)
            }
            link = following
        }
        return true
    }
}

// ClassicPage: where a client stands among the pages of a classic server.
//
// Pure. The next link of the original Node server has no port and the path `/`, so pages are asked
// for by the client's own words. A place is kept as text where other servers' next links are kept.

import Foundation
package import TidelineCore

package enum ClassicPage: Sendable, Hashable {
    /// Rows of `updatedAt` from this time on, in its order; nil: all rows.
    case from(String?)
    /// Rows of this very millisecond, in the order of their ids, behind this id; nil: from the first.
    ///
    /// Not by `$skip`: a row that changes meanwhile leaves the millisecond, and the one that takes
    /// its place would be passed over.
    case tied(at: String, behind: String?)
    /// So many rows of a query are here.
    case skip(Int)

    private static let separator: Character = "\n"

    /// The place as text; times and ids hold no line feed.
    package var link: String {
        switch self {
        case .from(let time): "from" + String(Self.separator) + (time ?? "")
        case .tied(let time, let id):
            ["tied", time, id ?? ""].joined(separator: String(Self.separator))
        case .skip(let count): "skip" + String(Self.separator) + String(count)
        }
    }

    package init?(link: String) {
        let parts = link.split(separator: Self.separator, omittingEmptySubsequences: false)
            .map(String.init)
        switch (parts.first, parts.count) {
        case ("from", 2): self = .from(parts[1].isEmpty ? nil : parts[1])
        case ("tied", 3): self = .tied(at: parts[1], behind: parts[2].isEmpty ? nil : parts[2])
        case ("skip", 2):
            guard let count = Int(parts[1]) else { return nil }
            self = .skip(count)
        default: return nil
        }
    }

    /// How many rows the query of the page asks for.
    package func rows(asked rows: Int, _ query: TableQuery) -> Int {
        let top = min(rows, ServerDialect.classic.pageRowsMax ?? rows)
        switch self {
        case .from: return min(top, query.limit ?? top)
        case .tied: return top
        case .skip(let count): return min(top, query.limit.map { max(0, $0 - count) } ?? top)
        }
    }

    /// The query of the page.
    package func query(_ query: TableQuery, isIncremental: Bool, rows: Int) -> TableQuery {
        let top = self.rows(asked: rows, query)
        switch self {
        case .from(let time):
            var request = PullRequest.pulled(query, from: time, isIncremental: isIncremental)
            if isIncremental { request.order.append(SortKey(column: SystemColumn.id)) }
            if !isIncremental, request.order.isEmpty {
                request.order = [SortKey(column: SystemColumn.id)]
            }
            request.limit = top
            return request
        case .tied(let time, let id):
            var request = PullRequest.pulled(query, from: time, isIncremental: true)
            request.narrow(Self.compare(.lt, SystemColumn.updatedAt, .date(Self.end(of: time))))
            if let id { request.narrow(Self.compare(.gt, SystemColumn.id, .string(id))) }
            request.order = [SortKey(column: SystemColumn.id)]
            request.limit = top
            return request
        case .skip(let count):
            var request = PullRequest.pulled(query, from: nil, isIncremental: false)
            if request.order.isEmpty { request.order = [SortKey(column: SystemColumn.id)] }
            request.offset = query.offset + count
            request.limit = top
            return request
        }
    }

    /// The place behind a page; nil when the page was the last.
    ///
    /// `page` has its rows in the order in which they came, `asked` is how many were asked for.
    /// `hasLink` says whether the answer has a next link, wherever that leads: servers cut pages
    /// shorter than asked.
    package func next(
        _ page: [Row],
        asked: Int,
        hasLink: Bool,
        isIncremental: Bool,
        limit: Int?
    ) -> ClassicPage? {
        let isFull = hasLink || page.count >= asked
        switch self {
        case .from where !isIncremental:
            return ClassicPage.skip(0).next(
                page,
                asked: asked,
                hasLink: hasLink,
                isIncremental: false,
                limit: limit
            )
        case .from:
            guard isFull, let last = page.last, let time = Self.time(of: last) else { return nil }
            // Databases keep more than milliseconds, so the order of ids begins here.
            return .tied(at: time, behind: nil)
        case .tied(let time, _):
            guard isFull, let last = page.last else {
                return .from(Timestamp(Self.end(of: time)).text)
            }
            return .tied(at: time, behind: last.id)
        case .skip(let count):
            let all = count + page.count
            guard isFull, !page.isEmpty, limit.map({ all < $0 }) ?? true else { return nil }
            return .skip(all)
        }
    }

    private static func time(of row: Row) -> String? {
        guard case .date(let date) = row[SystemColumn.updatedAt] else { return nil }
        return Timestamp(date).text
    }

    /// The next millisecond.
    private static func end(of time: String) -> Date {
        (Timestamp(time)?.date ?? .distantPast).addingTimeInterval(0.001)
    }

    private static func compare(
        _ comparison: Comparison,
        _ column: String,
        _ value: Value
    ) -> QueryExpression {
        .compare(comparison, QueryExpression(.field(column)), QueryExpression(.value(value)))
    }
}

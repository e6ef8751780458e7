// ClassicPage: the pages of the original Node server.
//
// Pure. The next link of the original Node server has no port and only the path `/`, so the client
// builds the requests for pages itself. The position is stored as a string, like the next links of
// other servers.

import Foundation
package import TidelineCore

/// The position of a pull in the pages of a classic server.
package enum ClassicPage: Sendable, Hashable {
    /// Rows whose `updatedAt` is this time or later, ordered by time; all rows if the time is nil.
    case from(String?)
    /// Rows with exactly this time in milliseconds, ordered by id, after this id or from the first
    /// row if it is nil.
    ///
    /// `$skip` cannot be used. If a row changes in the meantime, it no longer has this time, so the
    /// following rows move up and one of them is missed.
    case tied(at: String, behind: String?)
    /// The rest of a query, after this number of rows has been read.
    case skip(Int)

    private static let separator: Character = "\n"

    /// The position as a string; times and ids contain no line feeds.
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

    /// Returns the number of rows that the query of the page requests.
    package func rows(asked rows: Int, _ query: TableQuery) -> Int {
        let top = min(rows, ServerDialect.classic.pageRowsMax ?? rows)
        switch self {
        case .from: return min(top, query.limit ?? top)
        case .tied: return top
        case .skip(let count): return min(top, query.limit.map { max(0, $0 - count) } ?? top)
        }
    }

    /// Returns the query of the page.
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

    /// Returns the position after a page; nil if the page was the last one.
    ///
    /// The rows of `page` are in the order of the response; `asked` is the number of requested
    /// rows. `hasLink` is true if the response has any next link, which matters because servers may
    /// return fewer rows than requested.
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
            // Databases store times more precisely than in milliseconds, so the order by id has to
            // start at the first row.
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

    /// Returns the next millisecond.
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

// PullRequest: what a pull asks a server for.

import Foundation
import TidelineCore

/// The query strings of a pull.
enum PullRequest {
    /// What a cursor belongs to: another filter under the same query id starts anew.
    static func fingerprint(_ query: TableQuery, schema: TableSchema?) throws -> String {
        try query.wireText(schema)
    }

    static func query(
        _ query: TableQuery,
        from: String?,
        isIncremental: Bool,
        schema: TableSchema?
    ) throws -> String {
        var request = query
        request.includesTotalCount = false
        guard isIncremental else {
            // A window over rows that are deleted would count them.
            request.includesDeleted = query.limit == nil && query.offset == 0
            return try request.wireText(schema)
        }
        request.includesDeleted = true
        request.order = [SortKey(column: SystemColumn.updatedAt)]
        if let from, let stamp = Timestamp(from) {
            let since = QueryExpression.compare(
                .ge,
                QueryExpression(.field(SystemColumn.updatedAt)),
                QueryExpression(.value(.date(stamp.date)))
            )
            request.filter = Filter(
                request.filter.map { QueryExpression(.all([$0.expression, since])) } ?? since
            )
        }
        return try request.wireText(schema)
    }
}

extension TableQuery {
    /// Refuses a window that no store and no server has a meaning for.
    func checkWindow() throws(SyncError) {
        if let limit, limit < 0 {
            throw .unsupportedQuery(
                "the limit is \(limit). Give zero or more, or nil for all records."
            )
        }
        if offset < 0 {
            throw .unsupportedQuery("the offset is \(offset). Give zero or more.")
        }
    }

    /// The query string for a server, with literals in the form of their columns.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what v4 has no words for.
    func wireText(_ schema: TableSchema?) throws(SyncError) -> String {
        do {
            return try ODataWriter.queryString(self, .v4, schema: schema)
        } catch {
            throw .unsupportedQuery(error)
        }
    }
}

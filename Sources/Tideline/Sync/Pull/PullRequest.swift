// PullRequest: builds the requests of a pull.

import Foundation
import TidelineCore

/// The query strings of a pull.
enum PullRequest {
    /// Returns the string that identifies a cursor's query; the query restarts if the string
    /// changes.
    static func fingerprint(_ query: TableQuery, schema: TableSchema?) throws -> String {
        try query.wireText(schema, .datasync)
    }

    static func query(
        _ query: TableQuery,
        from: String?,
        isIncremental: Bool,
        schema: TableSchema?
    ) throws -> String {
        try pulled(query, from: from, isIncremental: isIncremental)
            .wireText(schema, .datasync)
    }

    /// Returns the query of a page in a form that does not depend on the dialect.
    static func pulled(_ query: TableQuery, from: String?, isIncremental: Bool) -> TableQuery {
        var request = query
        request.includesTotalCount = false
        guard isIncremental else {
            // With a limit or an offset, deleted rows would count.
            request.includesDeleted = query.limit == nil && query.offset == 0
            return request
        }
        request.includesDeleted = true
        request.order = [SortKey(column: SystemColumn.updatedAt)]
        if let from, let timestamp = Timestamp(from) {
            request.narrow(
                .compare(.ge, .updatedAt, QueryExpression(.value(.date(timestamp.date))))
            )
        }
        return request
    }
}

extension QueryExpression {
    static let updatedAt = QueryExpression(.field(SystemColumn.updatedAt))
}

extension TableQuery {
    /// Restricts the query to rows that also match `condition`.
    mutating func narrow(_ condition: QueryExpression) {
        filter = Filter(
            filter.map { QueryExpression(.all([$0.expression, condition])) } ?? condition
        )
    }
}

extension TableQuery {
    /// Throws an error if a limit or an offset is invalid for every store and server.
    func checkWindow() throws(SyncError) {
        if let limit, limit < 0 {
            throw .unsupportedQuery(
                "the limit is \(limit). Use zero or more, or nil for all records."
            )
        }
        if offset < 0 {
            throw .unsupportedQuery("the offset is \(offset). Use zero or more.")
        }
    }

    /// Returns the query string for a server, with literals written as their columns require.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the dialect cannot express the
    ///   query.
    func wireText(
        _ schema: TableSchema?,
        _ dialect: ServerDialect
    ) throws(SyncError) -> String {
        do {
            return try ODataWriter.queryString(self, dialect.odata, schema: schema)
        } catch {
            throw .unsupportedQuery(error)
        }
    }
}

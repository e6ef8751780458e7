// Pull: the runner of PullMachine.

import Foundation
import TidelineCore

/// What a pull did.
public struct PullResult: Sendable, Hashable {
    /// How many rows were stored.
    public var applied = 0
    /// How many rows were removed, because they are deleted on the server.
    public var removed = 0
    /// How many requests it took.
    public var requests = 0
}

extension SyncEngine {
    func pull(_ query: TableQuery, queryID: String?, in table: String) async throws -> PullResult {
        if let queryID {
            try QueryID.check(queryID)
            guard query.order.isEmpty, query.limit == nil, query.offset == 0 else {
                throw SyncError.unsupportedQuery(
                    "a pull with a query id has an order and a window of its own. Leave out order, "
                        + "limit and offset, or pull with 'queryID: nil'."
                )
            }
        }
        guard query.select == nil else {
            throw SyncError.unsupportedQuery(
                "a pull stores whole rows. Leave out the selection of fields."
            )
        }
        return try await lock.withLock {
            do {
                _ = try await pushLocked()
            } catch let error as PushError where error.status == .operationErrors {
                // Parked operations do not stop a pull: their rows are left as they are.
            }
            return try await pullLocked(query, queryID, table)
        }
    }

    private func pullLocked(
        _ query: TableQuery,
        _ queryID: String?,
        _ table: String
    ) async throws -> PullResult {
        let fingerprint = try PullRequest.fingerprint(query, schema: catalog.schema(table))
        var cursor: String?
        if let queryID {
            cursor = try await read {
                try $0.cursor(table, queryID, fingerprint: fingerprint)
            }
        }
        var machine = PullMachine(isIncremental: queryID != nil, cursor: cursor, limits: limits)
        var result = PullResult()
        events.send(.pullStarted(table: table))
        var action = machine.start()
        var page: PulledPage?
        var since: Timestamp?
        while true {
            switch action {
            case .request(let from):
                since = from.flatMap { Timestamp($0) }
                let url = try endpointURL(query, from: from, isIncremental: queryID != nil, table)
                action = try await ask(url, table, &machine, &page)
            case .follow(let link):
                let url = try remote.endpoint.url(following: link, table: table)
                action = try await ask(url, table, &machine, &page)
            case .wait(let delay):
                try await environment.sleep(Backoff.spread(delay, environment.fraction()))
                action = machine.waited()
            case .apply(let cursor):
                let counts = try await apply(
                    page?.rows ?? [],
                    since,
                    cursor,
                    queryID,
                    fingerprint,
                    table
                )
                result.applied += counts.applied
                result.removed += counts.removed
                events.send(
                    .pageApplied(table: table, applied: counts.applied, removed: counts.removed)
                )
                action = machine.applied()
            case .finish(let failure):
                if let failure { throw SyncError.pullFailed(failure, table: table) }
                result.requests = machine.requests
                let now = environment.now()
                try await transaction { try $0.setLastPull(now, table) }
                events.send(
                    .pullFinished(table: table, applied: result.applied, removed: result.removed)
                )
                return result
            }
        }
    }

    private func endpointURL(
        _ query: TableQuery,
        from: String?,
        isIncremental: Bool,
        _ table: String
    ) throws -> URL {
        let text = try PullRequest.query(
            query,
            from: from,
            isIncremental: isIncremental,
            schema: catalog.schema(table)
        )
        return try remote.endpoint.url(table, query: "?" + text)
    }

    private func ask(
        _ url: URL,
        _ table: String,
        _ machine: inout PullMachine,
        _ page: inout PulledPage?
    ) async throws -> PullMachine.Action {
        try Task.checkCancellation()
        let response: TransportResponse
        do {
            response = try await remote.page(url)
        } catch let error as TransportError {
            throw SyncError.offline(error)
        }
        guard response.status == 200,
            let read = PulledPage(response, schema: catalog.schema(table))
        else {
            return machine.refused(status: response.status, retryAfter: response.retryAfter)
        }
        page = read
        return machine.received(read.summary)
    }

    private func apply(
        _ rows: [Row],
        _ since: Timestamp?,
        _ cursor: String?,
        _ queryID: String?,
        _ fingerprint: String,
        _ table: String
    ) async throws -> PageApply.Counts {
        try await transaction { queue in
            let counts = try PageApply(queue: queue, table: table).apply(rows, since: since)
            if let queryID, let cursor {
                try queue.setCursor(cursor, table, queryID, fingerprint: fingerprint)
            }
            return counts
        }
    }
}

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

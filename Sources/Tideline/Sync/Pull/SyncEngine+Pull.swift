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
        try query.checkWindow()
        try await pushBeforePull()
        return try await inTurn(.pull(table: table), "pull") {
            do {
                return try await pullLocked(query, queryID, table)
            } catch is OtherGeneration {
                return try await pullLocked(query, queryID, table)
            }
        }
    }

    private func pullLocked(
        _ query: TableQuery,
        _ queryID: String?,
        _ table: String
    ) async throws -> PullResult {
        let service = try remote.get()
        let steps = PullSteps(
            engine: self,
            remote: service,
            dialect: service.dialect,
            query: query,
            queryID: queryID,
            fingerprint: try PullRequest.fingerprint(query, schema: catalog.schema(table)),
            table: table
        )
        let kept = try await steps.cursor()
        var machine = PullMachine(
            isIncremental: queryID != nil,
            cursor: kept?.time,
            epoch: kept?.epoch,
            limits: limits
        )
        var result = PullResult()
        events.send(.pullStarted(table: table))
        var action = machine.start()
        var answer: PullAnswer?
        // The answer to the next request, when it was asked for while a page was stored.
        var early: PullAnswer?
        var since: Timestamp?
        while true {
            switch action {
            case .request, .follow:
                if case .request(let from) = action { since = from.flatMap { Timestamp($0) } }
                if early == nil { early = try await steps.ask(action, rows: machine.pageRows) }
                answer = early
                early = nil
                action = answer.map { $0.told(to: &machine) } ?? machine.failed()
            case .wait(let delay):
                try await environment.sleep(Backoff.spread(delay, environment.fraction()))
                action = machine.waited()
            case .apply(let cursor):
                let (ahead, rows) = (machine.ahead, machine.pageRows)
                async let next = steps.ask(ahead, rows: rows)
                let counts = try await steps.apply(
                    answer?.page?.rows ?? [],
                    since,
                    steps.cursor(cursor, machine.epoch)
                )
                result.applied += counts.applied
                result.removed += counts.removed
                events.send(
                    .pageApplied(table: table, applied: counts.applied, removed: counts.removed)
                )
                action = machine.applied()
                early = try await next
            case .finish(let failure):
                if let failure { throw steps.error(failure, answer?.outline) }
                result.requests = machine.requests
                let now = environment.now()
                try await transaction { try $0.setLastPull(now, table) }
                try await keepGeneration()
                events.send(
                    .pullFinished(table: table, applied: result.applied, removed: result.removed)
                )
                return result
            }
        }
    }
}

/// An answer to a request of a pull.
private struct PullAnswer: Sendable {
    var status: Int
    var retryAfter: Duration?
    /// Nil when the answer is no page.
    var page: PulledPage?
    var summary: PageSummary?
    /// What it was, when it is no page.
    var outline: AnswerOutline?
    /// From the request to the last byte.
    var time: Duration

    func told(to machine: inout PullMachine) -> PullMachine.Action {
        guard let summary else { return machine.refused(status: status, retryAfter: retryAfter) }
        return machine.received(summary, after: time)
    }
}

/// The server turned out to be of another generation than the pull was begun in: its cursor and
/// its pages mean nothing there.
private struct OtherGeneration: Error {}

/// The effects of one pull.
private struct PullSteps: Sendable {
    let engine: SyncEngine
    let remote: RemoteService
    let dialect: ServerDialect
    let query: TableQuery
    let queryID: String?
    let fingerprint: String
    let table: String

    func cursor() async throws -> PullCursor? {
        guard let queryID else { return nil }
        return try await engine.read { [table, fingerprint, endpoint = endpointKey] in
            try $0.cursor(table, queryID, fingerprint: fingerprint, endpoint: endpoint)
        }
    }

    func cursor(_ time: String?, _ epoch: String?) -> PullCursor {
        PullCursor(
            time: time,
            epoch: epoch,
            fingerprint: fingerprint,
            endpoint: endpointKey
        )
    }

    private var endpointKey: String { dialect.cursorScope(remote.endpoint.key) }

    func error(_ failure: PullMachine.Failure, _ answer: AnswerOutline?) -> SyncError {
        .pullFailed(failure, table: table, answer: answer, server: remote.endpoint.name)
    }

    /// Asks for a page and reads it; nil when there is nothing to ask.
    func ask(_ action: PullMachine.Action?, rows: Int) async throws -> PullAnswer? {
        guard let action, var place = place(of: action) else { return nil }
        let start = engine.environment.now()
        while true {
            try Task.checkCancellation()
            let response = try await response(at: place, rows: rows)
            let time = Duration.seconds(engine.environment.now().timeIntervalSince(start))
            guard response.status == 200,
                var page = PulledPage(response, schema: engine.catalog.schema(table))
            else {
                return PullAnswer(
                    status: response.status,
                    retryAfter: response.retryAfter,
                    outline: AnswerOutline(response),
                    time: time
                )
            }
            if case .classic(let classic) = place {
                let next = classic.next(
                    page.rows,
                    asked: classic.rows(asked: rows, query),
                    hasLink: page.nextLink != nil,
                    isIncremental: queryID != nil,
                    limit: query.limit
                )
                if page.rows.isEmpty, let next {
                    place = .classic(next)
                    continue
                }
                page.nextLink = next?.link
            }
            return PullAnswer(
                status: 200,
                page: page,
                summary: page.summary,
                time: time
            )
        }
    }

    /// Where a page is.
    private enum Place {
        case request(from: String?)
        case follow(String)
        case classic(ClassicPage)
    }

    private func place(of action: PullMachine.Action) -> Place? {
        switch action {
        case .request(let from):
            dialect == .classic ? .classic(.from(from)) : .request(from: from)
        case .follow(let link):
            ClassicPage(link: link).map { .classic($0) } ?? .follow(link)
        case .wait, .apply, .finish:
            nil
        }
    }

    private func response(at place: Place, rows: Int) async throws -> TransportResponse {
        do {
            let request = RemoteService.Request.page(try url(of: place, rows: rows), rows: rows)
            let (response, _) = try await remote.once(request, dialect)
            guard remote.dialect == dialect else { throw OtherGeneration() }
            return response
        } catch let error as TransportError {
            throw SyncError.offline(error)
        }
    }

    private func url(of place: Place, rows: Int) throws -> URL {
        let schema = engine.catalog.schema(table)
        switch place {
        case .request(let from):
            let text = try PullRequest.query(
                query,
                from: from,
                isIncremental: queryID != nil,
                schema: schema
            )
            return try remote.endpoint.url(table, query: "?" + text)
        case .follow(let link):
            return try remote.endpoint.url(following: link, table: table)
        case .classic(let classic):
            let text = try classic.query(query, isIncremental: queryID != nil, rows: rows)
                .wireText(schema, .classic)
            return try remote.endpoint.url(table, query: "?" + text)
        }
    }

    /// Stores a page and its cursor.
    func apply(
        _ rows: [Row],
        _ since: Timestamp?,
        _ cursor: PullCursor
    ) async throws -> PageApply.Counts {
        try await engine.transaction { [table, queryID] queue in
            let counts = try PageApply(queue: queue, table: table).apply(rows, since: since)
            if let queryID { try queue.setCursor(cursor, table, queryID) }
            return counts
        }
    }
}

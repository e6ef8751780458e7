// PullSteps: performs the effects of one pull. It requests pages, and stores each page with its
// cursor.

import Foundation
import TidelineCore

/// The result of one request of a pull.
struct PullAnswer: Sendable {
    var status = 0
    var retryAfter: Duration?
    /// The page; nil if the response does not contain a page.
    var page: PulledPage?
    var summary: PageSummary?
    /// The outline of a response without a page.
    var outline: AnswerOutline?
    /// Whether the response is a page, or is proven to come from the server.
    var isProven = true
    /// The reason why no response arrived.
    var lost: TransportError?
    /// The time from the request to the last byte of the response.
    var time: Duration = .zero

    func pass(to machine: inout PullMachine) -> PullMachine.Action {
        if let lost { return machine.failed(LostPage(lost)) }
        guard let summary else {
            return machine.rejected(status: status, retryAfter: retryAfter, isProven: isProven)
        }
        return machine.received(summary, after: time)
    }
}

extension LostPage {
    fileprivate init(_ error: TransportError) {
        self =
            switch error.code {
            case .responseTooLarge: .tooLarge
            case .timedOut: .slow
            case .connectionLost, .incompleteResponse: .cut
            default: .unreachable
            }
    }
}

/// An error for a server whose generation changed during a pull, which makes the cursor and the
/// pages invalid.
struct OtherGeneration: Error {}

/// The effects of a single pull.
struct PullSteps: Sendable {
    let engine: SyncEngine
    let remote: RemoteService
    let dialect: ServerDialect
    let query: TableQuery
    let queryID: String?
    let fingerprint: String
    let table: String
    /// Whether nothing is sent during a wait that the server asked for.
    var isPatient = false

    /// The starting point of a pull.
    struct Start: Sendable {
        var cursor: PullCursor?
        /// The number of rows in the first page.
        var pageRows: Int?
        /// Whether all rows are read, not only changes.
        var isReading = true
    }

    func start() async throws -> Start {
        try await engine.read { [table, queryID, fingerprint, endpoint = endpointKey] in
            var start = Start(pageRows: try $0.pullState.pageRows(table, endpoint: endpoint))
            guard let queryID else { return start }
            start.cursor = try $0.pullState.cursor(
                table,
                queryID,
                fingerprint: fingerprint,
                endpoint: endpoint
            )
            let isBegun = start.cursor.map { $0.position != .start } ?? false
            start.isReading = try !isBegun || $0.pullState.hold(table, queryID)?.isReading ?? true
            return start
        }
    }

    /// Stores the page size that suits the network connection.
    func keep(_ rows: Int?, before: Int?) async throws {
        guard rows != before else { return }
        try await engine.transaction { [table, endpoint = endpointKey] in
            try $0.pullState.setPageRows(rows, table, endpoint: endpoint)
        }
    }

    func error(_ failure: PullMachine.Failure, _ answer: PullAnswer?) -> SyncError {
        if failure == .network, let lost = answer?.lost { return .offline(lost) }
        return .pullFailed(
            failure,
            table: table,
            answer: answer?.outline,
            server: remote.endpoint.name
        )
    }

    private var endpointKey: String { dialect.cursorScope(remote.endpoint.key) }

    /// Requests a page and reads it; returns nil if there is nothing to request.
    ///
    /// Set `isReading` if the rows can probably be stored as they arrive. `epoch` is the epoch of
    /// the cursor or of the previous pages.
    func ask(
        _ action: PullMachine.Action,
        rows: Int,
        isReading: Bool,
        epoch: String? = nil
    ) async throws -> PullAnswer? {
        guard var place = place(of: action) else { return nil }
        let start = engine.environment.now()
        while true {
            try Task.checkCancellation()
            if isPatient { try await engine.serverWait.sleep() }
            let response: TransportResponse
            do {
                response = try await self.response(at: place, rows: rows)
            } catch let error as TransportError {
                return PullAnswer(lost: error)
            }
            let time = Duration.seconds(engine.environment.now().timeIntervalSince(start))
            var page: PulledPage?
            if response.status == 200 {
                page = PulledPage(
                    response,
                    schema: engine.catalog.schema(table),
                    asCells: isReading && dialect == .datasync
                )
            }
            if let read = page,
                !AnswerProof.isServersPage(
                    headers: response.headers,
                    hasRows: read.hasServersRow,
                    signs: remote.signs.known,
                    hasEpoch: epoch != nil
                )
            {
                page = nil
            }
            if case .classic(let classic) = place, let read = page {
                let next = classic.next(
                    read.rows,
                    asked: classic.rows(asked: rows, query),
                    hasLink: read.nextLink != nil,
                    isIncremental: queryID != nil,
                    limit: query.limit
                )
                if read.rows.isEmpty, let next {
                    place = .classic(next)
                    continue
                }
                page?.nextLink = next?.link
            }
            return PullAnswer(
                status: response.status,
                retryAfter: response.retryAfter(at: remote.serverTime),
                page: page,
                summary: page?.summary,
                outline: page == nil ? AnswerOutline(response) : nil,
                isProven: page != nil || AnswerProof.isServers(response)
                    || AnswerProof.wantsSignIn(response),
                time: time
            )
        }
    }

    /// The location from which a page is requested.
    private enum PageSource {
        case request(from: String?)
        case follow(String)
        case classic(ClassicPage)
    }

    private func place(of action: PullMachine.Action) -> PageSource? {
        switch action {
        case .request(let from):
            dialect == .classic ? .classic(.from(from)) : .request(from: from)
        case .follow(let link):
            dialect == .classic
                ? ClassicPage(link: link).map { .classic($0) } : .follow(link)
        case .wait, .apply, .finish:
            nil
        }
    }

    private func response(at place: PageSource, rows: Int) async throws -> TransportResponse {
        let page = RemoteService.Request.page(
            try url(of: place, rows: rows),
            rows: rows,
            tracksChanges: queryID != nil && dialect == .datasync
        )
        let (response, _) = try await remote.once(page, dialect)
        guard remote.dialect == dialect else { throw OtherGeneration() }
        return response
    }

    private func url(of place: PageSource, rows: Int) throws -> URL {
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

    /// A page that is ready to be stored.
    struct ReadyPage: Sendable {
        var page: PulledPage
        /// The time from which rows were requested.
        var since: Timestamp?
        var step: PageStep
        var epoch: String?
        /// The latest commit timestamp on the page.
        var latest: String?
    }

    /// Stores pages and their cursors in one transaction.
    ///
    /// When it stores the last page of a complete read, it removes the rows that the read did not
    /// return. Only the last page waits until the data is on the disk, because the other pages can
    /// be pulled again.
    ///
    /// - Returns: The counts of each page.
    func apply(
        _ pages: [ReadyPage],
        _ seen: PulledIDs,
        _ isStored: StoreTurn
    ) async throws -> [PageApply.Counts] {
        defer { isStored.set() }
        let now = engine.environment.now()
        let filter = query.filter?.bound(now: now)
        let isLast = pages.contains(where: \.step.isLast)
        return try await engine.transaction(isRepeatable: !isLast) { queue in
            try pages.map { ready in
                try queue.epochs.handle(ready.epoch, endpoint: endpointKey, of: table)
                try queue.knownCommits.note(ready.latest.flatMap { Timestamp($0) }, of: table)
                guard let queryID, let position = ready.step.position else {
                    return try applyWithoutID(ready, queue, filter, seen, now)
                }
                let cursor = PullCursor(
                    position: position,
                    epoch: ready.epoch,
                    fingerprint: fingerprint,
                    endpoint: endpointKey
                )
                return try apply(ready, queryID, cursor, queue, now)
            }
        }
    }

    private func apply(
        _ ready: ReadyPage,
        _ queryID: String,
        _ cursor: PullCursor,
        _ queue: QueueTransaction,
        _ now: Date
    ) throws -> PageApply.Counts {
        let isLast = ready.step.isLast
        var hold = try queue.pullState.hold(table, queryID, startsOver: ready.step.startsOver)
        let page = try PageApply(queue: queue, table: table, hold: hold)
        var counts = try page.apply(ready.page, since: ready.since)
        if isLast, let former = hold.formerBits {
            counts.add(try page.endReading())
            hold.formerBits = nil
            try queue.pullState.setHold(hold, table, queryID)
            try queue.unmasked.setTaken(try queue.unmasked.taken(table) & ~former, table)
            counts.isWritten = true
        }
        if isLast { counts.add(try page.removeRowsWithoutQuery()) }
        if try queue.pullState.setCursor(cursor, table, queryID) { counts.isWritten = true }
        // A pull without changes writes nothing, so its time is kept only in memory.
        if isLast, counts.isWritten { try queue.pullState.setLastPull(now, table) }
        return counts
    }

    private func applyWithoutID(
        _ ready: ReadyPage,
        _ queue: QueueTransaction,
        _ filter: Filter?,
        _ seen: PulledIDs,
        _ now: Date
    ) throws -> PageApply.Counts {
        let hold = QueryHold(number: QueryHold.withoutID, formerBits: 0)
        try queue.unmasked.setTaken(try queue.unmasked.taken(table) | hold.bit, table)
        let page = try PageApply(queue: queue, table: table, hold: hold)
        var counts = try page.apply(ready.page, since: nil)
        if ready.step.isLast {
            // With a limit or an offset, a row that was not returned may still be on the server.
            let isWhole = query.limit == nil && query.offset == 0
            if isWhole { counts.add(try page.endReading(filter, seen: seen)) }
            try queue.pullState.setLastPull(now, table)
        }
        return counts
    }
}

// PullMachine: decides which requests a pull sends.
//
// Pure. The order of calls:
//
//     start() -> { received(_:) | rejected() | failed(_:) | waited() }* -> applied() -> … -> .finish
//
// After `applied()`, the next request may be sent while the accepted page is stored.
//
// The first request of a query asks for all rows and for a link to later changes. If the server
// sends such a link (delta), the client follows the links of the list's pages, and then the link to
// the changes. No change is missed, and rows that leave the query are reported.
//
// Without delta links, a pull requests `updatedAt ge T` in the order of `updatedAt`, including
// tombstones. After a page that advances T, it sends a new request from there. Rows that change
// during the pull move to the end and are sent again, however the server divides the list into
// pages. Only if T does not advance (a page of equal times) does the pull follow the server's next
// link.
//
// If a cursor is no longer valid (a different epoch, an expired link, tombstones that are gone),
// the query restarts from the beginning. The reasons are in docs/sync.md.

import TidelineCore

/// The state machine of a pull, which chooses the next request after each page.
package struct PullMachine: Sendable {
    package enum Failure: Error, Sendable, Hashable {
        case network
        case unauthorized
        case rejected(status: Int)
        /// The response is not proven to come from the server.
        case unproven(status: Int)
        case badPage
        case tooManyPages
        /// The pull had already restarted, and the cursor became invalid again.
        case changingServer
        /// The pull had already restarted, and a page of changes lacked a link again.
        case missingLink
    }

    package enum Action: Sendable, Hashable {
        /// Request rows from this time on.
        ///
        /// If the time is nil, all rows are requested, with a link to later changes.
        case request(from: String?)
        /// Request the page at this link.
        case follow(String)
        case wait(Duration)
        /// Store the page together with the cursor, in one transaction.
        case apply(PageStep)
        case finish(Failure?)
    }

    private enum State: Sendable {
        case idle
        case asking(Action, attempt: Int)
        case waiting(Action, attempt: Int)
        case applying(next: Action)
        case finished
    }

    private let limits: SyncLimits
    private let isIncremental: Bool
    private var position: PullCursor.Position
    /// The epoch that the cursor belongs to; nil if the server sends none.
    package private(set) var epoch: String?
    private var startsOver: Bool
    private var hasRestarted = false
    private var state = State.idle
    package private(set) var requests = 0
    private var pages = 0
    /// The number of rows in the next request.
    ///
    /// Rows of a large page are cheaper to store, and a slow network loses less with small pages.
    /// Therefore the time that a page takes determines the size of the next page. If a page does
    /// not arrive completely, it is requested again with fewer rows.
    package private(set) var pageRows: Int

    package init(
        isIncremental: Bool,
        position: PullCursor.Position = .start,
        epoch: String? = nil,
        pageRows: Int? = nil,
        limits: SyncLimits
    ) {
        self.isIncremental = isIncremental
        self.position = isIncremental ? position : .start
        startsOver = self.position == .start
        self.epoch = epoch
        self.limits = limits
        self.pageRows = max(1, min(pageRows ?? limits.pageRowsFirst, limits.pageRowsMax))
    }

    package mutating func start() -> Action {
        switch position {
        case .start: ask(.request(from: nil), 1)
        case .time(let time): ask(.request(from: time), 1)
        case .link(let link): ask(.follow(link), 1)
        }
    }

    private mutating func ask(_ request: Action, _ attempt: Int) -> Action {
        requests += 1
        state = .asking(request, attempt: attempt)
        return request
    }

    /// Handles a page that was read completely; `time` is the time since its request.
    package mutating func received(_ page: PageSummary, after time: Duration = .zero) -> Action {
        guard case .asking(let request, _) = state else {
            preconditionFailure("received(_:) with nothing asked")
        }
        pages += 1
        adaptPageRows(to: time)
        guard pages <= limits.pagesMax, !leadsToItself(page, request) else {
            return finish(.tooManyPages)
        }
        if isIncremental, let now = page.epoch {
            let isOther = epoch != nil && epoch != now
            epoch = now
            if isOther { return restart() }
        }
        guard isIncremental else {
            epoch = page.epoch ?? epoch
            return apply(then: page.nextLink.flatMap { page.rowCount > 0 ? .follow($0) : nil })
        }
        if case .request(let from?) = request {
            // If a server tracks changes, its lists omit tombstones, and only the changes report
            // them. If the server has removed tombstones since the cursor's time, it cannot report
            // all deletes.
            if page.tracksChanges || isLater(page.horizon, than: from) { return restart() }
        }
        // A list without a link does not track changes, whatever its header field says.
        let isTracked = page.tracksChanges && (page.nextLink ?? page.deltaLink) != nil
        if isFollowingChanges || request == .request(from: nil) && isTracked {
            return followChanges(page)
        }
        return followTime(page)
    }

    /// Returns whether the next request would be the same one, forever.
    private func leadsToItself(_ page: PageSummary, _ request: Action) -> Bool {
        guard case .follow(let link) = request else { return false }
        // An empty page ends a list even if it has a link.
        return page.nextLink == link && (page.rowCount > 0 || isFollowingChanges)
    }

    private var isFollowingChanges: Bool {
        if case .link = position { true } else { false }
    }

    private mutating func followChanges(_ page: PageSummary) -> Action {
        if let link = page.nextLink {
            position = .link(link)
            return apply(then: .follow(link))
        }
        guard let link = page.deltaLink else {
            // The pages may be incomplete, because a server that no longer tracks changes responds
            // like this.
            return hasRestarted ? finish(.missingLink) : restart()
        }
        position = .link(link)
        return apply(then: nil)
    }

    private mutating func followTime(_ page: PageSummary) -> Action {
        var cursor: String?
        if case .time(let time) = position { cursor = time }
        var hasAdvanced = false
        if let latest = page.latest, isLater(latest, than: cursor) {
            (cursor, hasAdvanced) = (latest, true)
            position = .time(latest)
        }
        guard let link = page.nextLink, page.rowCount > 0 else { return apply(then: nil) }
        return apply(then: hasAdvanced ? .request(from: cursor) : .follow(link))
    }

    private mutating func apply(then next: Action?) -> Action {
        let step = PageStep(
            position: isIncremental ? position : nil,
            startsOver: startsOver,
            isLast: next == nil
        )
        startsOver = false
        state = .applying(next: next ?? .finish(nil))
        return .apply(step)
    }

    /// Restarts the pull, because this server does not accept the cursor.
    ///
    /// If a page arrived, it is not stored, because it was requested with that cursor.
    private mutating func restart() -> Action {
        guard !hasRestarted else { return finish(.changingServer) }
        hasRestarted = true
        position = .start
        startsOver = true
        return ask(.request(from: nil), 1)
    }

    /// Handles a response that is not a page.
    ///
    /// `isProven` is true if the response certainly comes from the server. After any other
    /// response, the cursor stays unchanged and the request is sent a second time, because the
    /// response of a proxy is often temporary.
    package mutating func rejected(
        status: Int,
        retryAfter: Duration?,
        isProven: Bool = true
    ) -> Action {
        guard case .asking(let request, let attempt) = state else {
            preconditionFailure("rejected() with nothing asked")
        }
        if !isProven, status != 408, status != 429, status < 500 {
            guard attempt < min(2, limits.attemptsMax) else {
                return finish(.unproven(status: status))
            }
            state = .waiting(request, attempt: attempt)
            return .wait(Backoff.delay(after: attempt, asked: retryAfter, limits))
        }
        switch status {
        case 401:
            return finish(.unauthorized)
        case 408, 429, 500...:
            guard attempt < limits.attemptsMax, !Backoff.isTooLong(retryAfter, limits) else {
                return finish(.network)
            }
            state = .waiting(request, attempt: attempt)
            return .wait(Backoff.delay(after: attempt, asked: retryAfter, limits))
        case 200..<300:
            return finish(.badPage)
        case 400, 410:
            // The link has expired, or the server can no longer read it.
            guard isFollowingChanges, !hasRestarted else {
                return finish(.rejected(status: status))
            }
            // The link may belong to a different epoch, which the next response shows.
            epoch = nil
            return restart()
        default:
            return finish(.rejected(status: status))
        }
    }

    /// Handles a page that did not arrive, and requests it again, with fewer rows if that may help.
    package mutating func failed(_ reason: LostPage) -> Action {
        guard case .asking(let request, let attempt) = state else {
            preconditionFailure("failed(_:) with nothing asked")
        }
        let rows = pageRows
        if reason != .unreachable { pageRows = max(1, rows / 4) }
        switch reason {
        case .unreachable:
            return finish(.network)
        case .tooLarge:
            // Each attempt requests a quarter of the rows of the previous one, so there are only a
            // few attempts.
            return rows > 1 ? ask(request, attempt) : finish(.network)
        case .slow where rows <= limits.pageRowsSmall:
            // A page with so few rows is not too large, so the server is not responding.
            return finish(.network)
        case .slow, .cut:
            guard attempt < limits.attemptsMax else { return finish(.network) }
            state = .waiting(request, attempt: attempt)
            return .wait(Backoff.delay(after: attempt, asked: nil, limits))
        }
    }

    /// The page size with which the next pull starts; nil for the usual size.
    package var pageRowsKept: Int? { pageRows < limits.pageRowsFirst ? pageRows : nil }

    package mutating func waited() -> Action {
        guard case .waiting(let request, let attempt) = state else {
            preconditionFailure("waited() while not waiting")
        }
        return ask(request, attempt + 1)
    }

    package mutating func applied() -> Action {
        guard case .applying(let next) = state else {
            preconditionFailure("applied() with nothing to apply")
        }
        if case .finish = next {
            state = .finished
            return next
        }
        return ask(next, 1)
    }

    private mutating func adaptPageRows(to time: Duration) {
        if time <= limits.pageTimeWanted / 2 {
            pageRows = min(pageRows * 2, limits.pageRowsMax)
        } else if time > limits.pageTimeWanted {
            let least = min(limits.pageRowsFirst, limits.pageRowsMax) / 8
            pageRows = max(pageRows / 2, min(pageRows, least), 1)
        }
    }

    private mutating func finish(_ failure: Failure) -> Action {
        state = .finished
        return .finish(failure)
    }

    private func isLater(_ text: String?, than other: String?) -> Bool {
        guard let text, let timestamp = Timestamp(text) else { return false }
        guard let other, let before = Timestamp(other) else { return true }
        return timestamp > before
    }
}

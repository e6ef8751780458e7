// PullMachine: what to do next while pages come from the server.
//
// Pure. The order of calls:
//
//     start() -> { received(_:) | refused() | failed(_:) | waited() }* -> applied() -> … -> .finish
//
// `applied()`: the page was taken over; the next question may go out while it is stored.
//
// The first request of a query asks for everything and for a link to what changes after it. Where
// the server gives one (delta), the pages of the list are followed by their links, then the changes:
// nothing is missed, and rows that leave the query are told.
//
// Elsewhere a pull asks for `updatedAt ge T` in the order of updatedAt, tombstones included. When a
// page moves T it asks anew from there: rows that change while it pages move to the end and come
// again, whatever the server pages by. Only while T stands still (a page of equal times) does it
// follow the server's next link.
//
// Where a cursor is worth nothing any more (another epoch, an expired link, tombstones that are gone)
// everything is read anew. docs/SYNC.md has the reasons.

import TidelineCore

package struct PullMachine: Sendable {
    package enum Failure: Error, Sendable, Hashable {
        case network
        case unauthorized
        case rejected(status: Int)
        /// Something else than the server answered.
        case unproven(status: Int)
        case badPage
        case tooManyPages
        /// The pull had begun anew, and once more the server knew nothing of what it gave before.
        case changingServer
        /// The pull had begun anew, and once more a page of changes led nowhere.
        case missingLink
    }

    package enum Action: Sendable, Hashable {
        /// Ask for rows from this time on; nil: all rows, and a link to what changes after them.
        case request(from: String?)
        /// Ask for the page behind this link.
        case follow(String)
        case wait(Duration)
        /// Store the page and, in the same transaction, the cursor.
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
    /// The epoch that the cursor belongs to; nil for a server that has none.
    package private(set) var epoch: String?
    private var startsOver: Bool
    private var hasBegunAnew = false
    private var state = State.idle
    /// How many requests were sent.
    package private(set) var requests = 0
    private var pages = 0
    /// How many rows the next request asks for.
    ///
    /// Large pages cost the store less for each row, small ones lose less on a slow network, so
    /// the time of each page decides about the next. One that did not arrive whole is asked for
    /// again as a smaller one.
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

    /// A page was read whole, `time` after it was asked for.
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
            if isOther { return beginAnew() }
        }
        guard isIncremental else {
            epoch = page.epoch ?? epoch
            return apply(then: page.nextLink.flatMap { page.rowCount > 0 ? .follow($0) : nil })
        }
        if case .request(let from?) = request {
            // A server that tells changes leaves tombstones out where it promises them for later;
            // one that has dropped tombstones since the cursor cannot tell what is gone.
            if page.tracksChanges || isLater(page.horizon, than: from) { return beginAnew() }
        }
        // A list that leads nowhere tells no changes, whatever it says.
        let isTracked = page.tracksChanges && (page.nextLink ?? page.deltaLink) != nil
        if isFollowingChanges || request == .request(from: nil) && isTracked {
            return followChanges(page)
        }
        return followTime(page)
    }

    /// Whether the same question would be asked again, without an end.
    private func leadsToItself(_ page: PageSummary, _ request: Action) -> Bool {
        guard case .follow(let link) = request else { return false }
        // An empty page ends a list, whatever its link.
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
            // What came may not be all: a server that tells no changes any more answers so.
            return hasBegunAnew ? finish(.missingLink) : beginAnew()
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

    /// The cursor means nothing to this server any more.
    ///
    /// The page, if one came, is not stored: it was asked for with that cursor.
    private mutating func beginAnew() -> Action {
        guard !hasBegunAnew else { return finish(.changingServer) }
        hasBegunAnew = true
        position = .start
        startsOver = true
        return ask(.request(from: nil), 1)
    }

    /// The answer was no page.
    ///
    /// `isProven`: whether it certainly comes from the server. Any other answer moves no cursor,
    /// and the request is sent a second time, because a proxy's page is often gone a moment later.
    package mutating func refused(
        status: Int,
        retryAfter: Duration?,
        isProven: Bool = true
    ) -> Action {
        guard case .asking(let request, let attempt) = state else {
            preconditionFailure("refused() with nothing asked")
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
            // A link that has expired, or that the server cannot read any more.
            guard isFollowingChanges, !hasBegunAnew else {
                return finish(.rejected(status: status))
            }
            // It may be for another epoch, which the next answer tells.
            epoch = nil
            return beginAnew()
        default:
            return finish(.rejected(status: status))
        }
    }

    /// No page came: it is asked for again, smaller, where that may help.
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
            // Each try is a quarter of the one before, so there are few.
            return rows > 1 ? ask(request, attempt) : finish(.network)
        case .slow where rows <= limits.pageRowsSmall:
            // So few rows are no reason: the server is silent.
            return finish(.network)
        case .slow, .cut:
            guard attempt < limits.attemptsMax else { return finish(.network) }
            state = .waiting(request, attempt: attempt)
            return .wait(Backoff.delay(after: attempt, asked: nil, limits))
        }
    }

    /// The size of a page to begin the next pull with; nil for the usual one.
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
        guard let text, let stamp = Timestamp(text) else { return false }
        guard let other, let before = Timestamp(other) else { return true }
        return stamp > before
    }
}

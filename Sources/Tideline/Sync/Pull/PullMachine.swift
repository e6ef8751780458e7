// PullMachine: what to do next while pages come from the server.
//
// Pure. The order of calls:
//
//     start() -> { received(_:) | refused() | failed() | waited() }* -> applied() -> … -> .finish
//
// While a page is stored, `ahead` is what will be asked next: the runner may ask it meanwhile.
//
// An incremental pull asks for `updatedAt ge T` in the order of updatedAt, tombstones included.
// When a page moves T it asks anew from there: rows that change while it pages move to the end and
// come again, whatever the server pages by. Only while T stands still (a page of equal times) does
// it follow the server's next link. When the server's epoch changes it begins anew, without cursor.
// docs/SYNC.md has the reasons.

import TidelineCore

/// What one page says, without its rows.
package struct PageSummary: Sendable, Hashable {
    package var rowCount: Int
    /// The latest `updatedAt` of the page, as the server wrote it.
    package var latest: String?
    package var nextLink: String?
    /// What names the state of the server's database: another one after a restore from a backup.
    package var epoch: String?

    package init(
        rowCount: Int,
        latest: String?,
        nextLink: String? = nil,
        epoch: String? = nil
    ) {
        self.rowCount = rowCount
        self.latest = latest
        self.nextLink = nextLink
        self.epoch = epoch
    }
}

package struct PullMachine: Sendable {
    package enum Failure: Error, Sendable, Hashable {
        case network
        case unauthorized
        case rejected(status: Int)
        case badPage
        case tooManyPages
        /// The server's epoch changed again after the pull had begun anew.
        case changingEpoch
    }

    package enum Action: Sendable, Hashable {
        /// Ask for rows from this time on; nil: all rows.
        case request(from: String?)
        /// Ask for the page behind this link.
        case follow(String)
        case wait(Duration)
        /// Store the page and, in the same transaction, the cursor.
        case apply(cursor: String?)
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
    private var cursor: String?
    /// The epoch that the cursor belongs to; nil for a server that has none.
    package private(set) var epoch: String?
    private var hasBegunAnew = false
    private var state = State.idle
    /// How many requests were sent.
    package private(set) var requests = 0
    private var pages = 0
    /// How many rows the next request asks for.
    ///
    /// Large pages cost the store less for each row, small ones lose less on a slow network, so
    /// the time of each page decides about the next.
    package private(set) var pageRows: Int

    package init(
        isIncremental: Bool,
        cursor: String?,
        epoch: String? = nil,
        limits: SyncLimits
    ) {
        self.isIncremental = isIncremental
        self.cursor = cursor
        self.epoch = epoch
        self.limits = limits
        pageRows = min(limits.pageRowsFirst, limits.pageRowsMax)
    }

    package mutating func start() -> Action { ask(.request(from: isIncremental ? cursor : nil), 1) }

    private mutating func ask(_ request: Action, _ attempt: Int) -> Action {
        requests += 1
        state = .asking(request, attempt: attempt)
        return request
    }

    /// What `applied()` will ask, if it will ask anything.
    package var ahead: Action? {
        guard case .applying(let next) = state else { return nil }
        if case .finish = next { return nil }
        return next
    }

    /// A page was read whole, `time` after it was asked for.
    package mutating func received(_ page: PageSummary, after time: Duration = .zero) -> Action {
        guard case .asking = state else { preconditionFailure("received(_:) with nothing asked") }
        pages += 1
        adaptPageRows(to: time)
        guard pages <= limits.pagesMax else { return finish(.tooManyPages) }
        if isIncremental, let now = page.epoch {
            let isOther = epoch != nil && epoch != now
            epoch = now
            if isOther { return beginAnew() }
        }
        let advanced = isIncremental && isLater(page.latest, than: cursor)
        if advanced { cursor = page.latest }
        let next: Action
        if let link = page.nextLink, page.rowCount > 0 {
            next = advanced ? .request(from: cursor) : .follow(link)
        } else {
            next = .finish(nil)
        }
        state = .applying(next: next)
        return .apply(cursor: isIncremental ? cursor : nil)
    }

    /// What was pulled belongs to another state of the server: the cursor means nothing in this one.
    ///
    /// The page is not stored: it was asked for with that cursor.
    private mutating func beginAnew() -> Action {
        guard !hasBegunAnew else { return finish(.changingEpoch) }
        hasBegunAnew = true
        cursor = nil
        return ask(.request(from: nil), 1)
    }

    /// The answer was no page.
    package mutating func refused(status: Int, retryAfter: Duration?) -> Action {
        guard case .asking(let request, let attempt) = state else {
            preconditionFailure("refused() with nothing asked")
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
        default:
            return finish(.rejected(status: status))
        }
    }

    package mutating func failed() -> Action { finish(.network) }

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
            pageRows = max(pageRows / 2, min(limits.pageRowsFirst, limits.pageRowsMax) / 8, 1)
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

// PullMachine: scripts of pages, and the resulting requests.

import Testing
import Tideline
import TidelineTestSupport

@Suite struct PullMachineTests {
    private let limits = SyncLimits()

    private func full(_ latest: Int?, next: String? = "next") -> PageSummary {
        PageSummary(rowCount: 2, latest: latest.map(timestamp), nextLink: next)
    }

    /// Returns the state that is stored with a page of a pull by time.
    private func step(
        _ latest: Int?,
        first: Bool = false,
        last: Bool = false
    ) -> PullMachine.Action {
        .apply(
            PageStep(
                position: latest.map { .time(timestamp($0)) } ?? .start,
                startsOver: first,
                isLast: last
            )
        )
    }

    private func link(_ link: String, first: Bool = false, last: Bool = false) -> PullMachine.Action
    {
        .apply(PageStep(position: .link(link), startsOver: first, isLast: last))
    }

    @Test("The first pull requests all rows") func theFirstPullReadsAllRows() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        #expect(machine.start() == .request(from: nil))
        #expect(machine.received(full(5, next: nil)) == step(5, first: true, last: true))
        #expect(machine.applied() == .finish(nil))
        #expect(machine.requests == 1)
    }

    @Test("A later pull starts at the cursor") func aLaterPullStartsAtTheCursor() {
        var machine = PullMachine(
            isIncremental: true,
            position: .time(timestamp(5)),
            limits: limits
        )
        #expect(machine.start() == .request(from: timestamp(5)))
        let empty = PageSummary(rowCount: 0, latest: nil)
        #expect(machine.received(empty) == step(5, last: true))
        #expect(machine.applied() == .finish(nil))
    }

    @Test("A page that advances the cursor is followed by a request from the new cursor")
    func aPageThatMovesTheCursorIsFollowedByANewRequest() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        #expect(machine.received(full(3)) == step(3, first: true))
        #expect(machine.applied() == .request(from: timestamp(3)))
        #expect(machine.received(full(7)) == step(7))
        #expect(machine.applied() == .request(from: timestamp(7)))
        #expect(machine.requests == 3)
    }

    @Test("A page of rows with equal times is followed by its next link")
    func aPageOfEqualTimesIsFollowedByItsLink() {
        var machine = PullMachine(
            isIncremental: true,
            position: .time(timestamp(3)),
            limits: limits
        )
        _ = machine.start()
        #expect(machine.received(full(3, next: "l1")) == step(3))
        #expect(machine.applied() == .follow("l1"))
        #expect(machine.received(full(3, next: "l2")) == step(3))
        #expect(machine.applied() == .follow("l2"))
        #expect(machine.received(full(4, next: "l3")) == step(4))
        #expect(machine.applied() == .request(from: timestamp(4)))
        #expect(machine.received(full(4, next: nil)) == step(4, last: true))
        #expect(machine.applied() == .finish(nil))
    }

    @Test("The cursor never moves back") func theCursorNeverMovesBack() {
        var machine = PullMachine(
            isIncremental: true,
            position: .time(timestamp(9)),
            limits: limits
        )
        _ = machine.start()
        #expect(machine.received(full(3)) == step(9))
        _ = machine.applied()
        let odd = PageSummary(rowCount: 1, latest: "yesterday", nextLink: nil)
        #expect(machine.received(odd) == step(9, last: true))
    }

    @Test("A pull without a query ID follows links and stores no cursor")
    func aPullWithoutAnIDFollowsLinksAndStoresNoCursor() {
        var machine = PullMachine(
            isIncremental: false,
            position: .time(timestamp(9)),
            limits: limits
        )
        #expect(machine.start() == .request(from: nil))
        #expect(machine.received(full(12, next: "l1")) == .apply(PageStep(startsOver: true)))
        #expect(machine.applied() == .follow("l1"))
        #expect(machine.received(full(15, next: nil)) == .apply(PageStep(isLast: true)))
        #expect(machine.applied() == .finish(nil))
    }

    @Test("An empty page ends the pull even if it has a next link")
    func anEmptyPageEndsThePullEvenWithALink() {
        var machine = PullMachine(isIncremental: false, limits: limits)
        _ = machine.start()
        _ = machine.received(PageSummary(rowCount: 0, latest: nil, nextLink: "again"))
        #expect(machine.applied() == .finish(nil))
    }

    // MARK: - Changes

    private func tracked(_ rows: Int, next: String? = nil, delta: String? = nil) -> PageSummary {
        PageSummary(
            rowCount: rows,
            latest: rows == 0 ? nil : timestamp(rows),
            nextLink: next,
            deltaLink: delta,
            tracksChanges: true
        )
    }

    @Test("A pull from a server with change tracking follows next and delta links")
    func linksOfAServerWithChangeTrackingAreFollowed() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        #expect(machine.start() == .request(from: nil))
        #expect(machine.received(tracked(5, next: "n1")) == link("n1", first: true))
        #expect(machine.applied() == .follow("n1"))
        #expect(machine.received(tracked(0, next: "n2")) == link("n2"))
        #expect(machine.applied() == .follow("n2"))
        #expect(machine.received(tracked(2, delta: "d1")) == link("d1", last: true))
        #expect(machine.applied() == .finish(nil))
        var later = PullMachine(isIncremental: true, position: .link("d1"), limits: limits)
        #expect(later.start() == .follow("d1"))
        #expect(later.received(tracked(0, delta: "d1")) == link("d1", last: true))
        #expect(later.applied() == .finish(nil))
        #expect(later.requests == 1)
    }

    /// The page may be incomplete.
    @Test("A page of changes without any link restarts the pull once")
    func aPageOfChangesWithoutAnyLinkStartsOverOnce() {
        var machine = PullMachine(isIncremental: true, position: .link("d1"), limits: limits)
        _ = machine.start()
        #expect(machine.received(tracked(3)) == .request(from: nil))
        #expect(machine.received(tracked(5, next: "n1")) == link("n1", first: true))
        #expect(machine.applied() == .follow("n1"))
        #expect(machine.received(tracked(2)) == .finish(.missingLink))
    }

    @Test("A server that announces change tracking but sends no link is pulled by time")
    func aListWithoutAnyLinkHasNoChangeTracking() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        #expect(machine.received(tracked(3)) == step(3, first: true, last: true))
        #expect(machine.applied() == .finish(nil))
    }

    @Test("A rejected delta link restarts the pull once", arguments: [400, 410])
    func aRejectedLinkStartsOverOnce(status: Int) {
        var machine = PullMachine(isIncremental: true, position: .link("d1"), limits: limits)
        _ = machine.start()
        #expect(machine.rejected(status: status, retryAfter: nil) == .request(from: nil))
        #expect(machine.received(tracked(5, next: "n1")) == link("n1", first: true))
        #expect(machine.applied() == .follow("n1"))
        #expect(
            machine.rejected(status: status, retryAfter: nil) == .finish(.rejected(status: status))
        )
    }

    @Test("A server that starts to track changes is pulled from the start")
    func aServerThatStartsToTrackChangesIsReadFromTheStart() {
        var machine = PullMachine(
            isIncremental: true,
            position: .time(timestamp(5)),
            limits: limits
        )
        #expect(machine.start() == .request(from: timestamp(5)))
        #expect(machine.received(tracked(1, delta: "d")) == .request(from: nil))
        #expect(machine.received(tracked(9, delta: "d")) == link("d", first: true, last: true))
    }

    @Test("A cursor before the retention horizon restarts the pull")
    func purgedTombstonesStartOver() {
        var machine = PullMachine(
            isIncremental: true,
            position: .time(timestamp(5)),
            limits: limits
        )
        _ = machine.start()
        let old = PageSummary(rowCount: 1, latest: timestamp(9), horizon: timestamp(5))
        #expect(machine.received(old) == step(9, last: true))
        machine = PullMachine(isIncremental: true, position: .time(timestamp(5)), limits: limits)
        _ = machine.start()
        let gone = PageSummary(rowCount: 1, latest: timestamp(9), horizon: timestamp(6))
        #expect(machine.received(gone) == .request(from: nil))
        #expect(machine.received(gone) == step(9, first: true, last: true))
    }

    @Test("Another epoch restarts the pull once") func anotherEpochStartsOverOnce() {
        var machine = PullMachine(
            isIncremental: true,
            position: .link("d"),
            epoch: "one",
            limits: limits
        )
        _ = machine.start()
        var page = tracked(1, delta: "e")
        page.epoch = "two"
        #expect(machine.received(page) == .request(from: nil))
        page.epoch = "three"
        #expect(machine.received(page) == .finish(.changingServer))
    }

    // MARK: - Pages that do not arrive

    @Test("A page that does not arrive is requested again with fewer rows")
    func aPageThatDoesNotArriveIsRequestedAgainWithFewerRows() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        #expect(machine.failed(.tooLarge) == .request(from: nil))
        #expect(machine.pageRows == 250)
        #expect(machine.failed(.slow) == .wait(.milliseconds(500)))
        #expect(machine.waited() == .request(from: nil))
        #expect(machine.pageRows == 62)
        #expect(machine.failed(.cut) == .wait(.milliseconds(1000)))
        #expect(machine.waited() == .request(from: nil))
        #expect(machine.failed(.slow) == .finish(.network))
        #expect(machine.pageRowsKept == 3)
    }

    @Test("One row that is too large ends the pull") func oneRowThatIsTooLargeEndsThePull() {
        var machine = PullMachine(isIncremental: true, pageRows: 3, limits: limits)
        _ = machine.start()
        #expect(machine.failed(.tooLarge) == .request(from: nil))
        #expect(machine.pageRows == 1)
        #expect(machine.failed(.tooLarge) == .finish(.network))
    }

    @Test("A fast response restores the large page size") func aFastLinkRestoresTheLargePage() {
        var machine = PullMachine(isIncremental: true, pageRows: 600, limits: limits)
        _ = machine.start()
        #expect(machine.pageRowsKept == 600)
        _ = machine.received(full(3), after: .milliseconds(10))
        #expect(machine.pageRowsKept == nil)
    }

    @Test("An endless chain of next links ends the pull") func anEndlessChainOfLinksEndsThePull() {
        var few = SyncLimits()
        few.pagesMax = 3
        var machine = PullMachine(isIncremental: false, limits: few)
        _ = machine.start()
        for number in 0..<3 {
            _ = machine.received(PageSummary(rowCount: 1, latest: nil, nextLink: "\(number)"))
            #expect(machine.applied() == .follow("\(number)"))
        }
        #expect(machine.received(full(1)) == .finish(.tooManyPages))
    }

    @Test("A page with rows that links to itself ends the pull", arguments: [true, false])
    func aLinkToItsOwnPageEndsThePull(isIncremental: Bool) {
        var machine = PullMachine(isIncremental: isIncremental, limits: limits)
        _ = machine.start()
        let page = PageSummary(rowCount: 1, latest: nil, nextLink: "same")
        _ = machine.received(page)
        #expect(machine.applied() == .follow("same"))
        var other = machine
        #expect(machine.received(page) == .finish(.tooManyPages))
        // An empty page is the last one.
        let empty = PageSummary(rowCount: 0, latest: nil, nextLink: "same")
        guard case .apply = other.received(empty) else {
            Issue.record("an empty page is no page")
            return
        }
        #expect(other.applied() == .finish(nil))
    }

    @Test("A pull retries 408, 429 and 503 responses with backoff, up to a limit")
    func requestsToABusyServerAreRetriedWithBackoff() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        for (status, wait) in [(503, 500), (429, 1000), (408, 2000)] {
            #expect(
                machine.rejected(status: status, retryAfter: nil) == .wait(.milliseconds(wait))
            )
            #expect(machine.waited() == .request(from: nil))
        }
        #expect(machine.rejected(status: 500, retryAfter: nil) == .finish(.network))
        #expect(machine.requests == 4)
    }

    @Test("A pull waits longer if the server asks for it") func theServerMayAskForALongerWait() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        #expect(machine.rejected(status: 503, retryAfter: .seconds(9)) == .wait(.seconds(9)))
    }

    static let rejectedCases: [(Int, PullMachine.Failure)] = [
        (200, .badPage), (204, .badPage), (302, .rejected(status: 302)), (401, .unauthorized),
        (400, .rejected(status: 400)), (403, .rejected(status: 403)),
        (404, .rejected(status: 404)), (410, .rejected(status: 410)),
    ]

    @Test("A response that is not retried ends the pull with its failure", arguments: rejectedCases)
    func otherAnswersEndThePull(status: Int, failure: PullMachine.Failure) {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        #expect(machine.rejected(status: status, retryAfter: nil) == .finish(failure))
    }

    @Test("An unreachable server ends the pull") func aMissingAnswerEndsThePull() {
        var machine = PullMachine(isIncremental: true, limits: limits)
        _ = machine.start()
        #expect(machine.failed(.unreachable) == .finish(.network))
    }
}

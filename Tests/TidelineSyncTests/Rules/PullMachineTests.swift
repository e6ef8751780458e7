// PullMachine: scripts of pages and the requests that they lead to.

import Testing
import Tideline

@Suite struct PullMachineTests {
    private let limits = SyncLimits()

    private func full(_ latest: Int?, next: String? = "next") -> PageSummary {
        PageSummary(rowCount: 2, latest: latest.map(stamp), nextLink: next)
    }

    @Test func theFirstPullAsksForAll() {
        var machine = PullMachine(isIncremental: true, cursor: nil, limits: limits)
        #expect(machine.start() == .request(from: nil))
        #expect(machine.received(full(5, next: nil)) == .apply(cursor: stamp(5)))
        #expect(machine.applied() == .finish(nil))
        #expect(machine.requests == 1)
    }

    @Test func aLaterPullAsksFromTheCursor() {
        var machine = PullMachine(isIncremental: true, cursor: stamp(5), limits: limits)
        #expect(machine.start() == .request(from: stamp(5)))
        let empty = PageSummary(rowCount: 0, latest: nil)
        #expect(machine.received(empty) == .apply(cursor: stamp(5)))
        #expect(machine.applied() == .finish(nil))
    }

    @Test func aPageThatMovesTheCursorIsFollowedByANewQuestion() {
        var machine = PullMachine(isIncremental: true, cursor: nil, limits: limits)
        _ = machine.start()
        #expect(machine.received(full(3)) == .apply(cursor: stamp(3)))
        #expect(machine.applied() == .request(from: stamp(3)))
        #expect(machine.received(full(7)) == .apply(cursor: stamp(7)))
        #expect(machine.applied() == .request(from: stamp(7)))
        #expect(machine.requests == 3)
    }

    @Test func aPageOfEqualTimesIsFollowedByItsLink() {
        var machine = PullMachine(isIncremental: true, cursor: stamp(3), limits: limits)
        _ = machine.start()
        #expect(machine.received(full(3, next: "l1")) == .apply(cursor: stamp(3)))
        #expect(machine.applied() == .follow("l1"))
        #expect(machine.received(full(3, next: "l2")) == .apply(cursor: stamp(3)))
        #expect(machine.applied() == .follow("l2"))
        #expect(machine.received(full(4, next: "l3")) == .apply(cursor: stamp(4)))
        #expect(machine.applied() == .request(from: stamp(4)))
        #expect(machine.received(full(4, next: nil)) == .apply(cursor: stamp(4)))
        #expect(machine.applied() == .finish(nil))
    }

    @Test func theCursorNeverGoesBack() {
        var machine = PullMachine(isIncremental: true, cursor: stamp(9), limits: limits)
        _ = machine.start()
        #expect(machine.received(full(3)) == .apply(cursor: stamp(9)))
        _ = machine.applied()
        let odd = PageSummary(rowCount: 1, latest: "yesterday", nextLink: nil)
        #expect(machine.received(odd) == .apply(cursor: stamp(9)))
    }

    @Test func withoutAnIDLinksAreFollowedAndNothingIsKept() {
        var machine = PullMachine(isIncremental: false, cursor: stamp(9), limits: limits)
        #expect(machine.start() == .request(from: nil))
        #expect(machine.received(full(12, next: "l1")) == .apply(cursor: nil))
        #expect(machine.applied() == .follow("l1"))
        #expect(machine.received(full(15, next: nil)) == .apply(cursor: nil))
        #expect(machine.applied() == .finish(nil))
    }

    @Test func anEmptyPageEndsWhateverItsLinkSays() {
        var machine = PullMachine(isIncremental: false, cursor: nil, limits: limits)
        _ = machine.start()
        _ = machine.received(PageSummary(rowCount: 0, latest: nil, nextLink: "again"))
        #expect(machine.applied() == .finish(nil))
    }

    @Test func endlessLinksEnd() {
        var few = SyncLimits()
        few.pagesMax = 3
        var machine = PullMachine(isIncremental: false, cursor: nil, limits: few)
        _ = machine.start()
        for _ in 0..<3 {
            #expect(machine.received(full(1)) == .apply(cursor: nil))
            _ = machine.applied()
        }
        #expect(machine.received(full(1)) == .finish(.tooManyPages))
    }

    @Test func busyServersAreAskedAgainWithBackoff() {
        var machine = PullMachine(isIncremental: true, cursor: nil, limits: limits)
        _ = machine.start()
        for (status, wait) in [(503, 500), (429, 1000), (408, 2000)] {
            #expect(
                machine.refused(status: status, retryAfter: nil) == .wait(.milliseconds(wait))
            )
            #expect(machine.waited() == .request(from: nil))
        }
        #expect(machine.refused(status: 500, retryAfter: nil) == .finish(.network))
        #expect(machine.requests == 4)
    }

    @Test func theServerMayAskForMoreTime() {
        var machine = PullMachine(isIncremental: true, cursor: nil, limits: limits)
        _ = machine.start()
        #expect(machine.refused(status: 503, retryAfter: .seconds(9)) == .wait(.seconds(9)))
    }

    static let refusedCases: [(Int, PullMachine.Failure)] = [
        (200, .badPage), (204, .badPage), (302, .rejected(status: 302)), (401, .unauthorized),
        (400, .rejected(status: 400)), (403, .rejected(status: 403)),
        (404, .rejected(status: 404)), (410, .rejected(status: 410)),
    ]

    @Test(arguments: refusedCases)
    func otherAnswersEndIt(status: Int, failure: PullMachine.Failure) {
        var machine = PullMachine(isIncremental: true, cursor: nil, limits: limits)
        _ = machine.start()
        #expect(machine.refused(status: status, retryAfter: nil) == .finish(failure))
    }

    @Test func aMissingAnswerEndsIt() {
        var machine = PullMachine(isIncremental: true, cursor: nil, limits: limits)
        _ = machine.start()
        #expect(machine.failed() == .finish(.network))
    }
}

// VerifyMachine: scripts of digests, and the resulting ranges.

import Testing
import Tideline

@Suite struct VerifyMachineTests {
    private func digest(
        _ after: String?,
        _ upTo: String?,
        _ count: Int,
        _ digest: String
    ) -> RangeDigest {
        RangeDigest(range: IDRange(after: after, upTo: upTo), count: count, digest: digest)
    }

    @Test("Verifying equal rows needs one request") func equalRowsNeedOneRequest() {
        var machine = VerifyMachine()
        #expect(machine.start() == .ask(IDRange()))
        let ranges = [digest(nil, "m", 5000, "a"), digest("m", nil, 4000, "b")]
        #expect(machine.answered(ranges, local: ranges) == .finish(nil))
    }

    @Test("Verify divides ranges that differ until they are small enough to fetch")
    func differencesAreDividedUntilTheyAreSmall() {
        var machine = VerifyMachine(fetchRowsMax: 10)
        _ = machine.start()
        let server = [
            digest(nil, "f", 3, "a"), digest("f", "m", 500, "b"), digest("m", nil, 500, "c"),
        ]
        var local = server
        local[0].digest = "x"
        local[1].count = 499
        #expect(machine.answered(server, local: local) == .ask(IDRange(after: "f", upTo: "m")))
        let parts = [digest("f", "g", 10, "d"), digest("g", "m", 490, "e")]
        var own = parts
        own[0].digest = "y"
        #expect(
            machine.answered(parts, local: own) == .fetch(IDRange(after: "f", upTo: "g"))
        )
        #expect(machine.fetched() == .fetch(IDRange(after: nil, upTo: "f")))
        #expect(machine.fetched() == .finish(nil))
    }

    @Test("A range that the server does not divide is fetched")
    func aRangeThatIsNotDividedIsFetched() {
        var machine = VerifyMachine(fetchRowsMax: 10)
        _ = machine.start()
        let server = [digest(nil, nil, 500, "a")]
        let local = [digest(nil, nil, 500, "b")]
        #expect(machine.answered(server, local: local) == .fetch(IDRange()))
    }

    @Test("An endless chain of ranges ends the verification") func anEndlessChainOfRangesEnds() {
        var machine = VerifyMachine(fetchRowsMax: 1, requestsMax: 3)
        var action = machine.start()
        var requests = 0
        while case .ask = action {
            requests += 1
            let server = [digest("a", "\(requests)", 9, "x"), digest("b", "\(requests)", 9, "x")]
            let local = [digest("a", "\(requests)", 9, "y"), digest("b", "\(requests)", 9, "y")]
            action = machine.answered(server, local: local)
        }
        #expect(requests == 3)
        #expect(action == .finish(.tooManyRequests))
    }
}

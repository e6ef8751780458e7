// A caller has half of the writes that may wait, at most, while other callers wait.

import Testing
import TidelineServerCore

@Suite struct WriteQueueTests {
    @Test func aCallerHasItsShare() {
        var queue = WriteQueue<String>()
        var places: [Int] = []
        for number in 0..<5 { places.append(queue.append("a\(number)", count: 1, of: "anna")) }
        // Nobody else waits.
        #expect(!queue.exceedsShare("anna", of: 8))
        _ = queue.append("b", count: 1, of: "bert")
        #expect(queue.exceedsShare("anna", of: 8))
        #expect(!queue.exceedsShare("bert", of: 8))
        #expect(!queue.exceedsShare("carl", of: 8) && !queue.exceedsShare(nil, of: 8))
        for place in places.prefix(2) { _ = queue.remove(place) }
        #expect(!queue.exceedsShare("anna", of: 8))
        _ = queue.takeAll()
        _ = queue.append("c", count: 9, of: "bert")
        #expect(!queue.exceedsShare("anna", of: 8) && !queue.exceedsShare("bert", of: 8))
    }
}

// PushFailures: the operations that failed in a push, and how often.

import TidelineCore

/// The failures of a push, by operation.
struct PushFailures: Sendable {
    typealias Failure = PushMachine.Failure

    /// The last response to each operation that was failed with 5xx, or that something between client and
    /// server rejected.
    private var last: [Int64: Failure] = [:]
    /// How many attempts of an operation failed.
    private var attempts: [Int64: Int] = [:]
    /// How often the responses to a group alone were too large, by its first operation.
    private var answersTooLarge: [Int64: Int] = [:]
    /// How many batches were lost.
    private var lostBatches = 0
    /// Whether operations were moved after the others and none was completed since.
    private(set) var isProbing = false
    /// Operations that something in between rejected in this push, and those of the last one that
    /// were not accepted since.
    private var refusedInBetween: [QueuedOperation] = []
    private var refusedBefore: [QueuedOperation]
    /// How many operations in a row something in between rejected.
    private(set) var refusedInRow = 0
    /// Whether some are left to the next push because of that.
    private(set) var isPartlyRefused = false

    init(refusedBefore: [QueuedOperation] = []) { self.refusedBefore = refusedBefore }

    /// The failed operations with their last responses, in the order of the queue.
    var all: [Failure] { last.sorted { $0.key < $1.key }.map(\.value) }

    /// Operations that go last in the next push.
    var lastOfNextPush: [QueuedOperation] {
        let ids = Set(refusedInBetween.map(\.id))
        return refusedBefore.filter { !ids.contains($0.id) } + refusedInBetween
    }

    /// Whether one of these operations failed before.
    func hasTried(_ operations: [QueuedOperation]) -> Bool {
        operations.contains { attempts[$0.id] != nil }
    }

    /// The most failed attempts of one of these operations.
    func tries(_ operations: [QueuedOperation]) -> Int {
        operations.compactMap { attempts[$0.id] }.max() ?? 0
    }

    /// Counts responses that show no outcome.
    mutating func note(_ failures: [Failure]) {
        for (operation, answer) in failures {
            attempts[operation.id, default: 0] += 1
            let isKept = answer.status >= 500 || answer.isRefusedInBetween
            last[operation.id] = isKept ? (operation, answer) : nil
        }
    }

    /// Counts a response to a group alone that was too large, and returns how often that happened.
    mutating func noteTooLarge(_ first: QueuedOperation) -> Int {
        answersTooLarge[first.id, default: 0] += 1
        return answersTooLarge[first.id, default: 0]
    }

    /// Counts a batch without a response, and returns how many there were.
    mutating func noteLostBatch() -> Int {
        lostBatches += 1
        return lostBatches
    }

    /// Records that these operations are tried after the others, one of which is tried first.
    mutating func beginProbe(_ lost: [QueuedOperation] = []) {
        isProbing = true
        for operation in lost { attempts[operation.id] = 1 }
    }

    /// Records that an operation was completed: the path to the server works.
    mutating func endProbe() { (isProbing, refusedInRow) = (false, 0) }

    /// Forgets the failures of an operation whose outcome was stored.
    mutating func remove(_ operation: QueuedOperation) {
        attempts[operation.id] = nil
        last[operation.id] = nil
        refusedInBetween.removeAll { $0.id == operation.id }
        refusedBefore.removeAll { $0.id == operation.id }
    }

    /// Records operations that something in between rejected.
    ///
    /// - Returns: Whether all of them were rejected before in this push.
    @discardableResult
    mutating func noteRefusedInBetween(_ operations: [QueuedOperation]) -> Bool {
        let known = Set(refusedInBetween.map(\.id))
        refusedInBetween += operations.filter { !known.contains($0.id) }
        return operations.allSatisfy { known.contains($0.id) }
    }

    /// Counts rejections in a row.
    mutating func countRefusedInRow(_ count: Int) { refusedInRow += count }

    /// Records that rejected operations are left to the next push.
    mutating func leaveRefused() { isPartlyRefused = true }
}

// PushFailures: the operations that failed in a push, and their numbers of attempts.

import TidelineCore

/// The failures of a push, by operation.
struct PushFailures: Sendable {
    typealias Failure = PushMachine.Failure

    /// The last response to each operation that failed with 5xx, or that a proxy rejected.
    private var last: [Int64: Failure] = [:]
    /// The number of failed attempts of each operation.
    private var attempts: [Int64: Int] = [:]
    /// The number of times that the responses to a single group were too large, by the id of the
    /// group's first operation.
    private var answersTooLarge: [Int64: Int] = [:]
    private var lostBatches = 0
    /// Whether operations were moved to the end, and no operation has been completed since then.
    private(set) var isProbing = false
    /// The operations that a proxy rejected in this push; `rejectedBefore` has those that it
    /// rejected in the last push and that have not been accepted since then.
    private var rejectedByProxy: [QueuedOperation] = []
    private var rejectedBefore: [QueuedOperation]
    /// The number of consecutive operations that a proxy rejected.
    private(set) var rejectedInRow = 0
    /// Whether some operations are left to the next push because a proxy rejected them.
    private(set) var isPartlyRejected = false

    init(rejectedBefore: [QueuedOperation] = []) { self.rejectedBefore = rejectedBefore }

    /// The failed operations and their last responses, in the order of the queue.
    var all: [Failure] { last.sorted { $0.key < $1.key }.map(\.value) }

    /// The operations that the next push sends last.
    var lastOfNextPush: [QueuedOperation] {
        let ids = Set(rejectedByProxy.map(\.id))
        return rejectedBefore.filter { !ids.contains($0.id) } + rejectedByProxy
    }

    /// Returns whether one of these operations failed before.
    func hasTried(_ operations: [QueuedOperation]) -> Bool {
        operations.contains { attempts[$0.id] != nil }
    }

    /// Returns the highest number of failed attempts of any of these operations.
    func tries(_ operations: [QueuedOperation]) -> Int {
        operations.compactMap { attempts[$0.id] }.max() ?? 0
    }

    /// Counts responses that do not reveal an outcome.
    mutating func note(_ failures: [Failure]) {
        for (operation, answer) in failures {
            attempts[operation.id, default: 0] += 1
            let isKept = answer.status >= 500 || answer.isRejectedByProxy
            last[operation.id] = isKept ? (operation, answer) : nil
        }
    }

    /// Counts an oversized response to a single group, and returns the number of such responses.
    mutating func noteTooLarge(_ first: QueuedOperation) -> Int {
        answersTooLarge[first.id, default: 0] += 1
        return answersTooLarge[first.id, default: 0]
    }

    /// Counts a batch without a response, and returns the number of such batches.
    mutating func noteLostBatch() -> Int {
        lostBatches += 1
        return lostBatches
    }

    /// Records that these operations are retried after all others.
    ///
    /// The next operation shows whether the server can be reached.
    mutating func beginProbe(_ lost: [QueuedOperation] = []) {
        isProbing = true
        for operation in lost { attempts[operation.id] = 1 }
    }

    /// Records that an operation was completed, which shows that the server can be reached.
    mutating func endProbe() { (isProbing, rejectedInRow) = (false, 0) }

    /// Removes the failures of an operation whose outcome was stored.
    mutating func remove(_ operation: QueuedOperation) {
        attempts[operation.id] = nil
        last[operation.id] = nil
        rejectedByProxy.removeAll { $0.id == operation.id }
        rejectedBefore.removeAll { $0.id == operation.id }
    }

    /// Records operations that a proxy rejected.
    ///
    /// - Returns: Whether a proxy already rejected all of them earlier in this push.
    @discardableResult
    mutating func noteRejectedByProxy(_ operations: [QueuedOperation]) -> Bool {
        let known = Set(rejectedByProxy.map(\.id))
        rejectedByProxy += operations.filter { !known.contains($0.id) }
        return operations.allSatisfy { known.contains($0.id) }
    }

    /// Counts consecutive operations that a proxy rejected.
    mutating func countRejectedInRow(_ count: Int) { rejectedInRow += count }

    /// Records that rejected operations are left to the next push.
    mutating func leaveRejected() { isPartlyRejected = true }
}

// PushBudget: the number of operations in a request. The number grows while requests succeed, and
// shrinks when they are lost or too large. Pure.

/// The maximum size of the next push request, in operations and bytes.
package struct PushBudget: Sendable, Hashable {
    package private(set) var rows: Int
    package private(set) var bytes: Int
    package private(set) var usesBatches: Bool
    /// Whether the server has ever sent a batch response.
    package private(set) var hasTakenBatch: Bool
    /// Whether the server confirms each write by its request id (OASIS Repeatable Requests 1.0,
    /// `Repeatability-Result`).
    package private(set) var namesRequests: Bool
    /// Whether other responses have proven that this is an original server, which does not accept
    /// batches.
    package private(set) var isOfOriginalServer = false
    /// Whether the server reports that it does not support batches, so that groups are split.
    private var splitsGroups: Bool
    private let limits: SyncLimits

    package init(
        limits: SyncLimits,
        usesBatches: Bool = true,
        hasTakenBatch: Bool = false,
        namesRequests: Bool = false,
        splitsGroups: Bool = false
    ) {
        self.limits = limits
        self.usesBatches = usesBatches
        self.hasTakenBatch = hasTakenBatch
        self.namesRequests = namesRequests
        self.splitsGroups = splitsGroups
        rows = max(1, usesBatches ? limits.batchRowsFirst : limits.parallelOperations)
        bytes = limits.batchBytesMax
    }

    /// Reduces the size of the first batches if the first operation of the queue was sent
    /// `attempts` times without a response.
    ///
    /// The network may be too slow for larger batches. The attempts may belong to pushes that ended
    /// when the app was terminated.
    package mutating func begin(afterAttempts attempts: Int) {
        guard usesBatches else { return }
        let factor = 1 << (2 * min(max(0, attempts), 10))
        rows = max(1, min(rows, limits.batchRowsFirst / factor))
        bytes = min(bytes, max(Self.bytesMin, limits.batchBytesMax / factor))
    }

    /// The way in which the operations of one transaction are sent.
    package var groups: PushSlice.Groups {
        if usesBatches { return .together }
        return splitsGroups ? .split : .alone
    }

    /// Handles a response to a write.
    package mutating func note(_ answer: PushAnswer) {
        if answer.wasAcceptedAsRequest { namesRequests = true }
    }

    /// Records that responses have proven that this is an original server.
    package mutating func learnOriginalServer() {
        if !namesRequests, !hasTakenBatch { isOfOriginalServer = true }
    }

    /// Increases the size after a successful request.
    package mutating func succeeded(inBatch: Bool = false) {
        if inBatch { hasTakenBatch = true }
        guard usesBatches else { return }
        rows = min(rows * 2, limits.batchRowsMax)
        bytes = min(bytes * 2, limits.batchBytesMax)
    }

    /// Reduces the size after a batch that was lost or too large.
    package mutating func shrink() {
        rows = max(1, rows / 4)
        bytes = max(Self.bytesMin, bytes / 4)
    }

    /// Halves the size after a proxy rejected a batch of `count` operations.
    package mutating func halve(_ count: Int) { rows = max(1, min(rows, count / 2)) }

    /// Reduces the size after the server executed only `count` operations of a batch.
    package mutating func shrink(to count: Int) { rows = max(1, min(rows, count)) }

    /// Stops using batches, because the server does not accept them.
    ///
    /// `says` is true if the server itself reported that. If the server only rejected this batch, a
    /// group is still sent in one batch.
    package mutating func giveUpBatches(says: Bool) {
        usesBatches = false
        splitsGroups = says
        rows = max(1, limits.parallelOperations)
    }

    private static let bytesMin = 16 << 10
}

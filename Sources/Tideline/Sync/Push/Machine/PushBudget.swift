// PushBudget: how many operations a request has. The number grows while requests succeed, and shrinks when they are
// lost or too large. Pure.

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
    /// Whether other responses have proven that the server is an original one, which does not accept batches.
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

    /// Makes the first batches smaller if the first operation of the queue was sent `attempts` times without a
    /// response.
    ///
    /// The attempts may have been in pushes that were killed. The network may be too slow for larger batches.
    package mutating func begin(afterAttempts attempts: Int) {
        guard usesBatches else { return }
        let factor = 1 << (2 * min(max(0, attempts), 10))
        rows = max(1, min(rows, limits.batchRowsFirst / factor))
        bytes = min(bytes, max(Self.bytesMin, limits.batchBytesMax / factor))
    }

    /// How the operations of one transaction are sent.
    package var groups: PushSlice.Groups {
        if usesBatches { return .together }
        return splitsGroups ? .split : .alone
    }

    /// Handles a response to a write.
    package mutating func note(_ answer: PushAnswer) {
        if answer.wasAcceptedAsRequest { namesRequests = true }
    }

    /// Records that responses have proven that the server is an original one.
    package mutating func learnOriginalServer() {
        if !namesRequests, !hasTakenBatch { isOfOriginalServer = true }
    }

    /// Grows after a successful request.
    package mutating func succeeded(inBatch: Bool = false) {
        if inBatch { hasTakenBatch = true }
        guard usesBatches else { return }
        rows = min(rows * 2, limits.batchRowsMax)
        bytes = min(bytes * 2, limits.batchBytesMax)
    }

    /// Shrinks after a batch that was lost or too large.
    package mutating func shrink() {
        rows = max(1, rows / 4)
        bytes = max(Self.bytesMin, bytes / 4)
    }

    /// A proxy rejected a batch of `count` operations: each half is sent by itself.
    package mutating func halve(_ count: Int) { rows = max(1, min(rows, count / 2)) }

    /// The server executed only `count` operations of a batch.
    package mutating func shrink(to count: Int) { rows = max(1, min(rows, count)) }

    /// The server does not accept batches.
    ///
    /// If `says`, the server itself reported it. If the server only rejected this batch, a group is still sent
    /// in one batch.
    package mutating func giveUpBatches(says: Bool) {
        usesBatches = false
        splitsGroups = says
        rows = max(1, limits.parallelOperations)
    }

    private static let bytesMin = 16 << 10
}

// PushBudget: how many operations go out in one request. It grows while requests come through, and
// shrinks when they are lost or too large. Pure.

package struct PushBudget: Sendable, Hashable {
    package private(set) var rows: Int
    package private(set) var bytes: Int
    package private(set) var usesBatches: Bool
    /// Whether the server has answered a batch as one.
    package private(set) var hasTakenBatch: Bool
    /// Whether the server has said of a write that it was done as the request that it names: it says
    /// that of each (OASIS Repeatable Requests 1.0, `Repeatability-Result`).
    package private(set) var namesRequests: Bool
    /// Whether other answers have proven the server to be an original one, which takes no batches.
    package private(set) var isOfOriginalServer = false
    /// Whether the server says that it knows no batches: then no operations can be done as one.
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

    /// The first operation of the queue went out so often without an answer, maybe in pushes that
    /// were killed: the link may not take as much as that.
    package mutating func begin(afterAttempts attempts: Int) {
        guard usesBatches else { return }
        let factor = 1 << (2 * min(max(0, attempts), 10))
        rows = max(1, min(rows, limits.batchRowsFirst / factor))
        bytes = min(bytes, max(Self.bytesMin, limits.batchBytesMax / factor))
    }

    /// What becomes of the operations of one transaction.
    package var groups: PushSlice.Groups {
        if usesBatches { return .together }
        return splitsGroups ? .split : .alone
    }

    /// An answer to a write came.
    package mutating func hear(_ answer: PushAnswer) {
        if answer.wasAcceptedAsRequest { namesRequests = true }
    }

    /// Answers have proven that the server is an original one.
    package mutating func learnOriginalServer() {
        if !namesRequests, !hasTakenBatch { isOfOriginalServer = true }
    }

    /// A request was answered.
    package mutating func succeeded(inBatch: Bool = false) {
        if inBatch { hasTakenBatch = true }
        guard usesBatches else { return }
        rows = min(rows * 2, limits.batchRowsMax)
        bytes = min(bytes * 2, limits.batchBytesMax)
    }

    /// A batch was lost, or was too large.
    package mutating func shrink() {
        rows = max(1, rows / 4)
        bytes = max(Self.bytesMin, bytes / 4)
    }

    /// Something in between refused a batch of so many operations: each half goes by itself.
    package mutating func halve(_ count: Int) { rows = max(1, min(rows, count / 2)) }

    /// Only so many operations of a batch were come to.
    package mutating func shrink(to count: Int) { rows = max(1, min(rows, count)) }

    /// The server takes no batches.
    ///
    /// `says`: it says so itself. Where it only did not take this one, a group goes as one still.
    package mutating func giveUpBatches(says: Bool) {
        usesBatches = false
        splitsGroups = says
        rows = max(1, limits.parallelOperations)
    }

    private static let bytesMin = 16 << 10
}

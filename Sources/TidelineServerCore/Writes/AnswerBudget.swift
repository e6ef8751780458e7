// AnswerBudget: how many bytes the answers of one batch have, and how many they may have.
//
// The rows of all answers are in memory until the batch is answered. If the budget is used up, the next write is
// rejected and not executed, so that every executed write can be reported to its caller.

/// The budget for the answers of a batch, in bytes.
package struct AnswerBudget: Sendable {
    /// The maximum number of bytes.
    ///
    /// An answer is built if the budget is not used up yet, so the last one may exceed it.
    package let bytesMax: Int
    package private(set) var bytes: Int
    /// The reservation in the memory for all answers; nil if the answers are not counted.
    let reservation: AnswerReservation?

    package init(bytesMax: Int = .max, reservation: AnswerReservation? = nil) {
        bytes = reservation?.finishedBytes ?? 0
        self.reservation = reservation
        let sum = bytesMax.addingReportingOverflow(bytes)
        self.bytesMax = sum.overflow ? .max : sum.partialValue
    }

    package var isSpent: Bool { bytes >= bytesMax }

    /// Counts an answer.
    package mutating func take(bytes count: Int) {
        let sum = bytes.addingReportingOverflow(count)
        bytes = sum.overflow ? .max : sum.partialValue
    }

    /// Counts the row of a write's outcome.
    package mutating func take(_ outcome: WriteOutcome) {
        take(bytes: outcome.row?.json.count ?? 0)
    }

    /// Counts the rows of a group's outcome.
    mutating func take(_ outcome: GroupOutcome) {
        switch outcome {
        case .done(let outcomes): for outcome in outcomes { take(outcome) }
        case .rejected(_, let outcome): take(outcome)
        case .failed, .dependencyFailed, .notReached: break
        }
    }

    /// Rejects a write if the budget is used up, or if the answer to an earlier write exceeded the memory.
    package func check() throws(ServerError) {
        if isSpent { throw .batchAnswersTooLarge(bytesMax) }
        if reservation?.isShort == true { throw .batchMemoryFull }
    }

    /// Returns whether there is memory for the row in the answer to a write.
    ///
    /// Call it before any part of the write is executed, because the result of an executed write has to be reported.
    package func fits(_ outcome: WriteOutcome) -> Bool {
        fits(bytes: outcome.row?.json.count ?? 0)
    }

    /// Whether there is memory for one more answer.
    func fits(bytes count: Int) -> Bool {
        guard let reservation else { return true }
        let sum = bytes.addingReportingOverflow(count)
        let total = sum.overflow ? .max : sum.partialValue
        return total <= ResponseMemory.smallBytes || reservation.take(total: total)
    }
}

// AnswerBudget: how many bytes the answers of one batch hold, and how many they may.
//
// The rows of all answers are in memory until the batch is answered. A write that would come when
// the budget is spent is rejected and not done, so that the answer to its caller is true.

/// The bytes of the answers of a batch.
package struct AnswerBudget: Sendable {
    /// Answers that begin below it are made, so the last of them may pass it.
    package let bytesMax: Int
    package private(set) var bytes: Int
    /// The reservation of the answers in the memory for all answers; nil if they are not counted.
    let room: AnswerRoom?

    package init(bytesMax: Int = .max, room: AnswerRoom? = nil) {
        bytes = room?.settled ?? 0
        self.room = room
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
        case .refused(_, let outcome): take(outcome)
        case .failed, .dependencyFailed, .notReached: break
        }
    }

    /// Rejects a write when the budget is spent, or after a write whose answer exceeded the memory.
    package func check() throws(ServerError) {
        if isSpent { throw .batchAnswersTooLarge(bytesMax) }
        if room?.isLacking == true { throw .noRoomInBatch }
    }

    /// Checks that there is memory for the row that a write is answered with.
    ///
    /// Call it before any part of the write is done: the result of a completed write has to be
    /// reported.
    package func hasRoom(for outcome: WriteOutcome) -> Bool {
        hasRoom(bytes: outcome.row?.json.count ?? 0)
    }

    /// Whether there is memory for one more answer.
    func hasRoom(bytes count: Int) -> Bool {
        guard let room else { return true }
        let sum = bytes.addingReportingOverflow(count)
        let total = sum.overflow ? .max : sum.partialValue
        return total <= AnswerMemory.smallBytes || room.take(total: total)
    }
}

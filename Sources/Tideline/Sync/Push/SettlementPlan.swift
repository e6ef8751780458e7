// SettlementPlan: the changes that follow from an outcome, and the result of applying them.

import TidelineCore

/// The changes that follow from an outcome.
enum SettlementPlan: Sendable {
    /// The operation is complete, and the server has this state.
    ///
    /// `isOwn` is true if no other writer changed the row in between. `isDone` is true if the
    /// operation took effect; otherwise the server's row replaced it.
    case accept(ServerState, isOwn: Bool, isDone: Bool)
    /// The restored server has lost the row, and has resolved the operation against a different
    /// state of it.
    ///
    /// The value is the resulting row. This device keeps its row as a lost row. If a later edit
    /// waits, the modified operation is resent.
    case lose(Row, QueuedOperation)
    /// The modified operation is resent, based on the server's state.
    case sendAgain(QueuedOperation, ServerState)
    /// No part of the operation took effect, so it is retried with a new request.
    case retry(QueuedOperation)
    /// An earlier form of the operation arrived and resulted in this row.
    case rebase(Row)
    /// The merged row is sent on top of the server's row.
    case merge(Row, onto: Row)
    /// The server's state is stored, and then the app's handler is called.
    case ask(ServerState)
    /// The operation is parked until the app decides.
    case park(ServerState?, ParkText)
}

/// The text of an error that is kept in the store.
struct ParkText: Sendable {
    var errorID: String
    var status: Int?
    var message: String
    /// The rule that the row breaks.
    var brokenRule: BrokenRule?
    /// The conditions under which the server rejected the operation; nil if the row itself is the
    /// reason.
    var conditions: ParkedConditions?
    /// The reference because of which the server rejected the operation.
    var reference: BrokenReference?
}

/// The result of applying a plan.
package enum SettlementResult: Sendable, Hashable {
    /// The operation was removed from the queue.
    case completed
    /// The operation has to be resent.
    case resend
    /// No part of the operation took effect, although a response arrived; it is retried.
    case untouched
    /// The operation was rejected and parked.
    case parked
    /// The operation was rejected, and an edit made in the meantime is sent instead.
    case released
    /// The operation was rejected and removed, because its row was deleted locally in the meantime.
    case dropped
    /// The operation was rejected, and waits for the insert of its parent, which is still in the
    /// queue.
    case waiting
    /// The app's handler has to be called.
    case asked
    /// The app removed the operation in the meantime.
    case gone
}

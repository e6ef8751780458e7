// SettlementPlan: the changes that the server's decision about an operation leads to, and their result.

import TidelineCore

/// The changes that a decision of the server leads to.
enum SettlementPlan: Sendable {
    /// The operation is complete, and the server has this state.
    ///
    /// `isOwn`: no other writer changed the row in between. `isDone`: the operation took effect;
    /// otherwise the server's row replaced it.
    case accept(ServerState, isOwn: Bool, isDone: Bool)
    /// The changed operation is sent again, based on the server's state.
    case sendAgain(QueuedOperation, ServerState)
    /// The server received no part of the operation: it is retried with a new request.
    case tryAnew(QueuedOperation)
    /// An earlier version of the operation arrived, and this row is the result.
    case rebase(Row)
    /// This merged row is sent on top of the server's.
    case merge(Row, onto: Row)
    /// This state of the server is stored, and then the app's handler decides.
    case ask(ServerState)
    /// The operation is parked until the app decides.
    case park(ServerState?, ParkText)
}

/// The text of a durable error.
struct ParkText: Sendable {
    var errorID: String
    var status: Int?
    var message: String
    /// The conditions of the rejection; nil if the row itself caused it.
    var conditions: ParkedConditions?
}

/// The result of a plan that was carried out.
package enum PushSettled: Sendable, Hashable {
    /// The operation left the queue.
    case completed
    /// The operation has to be sent again.
    case again
    /// Nothing of it arrived, although a response did: it is retried.
    case untouched
    /// It was rejected and waits for the app.
    case parked
    /// It was rejected, and an edit made in the meantime is sent instead.
    case released
    /// It was rejected and removed: its row was deleted here in the meantime.
    case dropped
    /// The app's handler has to decide.
    case asked
    /// The app dropped it in the meantime.
    case gone
}

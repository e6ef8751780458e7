// PushOutcome, PushSettled: what is decided about an operation that was sent, and what came of it.

import TidelineCore

/// What is done with an operation.
enum PushOutcome: Sendable {
    /// It is done, and the server has this state. `isOwn`: nobody else changed the row in between.
    case accept(ServerState, isOwn: Bool)
    /// It goes out again, changed, on top of the server's state.
    case sendAgain(QueuedOperation, ServerState)
    /// Nothing of it arrived: it is tried again, with a request of its own.
    case tryAnew(QueuedOperation)
    /// An earlier form of it arrived, and this row came of it.
    case rebase(Row)
    /// This row, which both changes make, goes out on top of the server's.
    case merge(Row, onto: Row)
    /// The app's handler decides, when this state of the server is stored.
    case ask(ServerState)
    /// It waits for the app.
    case park(ServerState?, ParkText)
}

/// What a durable error says.
struct ParkText: Sendable {
    var errorID: String
    var status: Int?
    var message: String
    /// The conditions of the refusal; nil if it was for the row itself.
    var conditions: ParkedConditions?
}

/// What came of it.
package enum PushSettled: Sendable, Hashable {
    /// It left the queue.
    case completed
    /// It is to be sent again.
    case again
    /// Nothing of it arrived, though an answer came: it is to be tried again.
    case untouched
    /// It was rejected and waits for the app.
    case parked
    /// It was rejected, and an edit made meanwhile is to be sent in its place.
    case released
    /// It was rejected and went: its row was deleted here meanwhile.
    case dropped
    /// The app's handler is to be asked.
    case asked
    /// The app dropped it meanwhile.
    case gone
}
